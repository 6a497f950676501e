// Correlations and the distributions behind them against SciPy's values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "report/statistics.h"

namespace warpsmith::stats {
namespace {

using List = std::vector<double>;

const List kX = {0.2, 1.1, 2.7, 3.1, 4.9, 5.2, 6.8, 7.7}, kY = {1.3, 0.9, 2.2, 4.1, 3.3, 5.9, 5.1, 8.8};
constexpr double kClose = 1e-12;

// r = stats.pearsonr(x, y); r.statistic, r.pvalue, r.confidence_interval(...)
TEST(Correlation, PearsonAsScipy) {
  const auto r = pearson(kX, kY);
  EXPECT_NEAR(r->r, 0.9011578900265484, kClose);
  EXPECT_NEAR(r->p, 0.0022387322707370988, kClose);
  EXPECT_NEAR(r->interval.low, 0.538346776382642, kClose);
  EXPECT_NEAR(r->interval.high, 0.9821465652607195, kClose);
  EXPECT_EQ(r->count, 8);
  const auto narrower = pearson(kX, kY, 0.9);
  EXPECT_NEAR(narrower->interval.low, 0.630801622514981, kClose);
  EXPECT_NEAR(narrower->interval.high, 0.9764025862469352, kClose);
}

// stats.spearmanr(x, y); the interval: np.tanh(np.arctanh(r) -+ stats.norm.ppf(.975) * np.sqrt((1 + r**2 / 2) / (n -
// 3)))
TEST(Correlation, SpearmanAsScipy) {
  const auto r = spearman(kX, kY);
  EXPECT_NEAR(r->r, 0.9285714285714287, kClose);
  EXPECT_NEAR(r->p, 0.0008629681828999767, kClose);
  EXPECT_NEAR(r->interval.low, 0.536578787820682, kClose);
  EXPECT_NEAR(r->interval.high, 0.9909445391230495, kClose);
}

TEST(Correlation, TiesAsScipy) {
  const List x = {1, 2, 2, 3, 4, 4, 4, 5, 6, 7}, y = {2, 1, 3, 3, 5, 4, 4, 4, 8, 7};
  EXPECT_NEAR(spearman(x, y)->r, 0.9093749999999999, kClose);  // stats.spearmanr(x, y)
  EXPECT_NEAR(spearman(x, y)->p, 0.0002642045618149966, kClose);
  EXPECT_NEAR(pearson(x, y)->r, 0.8956754619454145, kClose);  // stats.pearsonr(x, y)
  EXPECT_NEAR(pearson(x, y)->p, 0.00045613260866166034, kClose);
}

// i = np.arange(1000); x = np.sin(i * 0.7) + i * 0.0001; y = np.cos(i * 1.3) + 0.1 * np.sin(i * 0.7)
TEST(Correlation, ManyPairsAsScipy) {
  List x, y;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(std::sin(i * 0.7) + i * 0.0001);
    y.push_back(std::cos(i * 1.3) + 0.1 * std::sin(i * 0.7));
  }
  const auto r = pearson(x, y);
  EXPECT_NEAR(r->r, 0.09611051476787463, kClose);
  EXPECT_NEAR(r->p, 0.002346017133005543, kClose);
  EXPECT_NEAR(r->interval.low, 0.03432192875681496, kClose);
  EXPECT_NEAR(r->interval.high, 0.1571671658755829, kClose);
  EXPECT_NEAR(spearman(x, y)->r, 0.12053413253413253, kClose);
  EXPECT_NEAR(spearman(x, y)->p, 0.00013302235731047824, kClose);
}

TEST(Correlation, PerfectOnes) {
  const List up = {1, 2, 3, 4, 5}, down = {10, 8, 6, 4, 2}, curved = {1, 4, 9, 16, 25};
  EXPECT_EQ(spearman(up, curved)->r, 1);
  EXPECT_EQ(spearman(up, curved)->p, 0);
  EXPECT_EQ(spearman(up, curved)->interval.low, 1);
  EXPECT_EQ(spearman(up, curved)->interval.high, 1);
  EXPECT_NEAR(pearson(up, down)->r, -1, kClose);
  EXPECT_LT(pearson(up, curved)->r, 1);
}

TEST(Correlation, ThreePairsSayLittle) {
  const auto r = pearson(List{1, 2, 3}, List{1, 3, 2});
  EXPECT_NEAR(r->r, 0.5, kClose);
  EXPECT_NEAR(r->p, 2.0 / 3, kClose);  // stats.pearsonr([1, 2, 3], [1, 3, 2])
  EXPECT_EQ(r->interval.low, -1);
  EXPECT_EQ(r->interval.high, 1);
}

TEST(Correlation, RefusesWhatHasNone) {
  for (const auto& correlate : {pearson, spearman}) {
    EXPECT_NE(correlate(List{1, 2, 3}, List{1, 2}, 0.95).error().message.find("3 and 2"), std::string::npos);
    EXPECT_NE(correlate(List{1, 2}, List{1, 2}, 0.95).error().message.find("at least 3"), std::string::npos);
    EXPECT_NE(correlate(List{1, 1, 1}, List{1, 2, 3}, 0.95).error().message.find("constant"), std::string::npos);
    EXPECT_NE(correlate(List{1, 2, 3}, List{4, 4, 4}, 0.95).error().message.find("constant"), std::string::npos);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_NE(correlate(List{1, 2, nan}, List{1, 2, 3}, 0.95).error().message.find("value 2"), std::string::npos);
    EXPECT_NE(correlate(kX, kY, 1.0).error().message.find("confidence"), std::string::npos);
  }
}

TEST(Correlation, DoesNotDependOnOrderScaleOrSide) {
  std::vector<std::size_t> order(kX.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 generator(3);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(order.begin(), order.end(), generator);
    List x, y, x_scaled, y_flipped;
    for (const std::size_t i : order) {
      x.push_back(kX[i]);
      y.push_back(kY[i]);
      x_scaled.push_back(1e200 * kX[i] + 3);
      y_flipped.push_back(-kY[i]);
    }
    for (const auto& correlate : {pearson, spearman}) {
      const double r = correlate(kX, kY, 0.95)->r;
      EXPECT_NEAR(correlate(x, y, 0.95)->r, r, kClose);
      EXPECT_NEAR(correlate(y, x, 0.95)->r, r, kClose);
      EXPECT_NEAR(correlate(x_scaled, y, 0.95)->r, r, kClose);
      EXPECT_NEAR(correlate(x, y_flipped, 0.95)->r, -r, kClose);
      EXPECT_NEAR(correlate(x, y_flipped, 0.95)->interval.low, -correlate(x, y, 0.95)->interval.high, kClose);
    }
  }
}

// stats.norm.cdf, stats.norm.ppf
TEST(Distributions, Normal) {
  EXPECT_NEAR(normal_cdf(1.5), 0.9331927987311419, 1e-15);
  EXPECT_NEAR(normal_cdf(-8) / 6.22096057427174e-16, 1, 1e-12);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(normal_quantile(1e-10), -6.361340902404056, 1e-13);
  EXPECT_NEAR(normal_quantile(0.9999), 3.719016485455709, 1e-11);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-15);
  for (double z = -6; z <= 6; z += 0.37) EXPECT_NEAR(normal_quantile(normal_cdf(z)), z, 1e-7) << z;
}

// 2 * stats.t.sf(t, degrees)
TEST(Distributions, Student) {
  const struct {
    double t, degrees, p;
  } known[] = {{2.5, 7, 0.04099221858575289},
               {0.1, 1, 0.936548965138893},
               {12, 3, 0.0012450158007893362},
               {1.96, 1000, 0.050273184955748736},
               {40, 200, 2.2487396535202197e-97}};
  for (const auto& [t, degrees, p] : known) {
    EXPECT_NEAR(student_two_sided_p(t, degrees) / p, 1, 1e-10) << t << " " << degrees;
    EXPECT_EQ(student_two_sided_p(-t, degrees), student_two_sided_p(t, degrees));
  }
  EXPECT_EQ(student_two_sided_p(0, 5), 1);
}

}  // namespace
}  // namespace warpsmith::stats
