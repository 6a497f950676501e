// The runtime's memory: whose workspace is whose, what comes back, and what runs when there is none.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "library/runtime/workspace.h"
#include "runtime_fixture.h"

namespace warpsmith::library {
namespace {

class MemoryTest : public RuntimeTest {
 protected:
  // The workspace that a call on the stream is given.
  static std::byte* workspace(const Handle& made, CUstream stream) {
    const CudaLaunch launch = launch_of(kWorkspaceProblem);
    expect(launch);
    std::size_t parameter = 0;
    while (launch.kernels.front().arguments.at(parameter).kind != KernelArgument::Kind::workspace) ++parameter;
    EXPECT_EQ(gemm(made, kWorkspaceProblem, stream), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    return value<std::byte*>(driver_log().launches.back(), parameter);
  }
  static void capture(CUstream stream, std::uint64_t id) { entry<fake::CaptureFunction>("fake_capture")(stream, id); }
  static void graph_gone(std::uint64_t id) { entry<fake::GraphGoneFunction>("fake_graph_gone")(id); }
  static void renew(CUstream stream) { entry<fake::RenewFunction>("fake_renew")(stream); }
  // A handle without workspaces to begin with: one stream takes all that is made beforehand.
  static Handle bare_handle(warpsmith_fallback_t fallback) {
    warpsmith_options_t options{};
    options.fallback = fallback;
    options.compile = WARPSMITH_COMPILE_NEVER;
    options.streams = 1;
    options.wisdom_path = wisdom_.c_str();
    options.pack_path = pack_.c_str();
    options.cache_path = cache_.c_str();
    Handle made(options);
    static_cast<void>(workspace(made, stream_of(1)));
    entry<fake::ExpectFunction>("fake_expect")({});
    return made;
  }
};

TEST_F(MemoryTest, ALaterCaptureTakesWhatAGraphThatIsGoneLeft) {
  const Handle made = handle();
  capture(stream_of(1), 101);
  std::byte* const first = workspace(made, stream_of(1));
  capture(stream_of(1), 102);
  std::byte* const second = workspace(made, stream_of(1));
  EXPECT_NE(second, first);  // the first graph may still be replayed
  const std::int64_t allocations = driver_log().allocations;
  graph_gone(101);
  capture(stream_of(1), 103);
  EXPECT_EQ(workspace(made, stream_of(1)), first);
  EXPECT_EQ(workspace(made, stream_of(1)), first);
  for (std::uint64_t id = 104; id < 150; ++id) {
    graph_gone(id - 1);
    capture(stream_of(1), id);
    EXPECT_EQ(workspace(made, stream_of(1)), first);
  }
  EXPECT_EQ(driver_log().allocations, allocations);
  capture(stream_of(1), 0);
}

TEST_F(MemoryTest, AGraphMayOutliveTheHandle) {
  reset_log();
  {
    const Handle made = handle();
    capture(stream_of(1), 201);
    static_cast<void>(workspace(made, stream_of(1)));
    capture(stream_of(1), 0);
  }
  graph_gone(201);
  EXPECT_EQ(driver_log().frees, driver_log().allocations);
}

TEST_F(MemoryTest, AStreamUnderAnotherOnesHandleHasAWorkspaceOfItsOwn) {
  const Handle made = handle();
  std::byte* const first = workspace(made, stream_of(31));
  EXPECT_EQ(workspace(made, stream_of(31)), first);
  renew(stream_of(31));  // the work of the one before may still be running
  std::byte* const second = workspace(made, stream_of(31));
  EXPECT_NE(second, first);
  EXPECT_EQ(workspace(made, stream_of(31)), second);
  // Nor do streams that come and go pile up memory.
  const std::int64_t before = driver_log().allocations - driver_log().frees;
  for (int i = 0; i < 100; ++i) {
    renew(stream_of(31));
    static_cast<void>(workspace(made, stream_of(31)));
  }
  EXPECT_LE(driver_log().allocations - driver_log().frees, before + static_cast<int>(WorkspacePool::kMostRetired));
}

TEST_F(MemoryTest, StreamsWithoutEndTakeMemoryForTheirCallsAlone) {
  const Handle made = handle();
  std::byte* const first = workspace(made, stream_of(1));
  for (int i = 2; i < WorkspacePool::kOwners + 10; ++i) static_cast<void>(workspace(made, stream_of(i)));
  const std::int64_t held = driver_log().allocations - driver_log().frees;
  for (int i = WorkspacePool::kOwners + 10; i < WorkspacePool::kOwners + 300; ++i) {
    static_cast<void>(workspace(made, stream_of(i)));
  }
  EXPECT_EQ(driver_log().allocations - driver_log().frees, held);
  EXPECT_EQ(workspace(made, stream_of(1)), first) << "those that came first keep their own";
}

TEST_F(MemoryTest, WithoutMemoryForAWorkspaceCublasLtRunsTheCallForNow) {
  const Handle made = bare_handle(WARPSMITH_FALLBACK_CUBLASLT);
  short_of(fake::kShortOfWorkspace);
  const std::int64_t runs = cublaslt_log().runs;
  reset_log();
  ASSERT_EQ(gemm(made, kWorkspaceProblem, stream_of(2)), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  EXPECT_TRUE(driver_log().launches.empty());
  EXPECT_EQ(cublaslt_log().runs, runs + 1);
  EXPECT_EQ(cublaslt_log().most_bytes, 0U);
  EXPECT_EQ(cublaslt_log().run_bytes, 0U);
  // A call that is cuBLASLt's in any case can do without its workspace as well.
  ASSERT_EQ(gemm(made, kLostProblem, stream_of(2)), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  EXPECT_EQ(cublaslt_log().run_bytes, 0U);
  const std::int64_t asked = cublaslt_log().heuristics;
  ASSERT_EQ(gemm(made, kWorkspaceProblem, stream_of(2)), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(cublaslt_log().heuristics, asked);  // that answer is kept
  short_of(fake::kShortOfNothing);
  ASSERT_EQ(gemm(made, kWorkspaceProblem, stream_of(2)), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().launches.size(), 1U);
  ASSERT_EQ(gemm(made, kLostProblem, stream_of(2)), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(cublaslt_log().run_bytes, fake::kLtWantsBytes);
}

TEST_F(MemoryTest, WithoutMemoryAndFallbackTheCallSaysSoForNow) {
  const Handle made = bare_handle(WARPSMITH_FALLBACK_NONE);
  short_of(fake::kShortOfWorkspace);
  EXPECT_EQ(gemm(made, kWorkspaceProblem, stream_of(2)), WARPSMITH_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(gemm(made, kMapProblem, stream_of(2)), WARPSMITH_STATUS_SUCCESS);  // needs none
  short_of(fake::kShortOfNothing);
  EXPECT_EQ(gemm(made, kWorkspaceProblem, stream_of(2)), WARPSMITH_STATUS_SUCCESS);
}

TEST_F(MemoryTest, WithoutMemoryForAModuleCublasLtRunsTheCallForNow) {
  const Handle made = bare_handle(WARPSMITH_FALLBACK_CUBLASLT);
  warpsmith_problem_t problem{};
  problem.op_b = WARPSMITH_OP_T;
  problem.m = problem.n = problem.k = 64;
  short_of(fake::kShortOfModules);
  reset_log();
  const std::int64_t runs = cublaslt_log().runs;
  const Plan plan(made, problem);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  plan.run(address(1), address(2), address(3));
  EXPECT_EQ(cublaslt_log().runs, runs + 2);
  short_of(fake::kShortOfNothing);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
  plan.run(address(1), address(2), address(3));
  EXPECT_EQ(cublaslt_log().runs, runs + 2);
  EXPECT_EQ(driver_log().launches.size(), 2U);
}

TEST_F(MemoryTest, WithoutMemoryForAModuleAndFallbackTheCallSaysSoForNow) {
  const Handle made = bare_handle(WARPSMITH_FALLBACK_NONE);
  short_of(fake::kShortOfModules);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(gemm(made, kLostProblem), WARPSMITH_STATUS_NOT_COVERED);  // cuBLASLt's in any case
  warpsmith_problem_t problem{};
  problem.op_b = WARPSMITH_OP_T;
  problem.m = problem.n = problem.k = 64;
  warpsmith_plan_t plan = nullptr;
  EXPECT_EQ(warpsmith_plan_create(made.get(), &problem, &plan), WARPSMITH_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(plan, nullptr);
  short_of(fake::kShortOfNothing);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
}

TEST_F(MemoryTest, PlansWorkWhenTheTableIsFull) {
  const Handle made = handle();
  // Nothing runs these, but they fill the table.
  for (std::int64_t n = 1; n <= 1 << 16; ++n) {
    ASSERT_EQ(warpsmith_gemm_strided_batched(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_N, 1, n, 1, 1, address(1), 1, 8,
                                             address(2), n, 8, 0, address(3), n, 8 * n, 2, WARPSMITH_F16,
                                             WARPSMITH_COMPUTE_32F, nullptr),
              WARPSMITH_STATUS_NOT_COVERED);
  }
  warpsmith_problem_t problem{};
  problem.op_b = WARPSMITH_OP_T;
  problem.m = problem.n = problem.k = 64;
  reset_log();
  const Plan plan(made, problem);
  plan.run(address(1), address(2), address(3));
  EXPECT_EQ(driver_log().launches.size(), 1U);
  // A batch's single product has no place in the table either.
  warpsmith_problem_t batch{};
  batch.op_b = WARPSMITH_OP_T;
  batch.m = batch.n = batch.k = 1024;
  batch.batch_count = 3;
  batch.stride_a = batch.stride_b = batch.stride_c = 1024 * 1024;
  const Plan loop(made, batch);
  loop.run(address(1), address(2), address(3));
  EXPECT_EQ(driver_log().launches.size(), 4U);
}

TEST_F(MemoryTest, TheHeuristicIsToldHowAlignedOperandsAre) {
  const Handle made = handle(WARPSMITH_FALLBACK_CUBLASLT);
  ASSERT_EQ(gemm(made, kLostProblem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  EXPECT_EQ(cublaslt_log().alignment, 16U);
  ASSERT_EQ(gemm(made, kLostProblem, nullptr, 1, 0, static_cast<char*>(address(1)) + 2), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(cublaslt_log().alignment, 2U);
}

}  // namespace
}  // namespace warpsmith::library
