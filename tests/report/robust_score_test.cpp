// The robust score: dealing, rounding, and when it is not usable.
#include "report/robust_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace warpsmith::stats {
namespace {

using List = std::vector<double>;

TEST(RobustScore, RoundsTowardOne) {
  const struct {
    double ratio, rounded;
  } known[] = {{1.118, 1.11}, {0.992, 1.00}, {0.988, 0.99}, {1.00, 1.00},  {1.009, 1.00}, {0.991, 1.00},
               {0.99, 0.99},  {2.999, 2.99}, {0.5, 0.5},    {0.123, 0.13}, {3, 3},        {1e-5, 0.01}};
  for (const auto& [ratio, rounded] : known) EXPECT_EQ(round_toward_one(ratio), rounded) << ratio;
}

// Every hundredth is itself, although 1.13 * 100 is 112.99999999999999 in binary; and so is one that sums have moved by
// a few units in the last place.
TEST(RobustScore, HundredthsStay) {
  for (int hundredths = 1; hundredths <= 1000; ++hundredths) {
    const double ratio = hundredths / 100.0;
    EXPECT_EQ(round_toward_one(ratio), ratio) << hundredths;
    EXPECT_EQ(round_toward_one(ratio * (1 + 4e-16)), ratio) << hundredths;
    EXPECT_EQ(round_toward_one(ratio * (1 - 4e-16)), ratio) << hundredths;
  }
  EXPECT_EQ(round_toward_one(1.1299), 1.12);
  EXPECT_EQ(round_toward_one(0.9301), 0.94);
}

// Never away from 1, and by less than a hundredth.
TEST(RobustScore, NeverFlatters) {
  for (double ratio = 0.011; ratio < 4; ratio += 0.00137) {
    const double rounded = round_toward_one(ratio);
    EXPECT_LE(std::abs(rounded - 1), std::abs(ratio - 1) + 1e-9) << ratio;
    EXPECT_LT(std::abs(rounded - ratio), 0.01) << ratio;
    EXPECT_NEAR(rounded * 100, std::round(rounded * 100), 1e-9) << ratio;
  }
}

TEST(RobustScore, DealsInTurn) {
  // Bucket i gets i, i + 7, i + 14: means 1.10 to 1.16, the median 1.13.
  List ratios;
  for (const double lift : {-0.02, 0.0, 0.02}) {
    for (int i = 0; i < kScoreBuckets; ++i) ratios.push_back(1.10 + 0.01 * i + lift);
  }
  const auto score = robust_score(ratios);
  ASSERT_TRUE(score.ok());
  for (int i = 0; i < kScoreBuckets; ++i)
    EXPECT_NEAR(score->bucket_means[static_cast<std::size_t>(i)], 1.10 + 0.01 * i, 1e-12);
  EXPECT_EQ(score->score, 1.13);
  EXPECT_NEAR(score->variance, 0.0014 / 3, 1e-12);  // np.var([1.10, ..., 1.16], ddof=1)
  EXPECT_TRUE(score->usable);
}

TEST(RobustScore, UnevenBucketsCountAlike) {
  List ratios(kScoreBuckets, 1.2);
  ratios.push_back(1.4);  // a second one in the first bucket
  const auto score = robust_score(ratios);
  EXPECT_NEAR(score->bucket_means[0], 1.3, 1e-12);
  EXPECT_EQ(score->score, 1.2);
}

// One wild bucket does not move the median but shows in the variance.
TEST(RobustScore, NotUsableWhenBucketsDisagree) {
  List ratios(kScoreBuckets, 1.0);
  ratios[3] = 1.5;
  const auto wild = robust_score(ratios);
  EXPECT_EQ(wild->score, 1.0);
  EXPECT_NEAR(wild->variance, 0.25 / 7, 1e-12);
  EXPECT_FALSE(wild->usable);
  // The variance is d^2 / 7 for one bucket off by d: the limit 0.005 is at d = 0.187.
  ratios[3] = 1 + std::sqrt(0.0049 * 7);
  EXPECT_TRUE(robust_score(ratios)->usable);
  ratios[3] = 1 + std::sqrt(0.0051 * 7);
  EXPECT_FALSE(robust_score(ratios)->usable);
}

TEST(RobustScore, OrderWithinBucketsDoesNotMatter) {
  List ratios, rotated;
  for (int i = 0; i < 70; ++i) ratios.push_back(1 + 0.05 * std::sin(i));
  rotated.assign(ratios.begin() + kScoreBuckets, ratios.end());  // whole rounds: every ratio keeps its bucket
  rotated.insert(rotated.end(), ratios.begin(), ratios.begin() + kScoreBuckets);
  const auto a = robust_score(ratios), b = robust_score(rotated);
  EXPECT_EQ(a->score, b->score);
  EXPECT_NEAR(a->variance, b->variance, 1e-15);
}

TEST(RobustScore, RefusesWhatHasNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_NE(robust_score(List(6, 1.0)).error().message.find("at least 7"), std::string::npos);
  for (const double bad : {nan, infinity, 0.0, -1.0}) {
    List ratios(21, 1.0);
    ratios[20] = bad;
    EXPECT_NE(robust_score(ratios).error().message.find("20 is"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace warpsmith::stats
