// Location, spread and the signed-rank test against SciPy's values, and what they must not depend on.
#include "report/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "samples.h"

namespace warpsmith::stats {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kClose = 1e-13;

using List = std::vector<double>;

TEST(Statistics, LocationAndSpreadAsScipy) {
  EXPECT_NEAR(*mean(kRatios), 1.1291666666666667, kClose);                 // np.mean(R)
  EXPECT_NEAR(*geometric_mean(kRatios), 1.1198624320722115, kClose);       // stats.gmean(R)
  EXPECT_NEAR(*median(kRatios), 1.095, kClose);                            // np.median(R)
  EXPECT_NEAR(*standard_deviation(kRatios), 0.15424056377993278, kClose);  // np.std(R, ddof=1)
  EXPECT_NEAR(*variance(kRatios), 0.15424056377993278 * 0.15424056377993278, kClose);
}

TEST(Statistics, PercentilesAsNumpy) {
  // [np.percentile(R, q) for q in (0, 5, 25, 50, 95, 100)]
  const List fractions = {0, 0.05, 0.25, 0.5, 0.95, 1}, expected = {0.93, 0.952, 1.0125, 1.095, 1.3685, 1.44};
  for (std::size_t i = 0; i < fractions.size(); ++i) {
    EXPECT_NEAR(*percentile(kRatios, fractions[i]), expected[i], kClose) << fractions[i];
  }
  EXPECT_FALSE(percentile(kRatios, -0.01).ok());
  EXPECT_FALSE(percentile(kRatios, 1.01).ok());
  EXPECT_FALSE(percentile(kRatios, kNaN).ok());
}

TEST(Statistics, WinsAreStrictlyAbove) {
  const List values = {1.0, 1.005, 1.01, 1.02, 0.9};
  EXPECT_DOUBLE_EQ(*share_above(values, 1), 0.6);
  EXPECT_DOUBLE_EQ(*share_above(values, 1.01), 0.2);
}

TEST(Statistics, OneValue) {
  const List one = {1.25};
  EXPECT_EQ(*mean(one), 1.25);
  EXPECT_NEAR(*geometric_mean(one), 1.25, 1e-15);
  EXPECT_EQ(*median(one), 1.25);
  EXPECT_EQ(*percentile(one, 0.95), 1.25);
  EXPECT_EQ(wilcoxon_signed_rank(one)->p, 1);
  EXPECT_NE(standard_deviation(one).error().message.find("at least 2"), std::string::npos);
}

TEST(Statistics, EqualValuesHaveNoSpread) {
  const List same(7, 0.1);  // 0.1 has no exact binary form: sums of it round
  EXPECT_EQ(*mean(same), 0.1);
  EXPECT_EQ(*standard_deviation(same), 0);
  EXPECT_EQ(*median(same), 0.1);
}

TEST(Statistics, ExtremesNeitherOverflowNorVanish) {
  EXPECT_NEAR(*mean(List{1e308, 1.5e308}) / 1.25e308, 1, kClose);
  EXPECT_NEAR(*geometric_mean(List{1e-300, 1e300}), 1, 1e-12);
}

// What has no value is an error of one line, in every function.
TEST(Statistics, RefusesWhatHasNoValue) {
  const auto expect_refused = [](const auto& result, const char* part) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::failed);
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  };
  for (const List& bad : {List{1, kNaN}, List{1, kInfinity}, List{1, -kInfinity}}) {
    expect_refused(mean(bad), "value 1 is");
    expect_refused(geometric_mean(bad), "value 1 is");
    expect_refused(median(bad), "value 1 is");
    expect_refused(variance(bad), "value 1 is");
    expect_refused(standard_deviation(bad), "value 1 is");
    expect_refused(share_above(bad, 1), "value 1 is");
    expect_refused(wilcoxon_signed_rank(bad), "value 1 is");
  }
  const List none;
  expect_refused(mean(none), "of 0 values");
  expect_refused(geometric_mean(none), "of 0 values");
  expect_refused(median(none), "of 0 values");
  expect_refused(percentile(none, 0.5), "of 0 values");
  expect_refused(share_above(none, 1), "of 0 values");
  expect_refused(wilcoxon_signed_rank(none), "of 0 values");
  expect_refused(geometric_mean(List{1, 0}), "value 1 is 0; a geometric mean takes positive values");
  expect_refused(geometric_mean(List{1, -2}), "positive");
}

TEST(Statistics, RanksShareTies) {
  // stats.rankdata([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])
  EXPECT_EQ(ranks(List{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}), (List{4.5, 1.5, 6, 1.5, 8, 11, 3, 10, 8, 4.5, 8}));
}

// Darwin's plants, the example of Wilcoxon's test in many textbooks: T = 24, p = 0.041. stats.wilcoxon(D)
TEST(SignedRank, PublishedExample) {
  const auto test = wilcoxon_signed_rank(List{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75});
  EXPECT_EQ(std::min(test->w_plus, test->w_minus), 24);
  EXPECT_NEAR(test->p, 0.041259765625, kClose);
  EXPECT_TRUE(test->exact);
  EXPECT_EQ(test->used, 15);
}

TEST(SignedRank, ExactAsScipy) {
  List logarithms;
  for (const double ratio : kRatios) logarithms.push_back(std::log(ratio));
  EXPECT_NEAR(wilcoxon_signed_rank(logarithms)->p, 0.01611328125, kClose);    // stats.wilcoxon(np.log(R))
  EXPECT_NEAR(wilcoxon_signed_rank(List{1, 2, 3, 4, 5})->p, 0.0625, kClose);  // 2 of 2^5 signs
  EXPECT_NEAR(wilcoxon_signed_rank(List{-1, -2, -3, -4, -5})->p, 0.0625, kClose);
}

List long_list(int count) {
  List list;
  for (int i = 0; i < count; ++i) list.push_back(((i * 37) % 101 - 45) / 10.0 + i * 0.001);
  return list;
}

// stats.wilcoxon([((i * 37) % 101 - 45) / 10 + i * 0.001 for i in range(n)], correction=True), whose method is exact up
// to n = 50.
TEST(SignedRank, ExactUpToFiftyThenNormal) {
  const auto fifty = wilcoxon_signed_rank(long_list(50));
  EXPECT_TRUE(fifty->exact);
  EXPECT_NEAR(fifty->p, 0.24908489906916564, 1e-12);
  const auto more = wilcoxon_signed_rank(long_list(51));
  EXPECT_FALSE(more->exact);
  EXPECT_NEAR(more->p, 0.2789702776849071, 1e-12);
  EXPECT_NEAR(wilcoxon_signed_rank(long_list(60))->p, 0.24627179866116622, 1e-12);
}

// stats.wilcoxon(T, zero_method=..., correction=True): a permutation test up to 13 values, the normal approximation
// beyond.
TEST(SignedRank, TiesAndZerosAsScipy) {
  const List few = {1, 1, 2, -1, 3, 3, -2, 0, 4, 0, 5, 2};
  const auto wilcox = wilcoxon_signed_rank(few, ZeroHandling::wilcox),
             pratt = wilcoxon_signed_rank(few, ZeroHandling::pratt);
  EXPECT_EQ(wilcox->w_minus, 7);
  EXPECT_EQ(pratt->w_minus, 11);
  EXPECT_EQ(wilcox->zeros, 2);
  EXPECT_EQ(wilcox->used, 10);
  EXPECT_TRUE(wilcox->exact && pratt->exact);
  EXPECT_NEAR(wilcox->p, 0.0390625, kClose);
  EXPECT_NEAR(pratt->p, 0.04296875, kClose);
  const List more = {1, 1, 2, -1, 3, 3, -2, 0, 4, 0, 5, 2, 6, -4, 7, 7, -3, 0, 8, 9};
  EXPECT_FALSE(wilcoxon_signed_rank(more)->exact);
  EXPECT_NEAR(wilcoxon_signed_rank(more, ZeroHandling::wilcox)->p, 0.016607875420827665, 1e-12);
  EXPECT_NEAR(wilcoxon_signed_rank(more, ZeroHandling::pratt)->p, 0.01648124586231244, 1e-12);
}

TEST(SignedRank, NothingButZerosShowsNothing) {
  for (const int count : {1, 5, 100}) {
    const auto test = wilcoxon_signed_rank(List(static_cast<std::size_t>(count), 0.0));
    EXPECT_EQ(test->p, 1);
    EXPECT_EQ(test->used, 0);
    EXPECT_EQ(test->zeros, count);
  }
}

// Equal magnitudes are one tie: 100 wins of the same size are as sure as can be, a draw is not.
TEST(SignedRank, AllTied) {
  EXPECT_LT(wilcoxon_signed_rank(List(100, 0.5))->p, 1e-20);
  List draw(50, 0.5);
  draw.resize(100, -0.5);
  EXPECT_EQ(wilcoxon_signed_rank(draw)->p, 1);
}

TEST(Statistics, DoNotDependOnOrderAndFollowScale) {
  List values = kRatios, logarithms;
  std::mt19937 generator(5);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(values.begin(), values.end(), generator);
    EXPECT_NEAR(*mean(values), *mean(kRatios), kClose);
    EXPECT_NEAR(*geometric_mean(values), *geometric_mean(kRatios), kClose);
    EXPECT_EQ(*median(values), *median(kRatios));
    EXPECT_NEAR(*standard_deviation(values), *standard_deviation(kRatios), kClose);
    EXPECT_EQ(*percentile(values, 0.3), *percentile(kRatios, 0.3));
    List differences, scaled, negated, tripled;
    for (const double value : values) {
      differences.push_back(value - 1.05);
      scaled.push_back(1000 * (value - 1.05));
      negated.push_back(1.05 - value);
      tripled.push_back(3 * value);
    }
    EXPECT_EQ(wilcoxon_signed_rank(scaled)->p, wilcoxon_signed_rank(differences)->p);
    EXPECT_EQ(wilcoxon_signed_rank(negated)->p, wilcoxon_signed_rank(differences)->p);
    EXPECT_NEAR(*mean(tripled), 3 * *mean(values), kClose);
    EXPECT_NEAR(*geometric_mean(tripled), 3 * *geometric_mean(values), kClose);
    EXPECT_NEAR(*standard_deviation(tripled), 3 * *standard_deviation(values), kClose);
  }
  List inverted;
  for (const double value : kRatios) inverted.push_back(1 / value);
  EXPECT_NEAR(*geometric_mean(inverted), 1 / *geometric_mean(kRatios), kClose);
}

}  // namespace
}  // namespace warpsmith::stats
