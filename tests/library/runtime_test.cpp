// The runtime over a driver that only writes down what it is asked: what is launched with which parameters, and what
// the hot path does not do.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "heap_count.h"
#include "library/runtime/workspace.h"
#include "runtime_fixture.h"

namespace warpsmith::library {
namespace {

TEST_F(RuntimeTest, LaunchesWhatTheRecipeSays) {
  const Handle made = handle();
  for (const char* problem : {kTinyProblem, kMapProblem, kWorkspaceProblem}) {
    const CudaLaunch launch = launch_of(problem);
    expect(launch);
    reset_log();
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(gemm(made, problem, stream_of(5)), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    ASSERT_EQ(driver_log().launches.size(), 2U);
    for (const fake::Launch& each : driver_log().launches) {
      EXPECT_EQ(each.stream, stream_of(5));
      compare(each, launch, 1, 0);
    }
  }
}

TEST_F(RuntimeTest, AlphaAndBetaReachTheKernel) {
  const Handle made = handle();
  const CudaLaunch launch = launch_of(kTinyProblem, Scaling::alpha_beta);
  ASSERT_TRUE(launch.takes_scaling());
  expect(launch);
  ASSERT_EQ(gemm(made, kTinyProblem, nullptr, 0.5F, -1), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  compare(driver_log().launches.at(0), launch, 0.5F, -1);
  ASSERT_EQ(gemm(made, kTinyProblem, nullptr, 2, 0), WARPSMITH_STATUS_SUCCESS);
  compare(driver_log().launches.at(1), launch, 2, 0);
}

TEST_F(RuntimeTest, DependentLaunchesCarryTheirAttribute) {
  const Handle plain = handle(), dependent = handle(WARPSMITH_FALLBACK_NONE, WARPSMITH_LAUNCH_DEPENDENT);
  ASSERT_EQ(gemm(plain, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
  EXPECT_FALSE(driver_log().launches.at(0).dependent);
  ASSERT_EQ(gemm(dependent, kTinyProblem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  EXPECT_TRUE(driver_log().launches.at(1).dependent);
  ASSERT_EQ(gemm(dependent, kMapProblem), WARPSMITH_STATUS_SUCCESS);  // has no such recipe
  EXPECT_FALSE(driver_log().launches.at(2).dependent);
}

TEST_F(RuntimeTest, WarmCallsOnlyLaunch) {
  const Handle made = handle();
  for (const char* problem : {kTinyProblem, kMapProblem, kWorkspaceProblem}) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(gemm(made, problem, stream_of(6)), WARPSMITH_STATUS_SUCCESS);
  }
  entry<fake::RecordFunction>("fake_record")(false);
  reset_log();
  const std::int64_t before = heap_allocations();
  for (int i = 0; i < 100; ++i) {
    const warpsmith_status_t status =
        warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 512, 1024, 256, 1, address(1), 256, address(2), 256,
                       0, address(3), 1024, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, stream_of(6));
    const warpsmith_status_t other =
        warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 128, 256, 16384, 1, address(1), 16384, address(2),
                       16384, 0, address(3), 256, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, stream_of(6));
    ASSERT_TRUE(status == WARPSMITH_STATUS_SUCCESS && other == WARPSMITH_STATUS_SUCCESS);
  }
  EXPECT_EQ(heap_allocations(), before);
  ::operator delete(::operator new(8));
  EXPECT_GT(heap_allocations(), before);  // the counter counts
  const fake::Log& log = driver_log();
  EXPECT_EQ(log.encodes, 0);
  EXPECT_EQ(log.allocations, 0);
  EXPECT_EQ(log.memsets, 0);
  EXPECT_EQ(log.synchronizations, 0);
  EXPECT_EQ(log.loads, 0);
}

TEST_F(RuntimeTest, AMapIsEncodedOncePerAddress) {
  const Handle made = handle();
  const CudaLaunch launch = launch_of(kMapProblem);
  expect(launch);
  ASSERT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_SUCCESS);
  const std::int64_t maps = driver_log().encodes;
  EXPECT_GE(maps, 2);
  ASSERT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().encodes, maps);
  ASSERT_EQ(gemm(made, kMapProblem, nullptr, 1, 0, address(9)), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().encodes, maps + 1);
  // Far more addresses than the cache has places: each launch still has its own.
  for (std::uintptr_t i = 10; i < 2000; ++i) {
    reset_log();
    ASSERT_EQ(gemm(made, kMapProblem, nullptr, 1, 0, address(i), address(2 * i + 1)), WARPSMITH_STATUS_SUCCESS);
    const fake::Launch& last = driver_log().launches.at(0);
    for (std::size_t at = 0; at < launch.kernels.front().arguments.size(); ++at) {
      const KernelArgument& argument = launch.kernels.front().arguments[at];
      if (argument.kind != KernelArgument::Kind::tensor_map) continue;
      const void* wanted = argument.map.operand == Operand::a   ? address(i)
                           : argument.map.operand == Operand::b ? address(2 * i + 1)
                                                                : address(3);
      ASSERT_EQ(value<fake::Map>(last, at).address, wanted);
    }
  }
}

TEST_F(RuntimeTest, EveryStreamAndCaptureHasAWorkspaceOfItsOwn) {
  const Handle made = handle();
  const CudaLaunch launch = launch_of(kWorkspaceProblem);
  expect(launch);
  std::size_t parameter = 0;
  while (launch.kernels.front().arguments.at(parameter).kind != KernelArgument::Kind::workspace) ++parameter;
  const auto workspace = [&](CUstream stream) {
    EXPECT_EQ(gemm(made, kWorkspaceProblem, stream), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    return value<std::byte*>(driver_log().launches.back(), parameter);
  };
  std::byte* first = workspace(stream_of(1));
  std::byte* second = workspace(stream_of(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(workspace(stream_of(1)), first);
  EXPECT_EQ(workspace(nullptr), workspace(reinterpret_cast<CUstream>(1)));  // two names of the default stream
  for (std::int64_t i = 0; i < launch.workspace_bytes; ++i) ASSERT_EQ(first[i], std::byte{0});
  const auto capture = entry<fake::CaptureFunction>("fake_capture");
  capture(stream_of(1), 7);
  std::byte* captured = workspace(stream_of(1));
  EXPECT_NE(captured, first);
  EXPECT_EQ(workspace(stream_of(1)), captured);
  capture(stream_of(1), 8);
  EXPECT_NE(workspace(stream_of(1)), captured);
  capture(stream_of(1), 0);
  EXPECT_EQ(workspace(stream_of(1)), first);
  // Each thread has a per-thread default stream of its own.
  std::byte *mine = workspace(reinterpret_cast<CUstream>(2)), *theirs = nullptr;
  std::thread([&] { theirs = workspace(reinterpret_cast<CUstream>(2)); }).join();
  EXPECT_NE(mine, theirs);
  std::vector<std::byte*> all;
  for (std::uintptr_t i = 100; i < 100 + WorkspacePool::kOwners - 10; ++i) all.push_back(workspace(stream_of(i)));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST_F(RuntimeTest, EverythingIsFreedWithTheHandle) {
  {
    const Handle made = handle();
    ASSERT_EQ(gemm(made, kWorkspaceProblem, stream_of(1)), WARPSMITH_STATUS_SUCCESS);
  }
  EXPECT_GT(driver_log().allocations, 0);
  EXPECT_EQ(driver_log().frees, driver_log().allocations);
  EXPECT_EQ(driver_log().unloads, driver_log().loads);
}

TEST_F(RuntimeTest, WithoutAFallbackTheCallIsNotCovered) {
  const Handle made = handle();
  EXPECT_EQ(gemm(made, kLostProblem), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, static_cast<char*>(address(1)) + 2), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(gemm(made, "64x64x63 tn f16 f32"), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_TRUE(driver_log().launches.empty());
}

TEST_F(RuntimeTest, BadInputLaunchesNothing) {
  const Handle made = handle();
  ASSERT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);  // known now: the short way has to refuse as well
  reset_log();
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, address(1), nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, address(1), address(2), nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, static_cast<char*>(address(1)) + 1),
            WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 64, 64, 64, 1, address(1), 63, address(2), 64, 0,
                           address(3), 64, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr),
            WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(warpsmith_gemm(made.get(), static_cast<warpsmith_op_t>(7), WARPSMITH_OP_T, 64, 64, 64, 1, address(1), 64,
                           address(2), 64, 0, address(3), 64, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr),
            WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_TRUE(driver_log().launches.empty());
}

TEST_F(RuntimeTest, ThreadsOfAnotherDeviceAreRefused) {
  const Handle made = handle();
  ASSERT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
  warpsmith_problem_t problem{};
  problem.op_b = WARPSMITH_OP_T;
  problem.m = problem.n = problem.k = problem.lda = problem.ldb = problem.ldc = 64;
  problem.batch_count = 1;
  const Plan plan(made, problem);
  warpsmith_plan_t other = nullptr;
  std::string text(8192, '\0');
  reset_log();
  set_device(1);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_WRONG_DEVICE);               // one that is not known yet
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 0), WARPSMITH_STATUS_WRONG_DEVICE);  // only scales C
  EXPECT_EQ(warpsmith_plan_create(made.get(), &problem, &other), WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_THROW(plan.run(address(1), address(2), address(3)), StatusError);
  EXPECT_EQ(warpsmith_explain(made.get(), &problem, text.data(), text.size()), WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_EQ(driver_log().launches.size() + static_cast<std::size_t>(driver_log().memsets), 0U);
  set_device(0);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
  warpsmith_status_t fresh = WARPSMITH_STATUS_INTERNAL_ERROR;
  std::thread([&] { fresh = gemm(made, kTinyProblem); }).join();  // has device 0, as with the CUDA runtime
  EXPECT_EQ(fresh, WARPSMITH_STATUS_SUCCESS);
}

// One thread that changes its device from call to call, and the same problem on each.
TEST_F(RuntimeTest, HandlesOfTwoDevicesStandSideBySide) {
  const Handle first = handle();
  set_device(1);
  std::optional<Handle> second(handle());
  for (const char* problem : {kTinyProblem, kMapProblem, kWorkspaceProblem}) {
    for (int round = 0; round < 2; ++round) {
      for (int device = 0; device < fake::kDevices; ++device) {
        set_device(device);
        reset_log();
        ASSERT_EQ(gemm(device == 0 ? first : *second, problem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
        ASSERT_EQ(driver_log().launches.size(), 1U);
        EXPECT_EQ(driver_log().launches.front().context, fake::context_of(device));
      }
    }
  }
  // A thread without a device has the first one, not the second, before and after it destroys a handle of that.
  warpsmith_status_t refused = WARPSMITH_STATUS_SUCCESS, accepted = WARPSMITH_STATUS_INTERNAL_ERROR;
  std::uintptr_t left = 1;
  reset_log();
  std::thread([&] {
    refused = gemm(*second, kTinyProblem);
    second.reset();
    left = current_context();
    accepted = gemm(first, kTinyProblem);
  }).join();
  EXPECT_EQ(refused, WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_EQ(left, 0U);
  EXPECT_GT(driver_log().unloads, 0);  // in the context that they were in
  EXPECT_EQ(accepted, WARPSMITH_STATUS_SUCCESS);
  set_device(0);
}

TEST_F(RuntimeTest, ProductsWithoutTermsOnlyScale) {
  const Handle made = handle();
  std::vector<std::uint16_t> c(64 * 64, 0x7e00);
  const auto run = [&](std::int64_t m, std::int64_t k, float alpha, float beta, std::int64_t ldc) {
    reset_log();
    return warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_N, m, 32, k, alpha, nullptr, 64, nullptr, 32, beta,
                          c.data(), ldc, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr);
  };
  EXPECT_EQ(run(0, 8, 1, 0, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().memsets + static_cast<std::int64_t>(driver_log().launches.size()), 0);
  EXPECT_EQ(run(64, 0, 1, 0, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().memsets, 1);
  EXPECT_EQ(c[64 * 32 - 1], 0);
  EXPECT_EQ(c[64 * 32], 0x7e00);
  EXPECT_EQ(run(64, 0, 1, 0, 40), WARPSMITH_STATUS_SUCCESS);  // gaps between rows are not ours
  EXPECT_EQ(driver_log().memsets, 0);
  EXPECT_EQ(driver_log().launches.size(), 1U);
  EXPECT_EQ(run(64, 8, 0, 0.5F, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().launches.at(0).function, "warpsmith_scale");
  EXPECT_EQ(run(64, 8, 0, 1, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_TRUE(driver_log().launches.empty());
}

TEST_F(RuntimeTest, LargeBatchesAreLoopsAndSmallOnesAreNot) {
  const Handle made = handle();
  const Problem p = parse_problem(kWorkspaceProblem).value();  // 1.07 GFLOP
  const auto run = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t stride) {
    reset_log();
    return warpsmith_gemm_strided_batched(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, m, n, k, 1, address(1), k, stride,
                                          address(2), k, 0, 0, address(3), n, m * n, 3, WARPSMITH_F16,
                                          WARPSMITH_COMPUTE_32F, nullptr);
  };
  EXPECT_EQ(run(p.m, p.n, p.k, p.m * p.k), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(run(1024, 1024, 1024, 1024 * 1024 + 1), WARPSMITH_STATUS_NOT_COVERED);  // odd strides
  const CudaLaunch launch = launch_of(kLargeProblem);
  expect(launch);
  const std::int64_t stride = 1024 * 1024 + 8;
  ASSERT_EQ(run(1024, 1024, 1024, stride), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  ASSERT_EQ(driver_log().launches.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t at = 0; at < launch.kernels.front().arguments.size(); ++at) {
      const KernelArgument& argument = launch.kernels.front().arguments[at];
      if (argument.kind != KernelArgument::Kind::tensor_map || argument.map.operand == Operand::c) continue;
      const auto map = value<fake::Map>(driver_log().launches[i], at);
      const auto offset = static_cast<std::uintptr_t>(argument.map.operand == Operand::a ? 2 * stride : 0) * i;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(map.address),
                reinterpret_cast<std::uintptr_t>(address(argument.map.operand == Operand::a ? 1 : 2)) + offset);
    }
  }
}

TEST_F(RuntimeTest, PlansLaunchWithoutALookUp) {
  const Handle made = handle();
  warpsmith_problem_t problem{};
  problem.m = problem.n = problem.k = 64;
  problem.op_b = WARPSMITH_OP_T;
  const Plan plan(made, problem);
  const CudaLaunch launch = launch_of(kTinyProblem), scaled = launch_of(kTinyProblem, Scaling::alpha_beta);
  expect(launch);
  plan.run(address(1), address(2), address(3), stream_of(4));
  compare(driver_log().launches.at(0), launch, 1, 0);
  expect(scaled);
  plan.run(address(1), address(2), address(3), stream_of(4), 3, 0.25F);
  compare(driver_log().launches.at(1), scaled, 3, 0.25F);
  EXPECT_THROW(plan.run(address(1), nullptr, address(3)), StatusError);
  EXPECT_THROW(plan.run(static_cast<char*>(address(1)) + 2, address(2), address(3)), StatusError);  // no fallback
  EXPECT_EQ(driver_log().launches.size(), 2U);
}

TEST_F(RuntimeTest, ExplainTellsWhatTheCallDoes) {
  const Handle made = handle();
  warpsmith_problem_t problem{};
  problem.m = problem.n = problem.k = 64;
  problem.op_b = WARPSMITH_OP_T;
  reset_log();
  const auto json = nlohmann::json::parse(made.explain(problem));
  EXPECT_EQ(json["runs"], "kernel") << json.dump(1);
  EXPECT_EQ(json["source"], "wisdom");
  EXPECT_EQ(json["kernel"]["family"], "tiny");
  EXPECT_EQ(json["kernel"]["cubin"], "pack");
  EXPECT_EQ(json["device"], fake::kDeviceName);
  EXPECT_EQ(driver_log().loads, 0);
  problem.m = problem.n = 4096;
  problem.k = 128;
  EXPECT_EQ(nlohmann::json::parse(made.explain(problem))["runs"], "nothing");
  const Handle with_fallback = handle(WARPSMITH_FALLBACK_CUBLASLT);
  EXPECT_EQ(nlohmann::json::parse(with_fallback.explain(problem))["runs"], "cublaslt");
  problem.k = 0;
  EXPECT_EQ(nlohmann::json::parse(made.explain(problem))["runs"], "nothing");
}

TEST_F(RuntimeTest, ExplainPassesOverKernelsThatCannotBeHad) {
  warpsmith_problem_t problem{};
  problem.m = problem.n = problem.k = 64;
  problem.op_b = WARPSMITH_OP_T;
  warpsmith_options_t options{};
  const std::string empty = (folder_ / "empty.wspack").string();
  ASSERT_TRUE(PackWriter{nlohmann::json::object()}.write(empty).ok());
  options.wisdom_path = wisdom_.c_str();
  options.pack_path = empty.c_str();
  options.cache_path = cache_.c_str();
  ASSERT_EQ(setenv("WARPSMITH_NVRTC", "/nonexistent/warpsmith-nvrtc", 1), 0);
  testing::internal::CaptureStderr();
  for (const auto compile : {WARPSMITH_COMPILE_NEVER, WARPSMITH_COMPILE_WHEN_MISSING}) {
    options.compile = compile;
    options.fallback = WARPSMITH_FALLBACK_CUBLASLT;
    const Handle made(options);
    EXPECT_EQ(nlohmann::json::parse(made.explain(problem))["runs"], "cublaslt");
    const std::int64_t runs = cublaslt_log().runs;
    EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    EXPECT_EQ(cublaslt_log().runs, runs + 1);
    EXPECT_EQ(nlohmann::json::parse(made.explain(problem))["runs"], "cublaslt");
    options.fallback = WARPSMITH_FALLBACK_NONE;
    EXPECT_EQ(nlohmann::json::parse(Handle(options).explain(problem))["runs"], "nothing");
  }
  EXPECT_EQ(unsetenv("WARPSMITH_NVRTC"), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;  // of the call that wanted a compiler
  EXPECT_NE(said.find("no compiler"), std::string::npos) << said;
}

TEST_F(RuntimeTest, ExplainTellsWhoseABatchIs) {
  const Handle made = handle(WARPSMITH_FALLBACK_CUBLASLT);
  const auto batch_of = [](const char* text) {
    const Problem p = parse_problem(text).value();
    warpsmith_problem_t problem{};
    problem.op_b = WARPSMITH_OP_T;
    problem.m = p.m;
    problem.n = p.n;
    problem.k = p.k;
    problem.batch_count = 3;
    problem.stride_a = p.m * p.k;
    problem.stride_b = p.n * p.k;
    problem.stride_c = p.m * p.n;
    return problem;
  };
  const warpsmith_problem_t looped = batch_of(kLargeProblem), lost = batch_of(kLostProblem);
  EXPECT_EQ(nlohmann::json::parse(made.explain(looped))["runs"], "kernel");
  for (int round = 0; round < 2; ++round) {
    const auto json = nlohmann::json::parse(made.explain(lost));
    EXPECT_EQ(json["runs"], "cublaslt");
    EXPECT_EQ(json["source"], "cublaslt");
    const std::int64_t runs = cublaslt_log().runs;
    const Plan plan(made, lost);
    plan.run(address(1), address(2), address(3));
    EXPECT_EQ(cublaslt_log().runs, runs + 1);
  }
  EXPECT_EQ(nlohmann::json::parse(handle().explain(lost))["runs"], "nothing");
}

TEST_F(RuntimeTest, FilesOfTheGpuAreFoundByItsName) {
  for (const char* variable : {"WARPSMITH_WISDOM", "WARPSMITH_PACK"}) ASSERT_EQ(unsetenv(variable), 0);
  const fs::path data = folder_ / "data";
  fs::create_directories(data / "packs");
  fs::copy_file(pack_, data / "packs" / "h200.wspack");
  ASSERT_EQ(setenv("WARPSMITH_DATA", data.c_str(), 1), 0);
  warpsmith_options_t options{};
  options.cache_path = cache_.c_str();
  options.compile = WARPSMITH_COMPILE_NEVER;
  warpsmith_problem_t problem{};
  problem.m = problem.n = problem.k = 64;
  const auto json = nlohmann::json::parse(Handle(options).explain(problem));
  EXPECT_EQ(unsetenv("WARPSMITH_DATA"), 0);
  EXPECT_EQ(json["wisdom"], true);  // the build tree's
  EXPECT_EQ(json["pack"], true);
}

TEST_F(RuntimeTest, AHandleThatSharesTheDeviceChoosesNoStreamK) {
  warpsmith_options_t options{};
  options.compile = WARPSMITH_COMPILE_NEVER;
  options.wisdom_path = wisdom_.c_str();
  options.pack_path = pack_.c_str();
  options.cache_path = cache_.c_str();
  const Problem p = parse_problem(kWorkspaceProblem).value();
  warpsmith_problem_t problem{};
  problem.op_b = WARPSMITH_OP_T;
  problem.m = p.m;
  problem.n = p.n;
  problem.k = p.k;
  for (const auto sharing : {WARPSMITH_SHARING_EQUAL, WARPSMITH_SHARING_ANY}) {
    options.sharing = sharing;
    const Handle made(options);
    const std::string said = made.explain(problem);
    EXPECT_EQ(said.find("streamk=1") != std::string::npos, sharing == WARPSMITH_SHARING_EQUAL) << said;
    reset_log();
    ASSERT_EQ(gemm(made, kWorkspaceProblem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    EXPECT_EQ(driver_log().launches.size(), sharing == WARPSMITH_SHARING_EQUAL ? 1U : 0U);
  }
}

TEST_F(RuntimeTest, DamagedFilesAreNamedOnceAndDoneWithout) {
  const std::string bad = (folder_ / "bad.jsonl").string();
  std::ofstream(bad) << "{\n";
  warpsmith_options_t options{};
  options.fallback = WARPSMITH_FALLBACK_NONE;
  options.compile = WARPSMITH_COMPILE_NEVER;
  options.wisdom_path = options.pack_path = bad.c_str();
  options.cache_path = cache_.c_str();
  testing::internal::CaptureStderr();
  const Handle made(options);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  EXPECT_NE(said.find(bad), std::string::npos);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_NOT_COVERED);
}

TEST_F(RuntimeTest, AnAlteredKernelOfThePackIsDoneWithout) {
  std::string bytes;
  {
    std::ifstream in(pack_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::size_t at = 0;
  while ((at = bytes.find("cubin of ", at)) != std::string::npos) bytes[at] = 'X';
  const std::string altered = (folder_ / "altered.wspack").string();
  std::ofstream(altered, std::ios::binary) << bytes;
  warpsmith_options_t options{};
  options.fallback = WARPSMITH_FALLBACK_NONE;
  options.compile = WARPSMITH_COMPILE_NEVER;
  options.wisdom_path = wisdom_.c_str();
  options.pack_path = altered.c_str();
  options.cache_path = cache_.c_str();
  const Handle made(options);
  testing::internal::CaptureStderr();
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_NOT_COVERED);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("altered"), std::string::npos);
}

TEST_F(RuntimeTest, ThreadsShareAHandle) {
  const Handle made = handle();
  entry<fake::RecordFunction>("fake_record")(false);
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (std::uintptr_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::uintptr_t i = 0; i < 2000; ++i) {
        const char* problems[] = {kTinyProblem, kMapProblem, kWorkspaceProblem};
        if (gemm(made, problems[i % 3], stream_of(t * 4 + i % 4 + 1), 1, 0, address(i % 64 + 1)) !=
            WARPSMITH_STATUS_SUCCESS) {
          ++errors;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 0);
}

// Our part of a call's host time, the driver's left out. For people: a machine under load says little.
TEST_F(RuntimeTest, HostTimeOfACallIsPrinted) {
  const Handle made = handle();
  entry<fake::RecordFunction>("fake_record")(false);
  const auto call = [&] {
    return warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 512, 1024, 256, 1, address(1), 256, address(2),
                          256, 0, address(3), 1024, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, stream_of(6));
  };
  ASSERT_EQ(call(), WARPSMITH_STATUS_SUCCESS);
  constexpr int kCalls = 100000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) static_cast<void>(call());
  const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls;
  std::printf("host time of a call without the driver's: %.0f ns\n", ns);
  RecordProperty("nanoseconds", static_cast<int>(ns));
}

}  // namespace
}  // namespace warpsmith::library
