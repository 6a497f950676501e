// Bootstrap intervals against SciPy's at 400,000 resamples. Their ends are random: the tolerance is what remains of
// that.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/statistics.h"
#include "samples.h"

namespace warpsmith::stats {
namespace {

constexpr double kBootstrapClose = 0.002;  // an interval's end at 100,000 resamples; intervals are 0.1 to 0.7 wide

using List = std::vector<double>;

const List kSkewed = {1.0, 1.01, 1.02, 1.01, 1.03, 1.05, 1.1, 1.2, 2.5, 1.04};

BootstrapOptions with(BootstrapMethod method, std::uint64_t seed = 1) {
  BootstrapOptions options;
  options.method = method;
  options.resamples = 100000;
  options.seed = seed;
  return options;
}

void expect_interval(const Result<Interval>& interval, double low, double high, double tolerance = kBootstrapClose) {
  ASSERT_TRUE(interval.ok()) << interval.error().message;
  EXPECT_NEAR(interval->low, low, tolerance);
  EXPECT_NEAR(interval->high, high, tolerance);
}

// stats.bootstrap((R,), np.mean, method=..., n_resamples=400000)
TEST(Bootstrap, MeanAsScipy) {
  expect_interval(bootstrap_mean(kRatios, with(BootstrapMethod::bca)), 1.055, 1.2241666666666666);
  expect_interval(bootstrap_mean(kRatios, with(BootstrapMethod::percentile)), 1.0491666666666668, 1.2158333333333333);
}

// stats.bootstrap((R,), np.median, ...)
TEST(Bootstrap, MedianAsScipy) {
  expect_interval(bootstrap_median(kRatios, with(BootstrapMethod::bca)), 1.005, 1.24);
  expect_interval(bootstrap_median(kRatios, with(BootstrapMethod::percentile)), 1.005, 1.24);
}

// np.exp of stats.bootstrap((np.log(R),), np.mean, ...)
TEST(Bootstrap, GeometricMeanAsScipy) {
  expect_interval(bootstrap_geometric_mean(kRatios, with(BootstrapMethod::bca)), std::exp(0.046201764000324434),
                  std::exp(0.19166028552693226));
  expect_interval(bootstrap_geometric_mean(kRatios, with(BootstrapMethod::percentile)), std::exp(0.04347465415862731),
                  std::exp(0.1870576568227775));
}

// One value far off: BCa moves the interval by 0.27, percentile does not. stats.bootstrap((K,), np.mean, ...)
TEST(Bootstrap, SkewedAsScipy) {
  expect_interval(bootstrap_mean(kSkewed, with(BootstrapMethod::bca)), 1.039, 1.772, 0.006);
  expect_interval(bootstrap_mean(kSkewed, with(BootstrapMethod::percentile)), 1.025, 1.498, 0.006);
}

// stats.bootstrap((R, S), lambda a, b, axis=-1: a.mean(axis) - b.mean(axis), paired=True, ...)
TEST(Bootstrap, PairedDifferenceAsScipy) {
  const auto bca = paired_bootstrap(kRatios, kOthers, mean_of, with(BootstrapMethod::bca));
  ASSERT_TRUE(bca.ok());
  EXPECT_NEAR(bca->difference, *mean(kRatios) - *mean(kOthers), 1e-13);
  expect_interval(bca->interval, 0.025833333333333375, 0.125);
  expect_interval(paired_bootstrap(kRatios, kOthers, mean_of, with(BootstrapMethod::percentile))->interval,
                  0.0233333333333332, 0.12083333333333335);
}

// Pairs stay together: a constant difference has no spread, however the pairs vary.
TEST(Bootstrap, PairsAreDrawnTogether) {
  List shifted;
  for (const double ratio : kRatios) shifted.push_back(ratio - 0.25);
  const auto result = paired_bootstrap(kRatios, shifted, mean_of);
  EXPECT_NEAR(result->interval.low, 0.25, 1e-12);
  EXPECT_NEAR(result->interval.high, 0.25, 1e-12);
}

TEST(Bootstrap, TheSeedDecides) {
  const auto first = bootstrap_mean(kRatios, with(BootstrapMethod::bca, 1)),
             again = bootstrap_mean(kRatios, with(BootstrapMethod::bca, 1));
  const auto other = bootstrap_mean(kRatios, with(BootstrapMethod::bca, 2));
  EXPECT_EQ(first->low, again->low);
  EXPECT_EQ(first->high, again->high);
  EXPECT_TRUE(other->low != first->low || other->high != first->high);
}

TEST(Bootstrap, EqualValuesHaveAPoint) {
  for (const BootstrapMethod method : {BootstrapMethod::bca, BootstrapMethod::percentile}) {
    const List same(9, 0.1);
    for (const auto& interval : {bootstrap_mean(same, with(method)), bootstrap_median(same, with(method))}) {
      EXPECT_EQ(interval->low, 0.1);
      EXPECT_EQ(interval->high, 0.1);
    }
  }
}

TEST(Bootstrap, FollowsScaleAndConfidence) {
  List scaled;
  for (const double value : kSkewed) scaled.push_back(1024 * value);
  const auto plain = bootstrap_mean(kSkewed), large = bootstrap_mean(scaled);
  EXPECT_NEAR(large->low, 1024 * plain->low, 1e-9);
  EXPECT_NEAR(large->high, 1024 * plain->high, 1e-9);
  BootstrapOptions wide;
  wide.confidence = 0.99;
  EXPECT_LT(bootstrap_mean(kSkewed, wide)->low, plain->low);
  EXPECT_GT(bootstrap_mean(kSkewed, wide)->high, plain->high);
}

// Of 400 samples of 30 normal values, about 95 % of the intervals hold the true mean (deviation of the share: 1.1 %;
// the bootstrap's own shortfall at 30 values is about 1.5 %).
TEST(Bootstrap, CoversTheTruth) {
  std::uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (static_cast<double>(state >> 11) + 0.5) / 9007199254740992.0;
  };
  int covered = 0;
  for (int sample = 0; sample < 400; ++sample) {
    List values;
    for (int i = 0; i < 30; ++i) values.push_back(5 + normal_quantile(uniform()));
    BootstrapOptions options;
    options.resamples = 1000;
    options.seed = static_cast<std::uint64_t>(sample);
    const auto interval = bootstrap_mean(values, options);
    if (interval->low <= 5 && 5 <= interval->high) ++covered;
  }
  EXPECT_GE(covered, 360);
  EXPECT_LE(covered, 394);
}

TEST(Bootstrap, RefusesWhatHasNoInterval) {
  EXPECT_FALSE(bootstrap_mean(List{}).ok());
  EXPECT_FALSE(bootstrap_mean(List{1}).ok());
  EXPECT_FALSE(bootstrap_median(List{1, std::numeric_limits<double>::quiet_NaN()}).ok());
  EXPECT_FALSE(bootstrap_geometric_mean(List{1, 0, 2}).ok());
  EXPECT_FALSE(paired_bootstrap(List{1, 2, 3}, List{1, 2}, mean_of).ok());
  EXPECT_FALSE(paired_bootstrap(List{1}, List{1}, mean_of).ok());
  BootstrapOptions options;
  options.resamples = 10;
  EXPECT_NE(bootstrap_mean(kRatios, options).error().message.find("accepted: 100 to"), std::string::npos);
  options = {};
  options.confidence = 1;
  EXPECT_NE(bootstrap_mean(kRatios, options).error().message.find("accepted: between 0 and 1"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith::stats
