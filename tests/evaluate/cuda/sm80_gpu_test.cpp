// The sm80 family on the device, as machine code: every named loop, the best starting points and random recipes through
// all gates; and the sanitizer over each way in which copies, warps and blocks meet.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "evaluate/gates.h"
#include "evaluate/sanitizer.h"
#include "sm80_pairs.h"

namespace warpsmith {
namespace {

constexpr std::size_t kPairs = 96;

class Sm80OnDevice : public testing::Test {
 protected:
  void SetUp() override { WARPSMITH_NEED_GPU(backend_); }
  Backend& backend() { return **backend_; }

  Result<std::unique_ptr<Backend>> backend_ = make_cuda_backend(0);
};

TEST_F(Sm80OnDevice, PairsPassTheGates) {
  const std::vector<sm80_pairs::Pair> pairs = sm80_pairs::pairs_for(backend().machine(), kPairs);
  std::vector<Candidate> candidates;
  for (const sm80_pairs::Pair& pair : pairs) {
    const Result<Candidate> candidate = generate(pair.recipe, pair.problem, backend().machine());
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    candidates.push_back(*candidate);
  }
  const std::vector<Result<Artifact>> compiled = sm80_pairs::compile_all(candidates);
  int passed = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(to_string(pairs[i].problem) + " " + to_short_string(pairs[i].recipe));
    ASSERT_TRUE(compiled[i].ok()) << compiled[i].error().message;
    ASSERT_TRUE(backend().prepare(pairs[i].problem, 1).ok());
    const Status loaded = backend().load(*compiled[i], std::get<CudaLaunch>(candidates[i].launch));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const GateReport report = run_gates(backend(), {3, 4, false, {}, pairs[i].problem.accumulator});
    const std::string words = report.gates.empty() ? "" : report.gates.back().gate + ": " + report.gates.back().detail;
    EXPECT_TRUE(report.passed()) << words << report.crash.value_or("") << report.fault.value_or("");
    ASSERT_FALSE(report.crash.has_value()) << "the context is lost";
    passed += report.passed() ? 1 : 0;
    backend().unload();
  }
  fmt::print("{} of {} pairs pass\n", passed, pairs.size());
}

TEST_F(Sm80OnDevice, SanitizerFindsNothing) {
  const Problem problem = test_problem("200x136x520 nn");
  for (const char* text : {"sm80 tile=64x64x64 stages=3 loop=spread", "sm80 tile=64x64x32 loop=late_barrier",
                           "sm80 tile=64x64x64 stages=2 loop=full_ring", "sm80 tile=64x64x64 stages=4 loop=early_copy",
                           "sm80 tile=64x64x32 stages=2 loop=two_barriers epilogue=staged",
                           "sm80 tile=64x64x64 warps=1x2 stages=3 warps_k=4 epilogue=staged",
                           "sm80 tile=64x64x64 stages=3 split=3 reduce=workspace epilogue=staged",
                           "sm80 tile=64x64x64 stages=3 split=4 epilogue=staged"}) {
    const Recipe recipe = parse_recipe(text).value();
    if (!is_legal(recipe, problem, backend().machine())) continue;  // clusters, on older GPUs
    const Result<Candidate> candidate = generate(recipe, problem, backend().machine());
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    const Result<Artifact> artifact = test_compiler().compile(*candidate);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const SanitizerReport report = run_sanitizer(problem, *candidate, *artifact, {});
    fmt::print("{}: {}\n", text, report.describe());
    if (report.checks.front().outcome == SanitizerCheck::Outcome::not_run) {
      GTEST_SKIP() << report.checks.front().detail;
    }
    EXPECT_EQ(report.first_failure(), nullptr) << text << ": " << report.describe();
  }
}

}  // namespace
}  // namespace warpsmith
