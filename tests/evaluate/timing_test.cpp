// Statistics and the interleaved timing loop, over a backend with a scripted clock.
#include "evaluate/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fake_backend.h"

namespace warpsmith {
namespace {

TEST(Percentile, InterpolatesBetweenOrderStatistics) {
  const std::vector<double> sorted = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(percentile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(sorted, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile(sorted, 1), 4);
  EXPECT_DOUBLE_EQ(percentile({7}, 0.95), 7);
}

TEST(Summarize, OrdersItsSamples) {
  const TimingStats stats = summarize({9, 1, 5, 3, 7}, 40);
  EXPECT_DOUBLE_EQ(stats.median_us, 5);
  EXPECT_DOUBLE_EQ(stats.min_us, 1);
  EXPECT_DOUBLE_EQ(stats.p5_us, 1.4);
  EXPECT_DOUBLE_EQ(stats.p95_us, 8.6);
  EXPECT_EQ(stats.samples, 5);
  EXPECT_EQ(stats.launches_per_sample, 40);
}

TimingPlan plan_of(std::vector<TimingSubject> subjects) {
  TimingPlan plan;
  plan.subjects = std::move(subjects);
  plan.seconds = 0;
  plan.min_samples = 9;
  return plan;
}

TEST(TimeSubjects, MeasuresEverySubjectInEveryMode) {
  FakeBackend backend;
  const auto report = time_subjects(backend, plan_of({{0, "candidate", true}, {1, "baseline", false}}));
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->measurements.size(), 2u);
  const Measurement& candidate = report->measurements[0];
  EXPECT_EQ(candidate.subject, "candidate");
  EXPECT_DOUBLE_EQ(candidate.cold.median_us, 10);
  EXPECT_DOUBLE_EQ(candidate.warm.median_us, 8);
  ASSERT_TRUE(candidate.cold_pdl && candidate.warm_pdl);
  EXPECT_DOUBLE_EQ(candidate.cold_pdl->median_us, 9);
  EXPECT_DOUBLE_EQ(candidate.warm_pdl->median_us, 7);
  EXPECT_GE(candidate.cold.samples, 3);
  const Measurement& baseline = report->measurements[1];
  EXPECT_DOUBLE_EQ(baseline.cold.median_us, 110);
  EXPECT_FALSE(baseline.cold_pdl.has_value());
  EXPECT_EQ(baseline.detail, "setting of 1");
  EXPECT_DOUBLE_EQ(baseline.clock_mhz, 1500);
}

TEST(TimeSubjects, InterleavesInChangingOrder) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}, {1, "baseline", false}});
  ASSERT_TRUE(time_subjects(backend, plan).ok());
  // Rounds of four: each holds every series once, and not all rounds have the same order.
  ASSERT_GE(backend.batches.size(), 12u);
  bool differs = false;
  for (std::size_t round = 0; round + 4 <= backend.batches.size(); round += 4) {
    auto sorted = std::vector<std::string>(backend.batches.begin() + static_cast<std::ptrdiff_t>(round),
                                           backend.batches.begin() + static_cast<std::ptrdiff_t>(round) + 4);
    for (std::size_t i = 0; i < 4; ++i) differs = differs || sorted[i] != backend.batches[i];
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (std::vector<std::string>{"0 cold", "0 warm", "1 cold", "1 warm"}));
  }
  EXPECT_TRUE(differs);
}

TEST(TimeSubjects, StopsEarlyWhenTooSlow) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}});
  plan.seconds = 30;
  plan.too_slow_us = 9.5;  // cold takes 10
  const auto report = time_subjects(backend, plan);
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(report->too_slow_us.has_value());
  EXPECT_DOUBLE_EQ(*report->too_slow_us, 10);
  EXPECT_EQ(backend.batches.size(), 6u);
  plan.too_slow_us = 10.5;
  plan.seconds = 0.001;
  EXPECT_FALSE(time_subjects(backend, plan)->too_slow_us.has_value());
}

// Nine rounds of a subject last 50 * (10 + 8) us each on the scripted clock.
TEST(TimeSubjects, TakesTheTimeItWasGiven) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}});
  plan.seconds = 20 * 50 * 18e-6;
  auto report = time_subjects(backend, plan);
  ASSERT_TRUE(report.ok());
  EXPECT_NEAR(report->measurements[0].cold.samples, 20, 1);
  plan.seconds = 1;
  plan.most_samples = 30;
  report = time_subjects(backend, plan);
  EXPECT_EQ(report->measurements[0].cold.samples, 30);
  // A problem so slow that nine rounds would take more than ten times the planned time gets three.
  plan.seconds = 0.01;
  backend.candidate_us = 1e4;
  report = time_subjects(backend, plan);
  EXPECT_EQ(report->measurements[0].cold.samples, 3);
}

TEST(TimeSubjects, SamplesClocksAndReasons) {
  FakeBackend backend;
  backend.candidate_us = 1000;  // a round lasts 0.1 s, longer than the clock is left unread
  backend.clocks_mhz = {1900, 1800, 1400, 1800, 1700};
  backend.throttle = {"power cap"};
  const auto report = time_subjects(backend, plan_of({{0, "candidate", false}}));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(backend.clock_samples, 9u);
  EXPECT_DOUBLE_EQ(report->measurements[0].clock_mhz, 1700);
  EXPECT_DOUBLE_EQ(report->measurements[0].clock_min_mhz, 1400);
  EXPECT_EQ(report->measurements[0].throttle, std::vector<std::string>{"power cap"});
}

TEST(TimeSubjects, PreheatsOnceAndNotForScreening) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}, {1, "baseline", false}});
  ASSERT_TRUE(time_subjects(backend, plan).ok());
  EXPECT_EQ(backend.preheated, std::vector<int>{1});
  plan.preheat = false;
  ASSERT_TRUE(time_subjects(backend, plan).ok());
  EXPECT_EQ(backend.preheated, std::vector<int>{1});
}

TEST(TimeSubjects, ScreeningIsColdShortAndStopsWhenItIsClear) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}});
  plan.warm = false;
  plan.min_samples = plan.most_samples = 5;
  plan.batch_us = 150;
  plan.launch_us = 7;
  plan.clear_us = 10.5;
  auto report = time_subjects(backend, plan);
  ASSERT_TRUE(report.ok());
  EXPECT_DOUBLE_EQ(backend.batch_us, 150);
  EXPECT_DOUBLE_EQ(backend.launch_us, 7);
  EXPECT_EQ(backend.batches, (std::vector<std::string>(5, "0 cold")));
  EXPECT_EQ(report->measurements[0].warm.samples, 0);
  plan.clear_us = 9.5;  // three samples show that 10 is more
  report = time_subjects(backend, plan);
  EXPECT_EQ(report->measurements[0].cold.samples, 3);
  EXPECT_DOUBLE_EQ(report->measurements[0].cold.median_us, 10);
  EXPECT_FALSE(report->too_slow_us.has_value());
}

TEST(TimeSubjects, KeepsRoundsTogether) {
  FakeBackend backend;
  double factor = 1;
  backend.disturb = [&factor](double us) { return us * factor; };
  auto plan = plan_of({{0, "candidate", true}, {1, "baseline", false}});
  plan.satisfied = [&factor](const TimingRounds& rounds) {
    factor = 2;  // from now on everything takes twice as long
    return rounds.front().size() >= 15;
  };
  plan.seconds = 0.05;  // as many rounds as are the least
  const auto report = time_subjects(backend, plan);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->rounds.size(), 2u);
  ASSERT_EQ(report->rounds[0].size(), 15u);
  ASSERT_EQ(report->rounds[1].size(), 15u);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_DOUBLE_EQ(report->rounds[1][i] / report->rounds[0][i], 11);
  EXPECT_DOUBLE_EQ(report->rounds[0].front(), 10);
  EXPECT_DOUBLE_EQ(report->rounds[0].back(), 20);
}

TEST(TimeSubjects, PatienceEnds) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}});
  plan.seconds = 10 * 50 * 18e-6;
  int asked = 0;
  plan.satisfied = [&asked](const TimingRounds&) {
    ++asked;
    return false;
  };
  const auto report = time_subjects(backend, plan);
  ASSERT_TRUE(report.ok());
  EXPECT_GT(asked, 0);
  EXPECT_NEAR(report->measurements[0].cold.samples, 40, 1);
}

TEST(TimeSubjects, TimesOneSubjectUnderTwoNames) {
  FakeBackend backend;
  const auto report = time_subjects(backend, plan_of({{1, "one", false}, {1, "one-again", false}}));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->measurements[0].subject, "one");
  EXPECT_EQ(report->measurements[1].subject, "one-again");
  EXPECT_EQ(report->measurements[0].cold.samples, report->measurements[1].cold.samples);
}

TEST(Calls, AreMadeReadyTimedAndInterleaved) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", true}, {1, "baseline", false}});
  plan.mode = TimingMode::call;
  const auto report = time_subjects(backend, plan);  // the fake refuses a call that was not made ready
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Measurement& candidate = report->measurements[0];
  EXPECT_EQ(candidate.mode, "call");
  EXPECT_DOUBLE_EQ(candidate.cold.median_us, 10);
  EXPECT_DOUBLE_EQ(candidate.warm.median_us, 8);
  EXPECT_EQ(candidate.cold.samples, 9);
  EXPECT_EQ(candidate.cold.launches_per_sample, 1);
  EXPECT_FALSE(candidate.cold_pdl.has_value()) << "programmatic dependent launch is for back-to-back launches";
  EXPECT_TRUE(backend.waits.empty());
  const std::vector<std::string> sorted = {"0 cold", "0 warm", "1 cold", "1 warm"};
  for (std::size_t at = 12; at + 4 <= backend.batches.size(); at += 4) {  // after three rounds of warm-up
    std::vector<std::string> round(backend.batches.begin() + static_cast<std::ptrdiff_t>(at),
                                   backend.batches.begin() + static_cast<std::ptrdiff_t>(at) + 4);
    std::sort(round.begin(), round.end());
    EXPECT_EQ(round, sorted);
  }
}

TEST(Server, WaitsExponentiallyBeforeEachCall) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}, {1, "baseline", false}});
  plan.mode = TimingMode::server;
  plan.server = {200, 500};
  plan.seed = 7;
  const auto report = time_subjects(backend, plan);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Measurement& candidate = report->measurements[0];
  EXPECT_EQ(candidate.mode, "server");
  EXPECT_EQ(candidate.cold.samples, 500);
  ASSERT_TRUE(candidate.server.has_value());
  EXPECT_DOUBLE_EQ(candidate.server->qps, 200);
  EXPECT_EQ(candidate.server->arrivals, 500);
  EXPECT_EQ(candidate.server->seed, 7u);
  ASSERT_EQ(backend.waits.size(), 2000u) << "each of two subjects, cold and warm";
  double sum = 0, beyond = 0;
  for (const double wait : backend.waits) {
    sum += wait;
    if (wait > 0.005) ++beyond;
  }
  EXPECT_NEAR(sum / 2000, 0.005, 0.0005);
  EXPECT_NEAR(beyond / 2000, std::exp(-1), 0.04);
  FakeBackend again;
  ASSERT_TRUE(time_subjects(again, plan).ok());
  EXPECT_EQ(again.waits, backend.waits) << "the seed decides";
  EXPECT_EQ(again.batches, backend.batches);
}

TEST(CudaL2, IsWarmCallsForThreeTimesItsWarmUp) {
  FakeBackend backend;
  auto plan = plan_of({{0, "candidate", false}, {1, "baseline", false}});
  plan.mode = TimingMode::cuda_l2;
  plan.seconds = 0.01;
  const auto report = time_subjects(backend, plan);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Measurement& candidate = report->measurements[0];
  EXPECT_EQ(candidate.mode, "cuda-l2");
  EXPECT_EQ(candidate.cold.samples, 0);
  EXPECT_DOUBLE_EQ(candidate.warm.mean_us, 8);
  // A round takes 8 + 108 us on the scripted clock.
  EXPECT_NEAR(candidate.warm.samples, 0.03 / 116e-6, 2);
  EXPECT_NEAR(static_cast<double>(backend.batches.size()), 2 * 0.04 / 116e-6, 6);
  EXPECT_EQ(report->rounds[0].size(), static_cast<std::size_t>(candidate.warm.samples));
}

TEST(ExponentialWait, HasItsMeanAndIsNeverNegative) {
  std::mt19937_64 generator(3);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double wait = exponential_wait(generator, 100);
    ASSERT_GE(wait, 0);
    ASSERT_LT(wait, 1);
    sum += wait;
  }
  EXPECT_NEAR(sum / 100000, 0.01, 0.0002);
}

TEST(BackendClock, WaitsAsLongAsItIsTold) {
  class RealClock : public FakeBackend {
   public:
    double now_seconds() override { return Backend::now_seconds(); }
    void idle(double seconds) override { Backend::idle(seconds); }
  } backend;
  const double start = backend.now_seconds();
  backend.idle(0.003);
  EXPECT_GE(backend.now_seconds() - start, 0.003);
}

TEST(PlannedSeconds, CoversEveryMode) {
  TimingEffort effort;
  effort.seconds = 2;
  EXPECT_DOUBLE_EQ(planned_seconds(effort, 3), 24);
  effort.mode = TimingMode::server;
  EXPECT_DOUBLE_EQ(planned_seconds(effort, 3), 6);
  effort.mode = TimingMode::cuda_l2;
  EXPECT_DOUBLE_EQ(planned_seconds(effort, 3), 8);
}

TEST(Modes, AreNamed) {
  for (const char* name : {"offline", "call", "server"}) {
    const auto mode = parse_timing_mode(name);
    ASSERT_TRUE(mode.ok());
    EXPECT_EQ(to_string(*mode), name);
  }
  const auto unknown = parse_timing_mode("batch");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(unknown.error().message, "unknown mode 'batch'; accepted: offline, call, server");
}

TEST(Effort, SurvivesJson) {
  TimingEffort effort;
  effort.seconds = 1.5;
  effort.min_samples = 4;
  effort.mode = TimingMode::cuda_l2;
  effort.server = {250, 77};
  effort.screening = true;
  effort.exhaustive_seconds = 30;
  effort.baselines = {"cublaslt-auto-nn"};
  const auto back = nlohmann::json(effort).get<TimingEffort>();
  EXPECT_EQ(nlohmann::json(back), nlohmann::json(effort));
  EXPECT_EQ(back.mode, TimingMode::cuda_l2);
  EXPECT_EQ(back.baselines.front(), "cublaslt-auto-nn");
}

TEST(TimeSubjects, NamesTheSubjectThatFails) {
  FakeBackend backend;
  backend.failing_subject = 1;
  const auto report = time_subjects(backend, plan_of({{0, "candidate", false}, {1, "baseline", false}}));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().message, "baseline: scripted failure");
}

}  // namespace
}  // namespace warpsmith
