// Statistics and the interleaved timing loop, over a backend with a scripted clock.
#include "evaluate/timing.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  plan.seconds = 0.001;
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

TEST(TimeSubjects, NamesTheSubjectThatFails) {
  FakeBackend backend;
  backend.failing_subject = 1;
  const auto report = time_subjects(backend, plan_of({{0, "candidate", false}, {1, "baseline", false}}));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().message, "baseline: scripted failure");
}

}  // namespace
}  // namespace warpsmith
