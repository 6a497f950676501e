// The generated families on the device: the starting points of each, through all gates, on even and ragged sizes.
#include <gtest/gtest.h>

#include "codegen/generate.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

class GeneratedKernels : public testing::TestWithParam<std::string> {};

TEST_P(GeneratedKernels, StartingPointsAreAccepted) {
  EvaluatorOptions options;
  options.target = Target::sm80;
  const auto evaluator = Evaluator::start(options);
  WARPSMITH_NEED_GPU(evaluator);
  const Problem problem = test_problem(GetParam());
  const Machine& machine = (*evaluator)->machine();
  int tried = 0;
  for (const Family* family : families_for(Target::sm90)) {
    const std::vector<Recipe> points = family->starting_points(problem, machine);
    for (std::size_t i = 0; i < points.size() && i < 2; ++i) {
      const Result<Candidate> candidate = generate(points[i], problem, machine);
      if (!candidate.ok()) continue;
      const Result<Artifact> artifact = test_compiler().compile(*candidate);
      ASSERT_TRUE(artifact.ok()) << to_string(points[i]) << ": " << artifact.error().message;
      const Verdict verdict = (*evaluator)->evaluate(problem, *candidate, *artifact, 0, {0.02, 3});
      EXPECT_NE(verdict.accepted(), nullptr) << to_string(points[i]) << ": " << verdict.describe();
      ++tried;
    }
  }
  EXPECT_GT(tried, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GeneratedKernels,
                         testing::Values("64x64x64 nn", "512x256x1024 tn", "264x136x520 nn", "16x4096x512 tn",
                                         "1024x1024x4096 nn", "201x141x77 nn", "61x57x999 tt bf16", "77x136x1000 nt",
                                         "7x1001x3001 tn", "4097x3x515 nt", "16x4096x4096 nn bf16"));

}  // namespace
}  // namespace warpsmith
