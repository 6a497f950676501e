// From what the watch on the driver's calls saw to findings; claims that cannot be are refused.
#include "audit/findings.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace warpsmith::audit {
namespace {

// Five calls of an honest kernel.
CallFacts honest_calls() {
  CallFacts facts;
  facts.calls = 5;
  facts.driver_calls = {{"cuLaunchKernel", 5}, {"cuGetErrorName", 5}};
  facts.kernels = {{"_Z10my_hgemm_tPK6__halfS1_PS_iii", 5}};
  facts.launches_on_given_stream = 5;
  facts.launches_by_call = {1, 1, 1, 1, 1};
  return facts;
}

// Of a first call that sets things up.
CallFacts first_call() {
  CallFacts facts;
  facts.calls = 1;
  facts.driver_calls = {{"cuLaunchKernel", 1}, {"cuFuncSetAttribute", 1}, {"cuLibraryLoadData", 1}};
  facts.kernels = {{"_Z10my_hgemm_tPK6__halfS1_PS_iii", 1}};
  facts.launches_on_given_stream = 1;
  facts.launches_by_call = {1};
  return facts;
}

std::vector<Finding> found(const CallFacts& later, const CallFacts& first = first_call()) {
  auto findings = judge_calls(first, later);
  std::erase_if(findings, [](const Finding& finding) { return finding.severity == Severity::note; });
  return findings;
}

void expect_found(const CallFacts& later, const char* check) {
  const auto findings = found(later);
  ASSERT_EQ(findings.size(), 1u) << check;
  EXPECT_EQ(findings.front().check, check);
  EXPECT_FALSE(findings.front().detail.empty());
}

TEST(CallFindings, AccuseNoHonestKernel) {
  EXPECT_TRUE(found(honest_calls()).empty());
  // Lazily initialised table, cached attributes: the first call may allocate, load, even synchronise.
  CallFacts first = first_call();
  first.driver_calls["cuMemAlloc"] = 2;
  first.driver_calls["cuMemcpyHtoD"] = 1;
  first.driver_calls["cuCtxSynchronize"] = 1;
  first.launches_by_call = {2};
  EXPECT_TRUE(found(honest_calls(), first).empty());
  EXPECT_FALSE(judge_calls(first, honest_calls()).empty());  // but it is said
  // Split-K: a cleared workspace and two kernels a call; programmatic dependent launch.
  CallFacts split = honest_calls();
  split.driver_calls = {{"cuMemsetD8Async", 5}, {"cuLaunchKernelEx", 10}};
  split.launches_by_call = {2, 2, 2, 2, 2};
  split.launches_on_given_stream = 10;
  EXPECT_TRUE(found(split).empty());
  // From one call to the next as well: a note.
  CallFacts dependent = honest_calls();
  dependent.early_launches = 5;
  EXPECT_TRUE(found(dependent).empty());
  const auto findings = judge_calls(first_call(), dependent);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings.front().check, "programmatic-launch");
  EXPECT_NE(findings.front().detail.find("5 of 5 calls"), std::string::npos) << findings.front().detail;
}

TEST(CallFindings, NameEachTrick) {
  CallFacts facts = honest_calls();
  facts.launches_on_other_streams = 5;
  expect_found(facts, "side-stream");
  facts = honest_calls();
  facts.launches_on_default_stream = 5;
  expect_found(facts, "side-stream");
  facts = honest_calls();
  facts.launches_outside_calls = 1;
  expect_found(facts, "threads");
  facts = honest_calls();
  facts.launches_by_call = {1, 0, 1, 0, 1};
  expect_found(facts, "skipped-work");
  facts = honest_calls();
  facts.driver_calls.clear();
  facts.kernels.clear();
  facts.launches_by_call = {0, 0, 0, 0, 0};
  expect_found(facts, "skipped-work");
  facts = honest_calls();
  facts.driver_calls["cuGraphLaunch"] = 5;
  expect_found(facts, "graph-launch");
  facts = honest_calls();
  facts.driver_calls["cuLaunchHostFunc"] = 5;
  expect_found(facts, "host-function");
  for (const char* call :
       {"cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoH", "cuMemcpyDtoHAsync", "cuEventQuery"}) {
    facts = honest_calls();
    facts.driver_calls[call] = 5;
    expect_found(facts, "synchronisation");
  }
  facts = honest_calls();
  facts.driver_calls["cuStreamCreateWithPriority"] = 1;
  expect_found(facts, "side-stream");
  facts = honest_calls();
  facts.persisting_windows = 5;
  expect_found(facts, "persisting-l2");
  facts = honest_calls();
  facts.limits_set = {6};
  expect_found(facts, "persisting-l2");
  facts = honest_calls();
  facts.kernels["nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT"] = 5;
  expect_found(facts, "library-call");
}

TEST(CallFindings, KnowLibrariesByTheirKernels) {
  for (const char* kernel :
       {"nvjet_hsh_64x8_64x16_4x1_v_bz_TNN", "sm90_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize64x64x64_cublas",
        "ampere_h16816gemm_128x128_ldg8_stages_64x3_nn", "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8>(Params)",
        "_ZN8cublasLt19splitKreduce_kernelILi32EEEvv"}) {
    EXPECT_FALSE(library_of_kernel(kernel).empty()) << kernel;
  }
  for (const char* kernel : {"_Z10my_hgemm_tPK6__halfS1_PS_iii", "hgemm_128x128x64", "_Z14split_k_reducePKfP6__half",
                             "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalEEEvv", "ampere_style_tile"}) {
    EXPECT_TRUE(library_of_kernel(kernel).empty()) << kernel;
  }
}

TEST(ThreadFindings, CountFromOutside) {
  EXPECT_TRUE(judge_threads(4, 4).empty());
  const auto findings = judge_threads(4, 6);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings.front().severity, Severity::suspicious);
  EXPECT_NE(findings.front().detail.find("2 threads"), std::string::npos);
}

TEST(CallFacts, RefuseWhatCannotBe) {
  const nlohmann::json good = {{"calls", 1},
                               {"driver_calls", {{"cuLaunchKernel", 1}}},
                               {"kernels", {{"k", 1}}},
                               {"launches_on_given_stream", 1},
                               {"launches_on_default_stream", 0},
                               {"launches_on_other_streams", 0},
                               {"launches_by_call", {1}},
                               {"limits_set", nlohmann::json::array()},
                               {"persisting_windows", 0},
                               {"launches_outside_calls", 0}};
  ASSERT_TRUE(call_facts_from(good).ok());
  EXPECT_EQ(call_facts_from(good)->kernels.at("k"), 1);
  EXPECT_FALSE(call_facts_from(nlohmann::json()).ok());
  EXPECT_FALSE(call_facts_from(nlohmann::json::array()).ok());
  for (const auto& [name, value] : good.items()) {
    nlohmann::json bad = good;
    bad.erase(name);
    EXPECT_FALSE(call_facts_from(bad).ok()) << name;
    bad[name] = "text";
    EXPECT_FALSE(call_facts_from(bad).ok()) << name;
  }
  nlohmann::json bad = good;
  bad["driver_calls"]["cuLaunchKernel"] = -1;
  EXPECT_FALSE(call_facts_from(bad).ok());
  bad = good;
  for (int i = 0; i < 5000; ++i) bad["kernels"]["k" + std::to_string(i)] = 1;
  EXPECT_FALSE(call_facts_from(bad).ok());
}

TEST(CallFindings, QuoteForeignNamesSafely) {
  CallFacts facts = honest_calls();
  facts.kernels["nvjet_\x1b[2J\n" + std::string(1000, 'x')] = 5;
  const auto findings = found(facts);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings.front().detail.find('\x1b'), std::string::npos);
  EXPECT_EQ(findings.front().detail.find('\n'), std::string::npos);
  EXPECT_LT(findings.front().detail.size(), 300u);
}

}  // namespace
}  // namespace warpsmith::audit
