// Surveys on the device: both layouts in one run, every mode, what is remembered of the baselines, one of large sums.
#include "evaluate/survey.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/generate.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

// The first starting point that compiles, of any family that the device runs.
std::optional<SurveyCandidate> candidate_of(const Problem& problem, const Machine& machine) {
  const Target target = machine.compute_capability == 90 ? Target::sm90 : Target::sm80;
  for (const Family* family : families_for(target)) {
    for (const Recipe& recipe : family->starting_points(problem, machine)) {
      const auto candidate = generate(recipe, problem, machine);
      if (!candidate) continue;
      const auto artifact = test_compiler().compile(*candidate);
      if (!artifact) continue;
      SurveyCandidate one;
      one.name = std::string("ours-") + std::string(to_string(problem.layout));
      one.layout = problem.layout;
      one.binary = artifact->binary.string();
      one.key = artifact->key;
      std::visit([&](const auto& launch) { one.launch = launch; }, candidate->launch);
      return one;
    }
  }
  return std::nullopt;
}

SurveyRequest request_for(const std::string& shape, const Machine& machine) {
  SurveyRequest request;
  for (const char* layout : {" nn", " tn"}) {
    request.problem = test_problem(shape + layout);
    if (auto candidate = candidate_of(request.problem, machine)) request.candidates.push_back(std::move(*candidate));
  }
  return request;
}

std::vector<std::string> names_of(const std::vector<Measurement>& subjects) {
  std::vector<std::string> names;
  for (const Measurement& one : subjects) names.push_back(one.subject);
  return names;
}

class CudaSurvey : public testing::TestWithParam<const char*> {};

TEST_P(CudaSurvey, MeasuresBothLayoutsAndRemembersTheBaselines) {
  EvaluatorOptions options;
  options.target = Target::sm80;
  const auto evaluator = Evaluator::start(options);
  WARPSMITH_NEED_GPU(evaluator);
  SurveyRequest request = request_for(GetParam(), (*evaluator)->machine());
  ASSERT_EQ(request.candidates.size(), 2u);
  request.modes = {TimingMode::offline, TimingMode::call, TimingMode::server};
  request.server = {500, 10};
  request.accuracy = true;
  const auto first = (*evaluator)->survey(request);
  ASSERT_TRUE(first.ok()) << first.error().message;
  for (const auto& proof : first->proofs) {
    EXPECT_TRUE(proof.holds()) << proof.name << ": "
                               << (proof.gates.empty() ? proof.crash
                                                       : proof.gates.back().gate + proof.gates.back().detail);
  }
  EXPECT_EQ(names_of(first->modes.at("offline")),
            (std::vector<std::string>{"ours-nn", "ours-tn", "cublas-nn", "cublaslt-heuristic-nn", "cublaslt-auto-nn",
                                      "cublas-tn", "cublaslt-heuristic-tn", "cublaslt-auto-tn"}));
  for (const Measurement& one : first->modes.at("offline")) EXPECT_GT(one.cold.median_us, 0) << one.subject;
  EXPECT_EQ(first->modes.at("call").size(), 4u);
  EXPECT_EQ(first->modes.at("server").size(), 4u);
  EXPECT_EQ(first->modes.at("server")[0].cold.samples, 10);
  const auto& ours = first->accuracy.at("ours");
  const auto& narrow = first->accuracy.at("lt_f16");
  EXPECT_EQ(ours.at("overflowed"), 0);
  EXPECT_LE(ours.at("p99_ulp").get<double>(), 0.52);  // rounded once
  EXPECT_LE(first->accuracy.at("lt_f32").at("p99_ulp").get<double>(), 0.52);
  EXPECT_GT(narrow.at("p99_ulp").is_number() ? narrow.at("p99_ulp").get<double>() : 1e9, 0.52);

  // Again, with what was remembered: those alone are tried.
  for (const char* layout : {"nn", "tn"}) {
    EXPECT_FALSE(first->baseline_choices.at(layout).empty());
    EXPECT_LE(first->baseline_choices.at(layout).size(), 3u);
  }
  request.baseline_choices = first->baseline_choices;
  request.modes = {TimingMode::offline};
  request.accuracy = false;
  const auto second = (*evaluator)->survey(request);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->baseline_choices, first->baseline_choices);
  for (const Measurement& one : second->modes.at("offline")) {
    for (const Measurement& other : first->modes.at("offline")) {
      if (other.subject != one.subject) continue;
      EXPECT_NEAR(one.cold.median_us / other.cold.median_us, 1, 0.1) << one.subject;
    }
    const bool tuned = one.subject.find("-auto-") != std::string::npos;
    if (!tuned) continue;
    const auto& known = first->baseline_choices.at(one.subject.substr(one.subject.size() - 2));
    EXPECT_NE(std::find(known.begin(), known.end(), one.detail), known.end()) << one.detail;
  }
  for (const auto& [what, seconds] : second->seconds) std::printf("%s %s: %.3f s\n", GetParam(), what.c_str(), seconds);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaSurvey, testing::Values("128x256x512", "1024x1024x1024", "4096x4096x2048"));

}  // namespace
}  // namespace warpsmith
