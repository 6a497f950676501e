// sm80 kernels as PTX for compute_80, compute_86 and compute_89: the driver compiles them for the GPU at hand, and they
// pass all gates there. Machine code of those architectures would not load on it, and the shared memory, the clusters
// and the dependent launches of a newer one are not in them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/file.h"
#include "codegen/generate.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/gates.h"
#include "gpu_fixture.h"
#include "sm80_pairs.h"

namespace warpsmith {
namespace {

using sm80_pairs::compile_all;
using sm80_pairs::Pair;
using sm80_pairs::pairs_for;

constexpr std::size_t kPairs = 32;  // of a shape and a recipe, of each architecture

template <class Function>
Function* driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cuda::check(cudaGetDriverEntryPointByVersion(name, &address, 12040, cudaEnableDefault, &found), name);
#else
  cuda::check(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found), name);
#endif
  return reinterpret_cast<Function*>(address);
}

// Machine code that the driver makes of PTX for the current device.
std::string compile_by_driver(const std::string& ptx) {
  static const auto create = driver_function<decltype(cuLinkCreate)>("cuLinkCreate");
  static const auto add = driver_function<decltype(cuLinkAddData)>("cuLinkAddData");
  static const auto complete = driver_function<decltype(cuLinkComplete)>("cuLinkComplete");
  static const auto destroy = driver_function<decltype(cuLinkDestroy)>("cuLinkDestroy");
  CUlinkState state = nullptr;
  cuda::check(create(0, nullptr, nullptr, &state), "cuLinkCreate");
  std::string text = ptx;  // a C string: its size includes the end
  const CUresult added = add(state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "kernel.ptx", 0, nullptr, nullptr);
  void* cubin = nullptr;
  std::size_t bytes = 0;
  const CUresult done = added == CUDA_SUCCESS ? complete(state, &cubin, &bytes) : added;
  std::string code = done == CUDA_SUCCESS ? std::string(static_cast<const char*>(cubin), bytes) : std::string();
  static_cast<void>(destroy(state));
  cuda::check(done, "cuLinkAddData, cuLinkComplete");
  return code;
}

class PtxJit : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Architectures, PtxJit, testing::Values(80, 86, 89));

TEST_P(PtxJit, PassesTheGates) {
  const Result<std::unique_ptr<Backend>> backend = make_cuda_backend(0);
  WARPSMITH_NEED_GPU(backend);
  if ((*backend)->machine().compute_capability < GetParam()) {
    GTEST_SKIP() << (*backend)->machine().name << " is older than this PTX";
  }
  const Machine machine = machine_of_architecture(fmt::format("sm_{}", GetParam())).value();
  const std::vector<Pair> pairs = pairs_for(machine, kPairs);
  std::vector<Candidate> candidates;
  for (const Pair& pair : pairs) {
    Result<Candidate> candidate = generate(pair.recipe, pair.problem, machine);
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    candidate->arch = fmt::format("compute_{}", GetParam());
    candidates.push_back(std::move(*candidate));
  }
  const std::vector<Result<Artifact>> compiled = compile_all(candidates);
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("warpsmith-jit-{}", getpid());
  std::filesystem::create_directories(folder);
  int passed = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(to_string(pairs[i].problem) + " " + to_short_string(pairs[i].recipe));
    ASSERT_TRUE(compiled[i].ok()) << compiled[i].error().message;
    const std::string ptx = read_file(compiled[i]->binary).value();
    ASSERT_NE(ptx.find(fmt::format(".target sm_{}", GetParam())), std::string::npos);
    ASSERT_TRUE((*backend)->prepare(pairs[i].problem, 1).ok());
    Artifact artifact = *compiled[i];
    artifact.binary = folder / fmt::format("{}.cubin", i);
    ASSERT_TRUE(write_file_atomic(artifact.binary, compile_by_driver(ptx)).ok());
    const Status loaded = (*backend)->load(artifact, std::get<CudaLaunch>(candidates[i].launch));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const GateReport report = run_gates(**backend, {3, 4, false, {}, pairs[i].problem.accumulator});
    const std::string words = report.gates.empty() ? "" : report.gates.back().gate + ": " + report.gates.back().detail;
    EXPECT_TRUE(report.passed()) << words << report.crash.value_or("") << report.fault.value_or("");
    ASSERT_FALSE(report.crash.has_value()) << "the context is lost";
    passed += report.passed() ? 1 : 0;
    (*backend)->unload();
  }
  std::filesystem::remove_all(folder);
  fmt::print("compute_{}: {} of {} pairs pass\n", GetParam(), passed, pairs.size());
}

}  // namespace
}  // namespace warpsmith
