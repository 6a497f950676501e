// The parent against a scripted worker: leaps are measured again in a fresh process, screening, comparisons by mode.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "codegen/launch.h"
#include "evaluate/evaluator.h"
#include "evaluate/survey.h"

#ifndef WARPSMITH_TEST_FAKE_WORKER
#error "the build names the scripted worker"
#endif

namespace warpsmith {
namespace {

class Leap : public testing::Test {
 protected:
  void TearDown() override {
    evaluator_.reset();
    std::filesystem::remove(script_);
  }

  // Candidate's cold microseconds in the first process, in the second, ...; the last one for all that follow.
  void start(const std::string& times, Target target = Target::cpu, int device = 0) {
    std::ofstream(script_) << times;
    setenv("WARPSMITH_FAKE_SCRIPT", script_.c_str(), 1);
    EvaluatorOptions options;
    options.worker = WARPSMITH_TEST_FAKE_WORKER;
    options.target = target;
    options.device = device;
    auto started = Evaluator::start(options);
    ASSERT_TRUE(started.ok()) << started.error().message;
    evaluator_ = std::move(*started);
  }

  Verdict evaluate(double best_us, bool screening = false) {
    TimingEffort effort;
    effort.seconds = 0.001;
    effort.screening = screening;
    return evaluator_->evaluate(problem_, candidate_, {}, best_us, effort);
  }

  static std::string leap_detail(const Verdict& verdict) {
    for (const GateResult& gate : verdict.gates) {
      if (gate.gate == "leap") return gate.detail;
    }
    return {};
  }

  Problem problem_{6, 10, 64};
  Candidate candidate_;
  std::filesystem::path script_ =
      std::filesystem::temp_directory_path() / ("warpsmith_leap_" + std::to_string(getpid()));
  std::unique_ptr<Evaluator> evaluator_;
};

TEST_F(Leap, OrdinaryTimesAreTakenAsTheyAre) {
  start("10\n99\n");
  EXPECT_EQ(evaluate(0).kind(), "accepted");
  const Verdict verdict = evaluate(19);  // 10 is more than half of 19
  EXPECT_EQ(verdict.kind(), "accepted");
  EXPECT_EQ(leap_detail(verdict), "");
}

TEST_F(Leap, ConfirmedByAFreshProcess) {
  start("10\n10.5\n");
  const Verdict verdict = evaluate(21);
  ASSERT_EQ(verdict.kind(), "accepted") << verdict.describe();
  EXPECT_DOUBLE_EQ(verdict.accepted()->measurement.cold.median_us, 10);
  EXPECT_NE(leap_detail(verdict).find("measured again in a fresh process: 10.500 us"), std::string::npos)
      << leap_detail(verdict);
}

TEST_F(Leap, FastOnlyInItsFirstProcessIsSuspicious) {
  start("10\n20\n");
  const Verdict verdict = evaluate(21);
  ASSERT_EQ(verdict.kind(), "suspicious") << verdict.describe();
  EXPECT_NE(verdict.describe().find("10.000 us"), std::string::npos) << verdict.describe();
  EXPECT_NE(verdict.describe().find("20.000 us"), std::string::npos) << verdict.describe();
  EXPECT_EQ(verdict.gates.back().gate, "leap");
  EXPECT_FALSE(verdict.gates.back().passed);
}

// Ten percent is the limit, and it counts both ways.
TEST_F(Leap, TheLimitIsTenPercent) {
  start("10\n11.2\n");
  EXPECT_EQ(evaluate(21).kind(), "suspicious");
  start("10\n8.9\n");
  EXPECT_EQ(evaluate(21).kind(), "suspicious");
  start("10\n10.9\n");
  EXPECT_EQ(evaluate(21).kind(), "accepted");
}

TEST_F(Leap, OneDisturbedMeasurementIsForgiven) {
  start("10\n15\n10.1\n");
  EXPECT_EQ(evaluate(21).kind(), "accepted");
}

// What the machine lacks is no fault of the candidate's, and what a fault in a check after timing shows is no wrong
// result.
TEST_F(Leap, FaultsKeepTheirKind) {
  for (const char* words : {"no-memory-to-load", "no-memory-to-time"}) {
    start(std::string("10 ") + words + "\n10\n");
    const Verdict verdict = evaluate(0);
    EXPECT_EQ(verdict.kind(), "failed") << words << ": " << verdict.describe();
    EXPECT_EQ(evaluate(0).kind(), "accepted") << "by the next worker";
    start(std::string("10 ") + words + "\n10\n");
    const auto comparison = evaluator_->compare(problem_, candidate_, {}, {});
    ASSERT_FALSE(comparison.ok());
    EXPECT_EQ(comparison.error().kind, ErrorKind::environment) << words;
  }
  start("10 fault-after-timing\n10\n");
  const Verdict verdict = evaluate(0);
  EXPECT_EQ(verdict.kind(), "crashed") << verdict.describe();
  EXPECT_EQ(evaluate(0).kind(), "accepted") << "by the next worker";
  start("10 fault-after-timing\n10\n");
  std::optional<Verdict> refusal;
  EXPECT_FALSE(evaluator_->compare(problem_, candidate_, {}, {}, &refusal).ok());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind(), "crashed");
}

TEST_F(Leap, IsMeasuredAgainOnADeviceThatNobodyMeasuresOn) {
  start("10\n10\n", Target::sm90);
  EXPECT_NE(leap_detail(evaluate(21)).find("on device 1"), std::string::npos);
  EvaluatorOptions other;
  other.worker = WARPSMITH_TEST_FAKE_WORKER;
  other.target = Target::sm90;
  other.device = 1;
  auto first = Evaluator::start(other);
  ASSERT_TRUE(first.ok()) << first.error().message;
  start("10\n10\n", Target::sm90);
  EXPECT_NE(leap_detail(evaluate(21)).find("on device 2"), std::string::npos);
  other.device = 2;
  auto second = Evaluator::start(other);
  ASSERT_TRUE(second.ok()) << second.error().message;
  start("10\n10\n", Target::sm90);
  EXPECT_NE(leap_detail(evaluate(21)).find("in a fresh process"), std::string::npos);
}

// The fake's baseline takes 110 us.
TEST_F(Leap, KnownBaselinesCountToo) {
  start("30\n30\n");
  ASSERT_TRUE(evaluator_->baselines(problem_, {}).ok());
  const Verdict verdict = evaluate(0);
  EXPECT_EQ(verdict.kind(), "accepted");
  EXPECT_NE(leap_detail(verdict).find("3 times faster than every baseline"), std::string::npos);
  start("40\n40\n");
  ASSERT_TRUE(evaluator_->baselines(problem_, {}).ok());
  EXPECT_EQ(leap_detail(evaluate(0)), "");
}

TEST_F(Leap, AComparisonThatIsNotConfirmedFails) {
  start("30\n60\n");
  std::optional<Verdict> refusal;
  const auto doubted = evaluator_->compare(problem_, candidate_, {}, {}, &refusal);
  ASSERT_FALSE(doubted.ok());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind(), "suspicious");
  EXPECT_NE(doubted.error().message.find("suspicious: 30.000 us"), std::string::npos) << doubted.error().message;
  start("30\n31\n");
  refusal.reset();
  const auto confirmed = evaluator_->compare(problem_, candidate_, {}, {}, &refusal);
  ASSERT_TRUE(confirmed.ok()) << confirmed.error().message;
  EXPECT_FALSE(refusal.has_value());
  EXPECT_EQ(confirmed->gates.back().gate, "leap");
}

// A variant that a survey times with dependent launch alone: a microsecond less than without.
TEST_F(Leap, ASurveysVariantsAreJudgedByTheirTimesWithDependentLaunch) {
  CudaLaunch launch;
  launch.kernels.resize(1);
  launch.kernels.front().programmatic_dependent_launch = true;
  SurveyRequest request;
  request.problem = problem_;
  request.modes = {TimingMode::offline};
  request.seconds = 0.001;
  request.candidates.resize(1);
  request.candidates.front().name = "ours-nn-pdl";
  request.candidates.front().launch = launch;
  const auto leap = [&](const char* times) -> std::string {
    start(times);
    const auto report = evaluator_->survey(request);
    EXPECT_TRUE(report.ok()) << report.error().message;
    if (!report.ok()) return "failed";
    const std::vector<Measurement>& subjects = report->modes.at("offline");
    const bool stays = !subjects.empty() && subjects.front().subject == "ours-nn-pdl";
    const GateResult& last = report->proofs.front().gates.back();
    EXPECT_EQ(last.passed, stays) << last.detail;
    return last.gate != "leap" ? "none" : stays ? "confirmed" : "refuted";
  };
  EXPECT_EQ(leap("50\n"), "none");
  EXPECT_EQ(leap("30\n31\n"), "confirmed");
  EXPECT_EQ(leap("30\n60\n"), "refuted");
}

TEST_F(Leap, ComparisonsCarryAScore) {
  start("50\n");
  const auto comparison = evaluator_->compare(problem_, candidate_, {}, {});
  ASSERT_TRUE(comparison.ok()) << comparison.error().message;
  ASSERT_TRUE(comparison->score.has_value());
  EXPECT_EQ(comparison->score->baseline, "baseline");
  EXPECT_DOUBLE_EQ(comparison->score->value, 2.2);
  EXPECT_TRUE(comparison->score->usable);
}

TEST_F(Leap, ComparisonsObeyPhysicsToo) {
  start("50\n");
  const auto possible = evaluator_->compare(problem_, candidate_, {}, {});
  ASSERT_TRUE(possible.ok()) << possible.error().message;
  EXPECT_EQ(possible->gates.back().gate, "physics");
  start("0.000001\n");  // less than a launch takes on any device
  std::optional<Verdict> refusal;
  const auto impossible = evaluator_->compare(problem_, candidate_, {}, {}, &refusal);
  ASSERT_FALSE(impossible.ok());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind(), "suspicious");
  EXPECT_NE(impossible.error().message.find("physics"), std::string::npos) << impossible.error().message;
}

TEST_F(Leap, ModesAndFiltersReachTheWorker) {
  start("50\n");
  TimingEffort effort;
  effort.mode = TimingMode::server;
  effort.server = {1000, 20};
  auto comparison = evaluator_->compare(problem_, candidate_, {}, effort);
  ASSERT_TRUE(comparison.ok()) << comparison.error().message;
  EXPECT_EQ(comparison->subjects.front().mode, "server");
  EXPECT_EQ(comparison->subjects.front().cold.samples, 20);
  effort = {};
  effort.baselines = {"nothing-"};
  comparison = evaluator_->compare(problem_, candidate_, {}, effort);
  ASSERT_TRUE(comparison.ok()) << comparison.error().message;
  EXPECT_EQ(comparison->subjects.size(), 1u);
  EXPECT_FALSE(comparison->score.has_value());
}

// {0,1} inputs are all that is asked, and outputs of timed calls are not judged.
TEST_F(Leap, TheReleasedProtocolHasItsOwnCriterion) {
  start("50\n");
  TimingEffort effort;
  effort.mode = TimingMode::cuda_l2;
  effort.seconds = 0.01;
  const auto comparison = evaluator_->compare(problem_, candidate_, {}, effort);
  ASSERT_TRUE(comparison.ok()) << comparison.error().message;
  ASSERT_EQ(comparison->gates.size(), 1u);
  EXPECT_EQ(comparison->gates.front().gate, "exact");
  EXPECT_DOUBLE_EQ(comparison->subjects.front().warm.mean_us, 48);
}

TEST_F(Leap, ABaselineEqualsItself) {
  start("50\n");
  const auto subjects = evaluator_->against_itself(problem_, {});
  ASSERT_TRUE(subjects.ok()) << subjects.error().message;
  ASSERT_EQ(subjects->size(), 2u);
  EXPECT_EQ((*subjects)[0].subject, "baseline");
  EXPECT_EQ((*subjects)[1].subject, "baseline-again");
  EXPECT_DOUBLE_EQ((*subjects)[0].cold.median_us, (*subjects)[1].cold.median_us);
}

TEST_F(Leap, ScreeningSparesTheSlow) {
  start("10\n");
  Verdict verdict = evaluate(9, true);  // behind the best so far
  ASSERT_EQ(verdict.kind(), "accepted");
  EXPECT_EQ(verdict.accepted()->measurement.warm.samples, 0);
  EXPECT_EQ(verdict.accepted()->measurement.cold.samples, 3);
  EXPECT_NE(verdict.describe().find("screened only"), std::string::npos);
  verdict = evaluate(10.5, true);  // the best so far
  ASSERT_EQ(verdict.kind(), "accepted");
  EXPECT_GT(verdict.accepted()->measurement.warm.samples, 0);
  EXPECT_GE(verdict.accepted()->measurement.cold.samples, 9);
  int audits = 0;
  for (const GateResult& gate : verdict.gates) audits += gate.gate == "timed-outputs" ? 1 : 0;
  EXPECT_EQ(audits, 1);
  verdict = evaluate(0, true);  // nothing to compare with
  EXPECT_GT(verdict.accepted()->measurement.warm.samples, 0);
  EXPECT_EQ(evaluate(3, true).kind(), "too-slow");
  TimingEffort effort;
  effort.seconds = 0;
  effort.screening = true;
  for (const double best_us : {0.0, 10.5}) {  // and no more, whatever it shows
    verdict = evaluator_->evaluate(problem_, candidate_, {}, best_us, effort);
    ASSERT_EQ(verdict.kind(), "accepted");
    EXPECT_EQ(verdict.accepted()->measurement.warm.samples, 0);
    EXPECT_LE(verdict.accepted()->measurement.cold.samples, 5);
  }
}

TEST_F(Leap, AnExhaustiveSearchNeedsALibraryThatHasOne) {
  start("50\n");
  TimingEffort effort;
  effort.exhaustive_seconds = 1;
  const auto comparison = evaluator_->compare(problem_, candidate_, {}, effort);
  ASSERT_FALSE(comparison.ok());
  EXPECT_NE(comparison.error().message.find("cuBLASLt"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith
