// Three clocks on synthetic batches: consistent ones are believed, whatever a batch costs beside its calls; a clock
// that is turned back, work that runs on, and noise each show.
#include "audit/clocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace warpsmith::audit {
namespace {

// `call_us` a call, 40 us to start and end a batch by the judge's clock, 10 by the host's, 2 between the events.
std::vector<BatchPair> batches(double call_us, int calls, double noise_us = 0) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, noise_us > 0 ? noise_us : 1e-12);
  std::vector<BatchPair> pairs(15);
  for (BatchPair& pair : pairs) {
    const auto batch = [&](int count) {
      const double work = call_us * count;
      return BatchTimes{count, work + 2, work + 10, 3, work + 40 + noise(random)};
    };
    pair = {batch(calls), batch(2 * calls)};
  }
  return pairs;
}

TEST(Clocks, AgreeOnHonestWork) {
  for (const double call_us : {2.5, 30.0, 5000.0}) {
    const ClockReport report = compare_clocks(batches(call_us, call_us > 1000 ? 1 : 100, 5));
    EXPECT_TRUE(report.consistent) << report.disagreement;
    EXPECT_NEAR(report.device_slope_us, call_us, 1e-6 * call_us);
    EXPECT_NEAR(report.judge_us, call_us, call_us > 1000 ? 20 : 0.2);
    EXPECT_NEAR(report.quoted_us, call_us, call_us > 1000 ? 20 : 0.3);
    EXPECT_GE(report.quoted_us, call_us * 0.999);
  }
}

TEST(Clocks, ShowPatchedEvents) {
  auto pairs = batches(30, 50, 5);
  for (BatchPair& pair : pairs) pair.single.device_us = pair.twice.device_us = 3;
  const ClockReport report = compare_clocks(pairs);
  EXPECT_FALSE(report.consistent);
  EXPECT_NE(report.disagreement.find("device events"), std::string::npos);
  EXPECT_NEAR(report.quoted_us, 30, 1);  // the judge's own figure stands
}

TEST(Clocks, ShowAPatchedHostClock) {
  auto pairs = batches(30, 50, 5);
  for (BatchPair& pair : pairs) {
    pair.single.host_us /= 2;
    pair.twice.host_us /= 2;
  }
  const ClockReport report = compare_clocks(pairs);
  EXPECT_FALSE(report.consistent);
  EXPECT_NE(report.disagreement.find("host's clock"), std::string::npos);
}

TEST(Clocks, ShowWorkThatRunsOn) {
  auto pairs = batches(30, 50);
  for (BatchPair& pair : pairs) pair.twice.settle_us = 2500;
  EXPECT_FALSE(compare_clocks(pairs).consistent);
}

TEST(Clocks, TakeNoNumberForAnAnswer) {
  for (double BatchTimes::*clock : {&BatchTimes::device_us, &BatchTimes::host_us, &BatchTimes::settle_us}) {
    auto pairs = batches(30, 50);
    for (BatchPair& pair : pairs) pair.single.*clock = pair.twice.*clock = std::numeric_limits<double>::quiet_NaN();
    const ClockReport report = compare_clocks(pairs);
    EXPECT_FALSE(report.consistent);
    EXPECT_NEAR(report.quoted_us, 30, 1);
  }
}

// A tenth less than the truth is noticed where the judge's clock is good to a few percent.
TEST(Clocks, ShowSmallLies) {
  auto pairs = batches(50, 60, 10);
  for (BatchPair& pair : pairs) {
    pair.single.device_us *= 0.85;
    pair.twice.device_us *= 0.85;
  }
  EXPECT_FALSE(compare_clocks(pairs).consistent);
}

TEST(Clocks, DoNotAccuseForNoise) {
  EXPECT_TRUE(compare_clocks(batches(3, 100, 60)).consistent);
  EXPECT_TRUE(compare_clocks(batches(300, 5, 200)).consistent);
}

TEST(Clocks, TravelAsJson) {
  const ClockReport report = compare_clocks(batches(30, 50, 5));
  const ClockReport back = nlohmann::json(report).get<ClockReport>();
  EXPECT_EQ(nlohmann::json(back), nlohmann::json(report));
  EXPECT_EQ(back.samples, 15);
}

}  // namespace
}  // namespace warpsmith::audit
