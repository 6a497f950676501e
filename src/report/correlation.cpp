// Pearson and Spearman correlations, and the distributions that tests and intervals need.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "report/statistics.h"
#include "report/values.h"

namespace warpsmith::stats {

namespace {

// The continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method. It converges fast for
// x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double numerator = 1, denominator = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double value = denominator;
  for (int i = 1; i <= 10000; ++i) {
    const double m = i;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double step = 1;
    for (const double term : {even, odd}) {
      denominator = 1 / away_from_zero(1 + term * denominator);
      numerator = away_from_zero(1 + term / numerator);
      step = numerator * denominator;
      value *= step;
    }
    if (std::abs(step - 1) < std::numeric_limits<double>::epsilon()) break;
  }
  return value;
}

// The logarithm of the gamma function without lgamma(), which writes the global signgam: Stirling's series (DLMF
// 5.11.1), after the recurrence has moved the argument to where it is exact to rounding. x > 0.
double log_gamma(double x) {
  double shift = 0;
  for (; x < 12; ++x) shift += std::log(x);
  const double y = 1 / (x * x);
  const double series =
      (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y * (1.0 / 1680 - y * (1.0 / 1188 - y * 691.0 / 360360))))) / x;
  return (x - 0.5) * std::log(x) - x + 0.5 * std::log(2 * std::acos(-1.0)) + series - shift;
}

// The regularised incomplete beta function I_x(a, b); 1 - x is given apart, to keep its digits.
double incomplete_beta(double a, double b, double x, double one_minus_x) {
  if (!(x > 0)) return 0;
  if (!(one_minus_x > 0)) return 1;
  const double front =
      std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log(one_minus_x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, one_minus_x) / b;
}

Status check_pairs(Values x, Values y, double confidence) {
  if (x.size() != y.size()) {
    return failure(fmt::format("a correlation of {} and {} values; both must be as many", x.size(), y.size()));
  }
  if (!(confidence > 0 && confidence < 1)) {
    return failure(fmt::format("confidence {}; accepted: between 0 and 1", confidence));
  }
  for (const Values side : {x, y}) {
    if (const Status status = check_values(side, 3); !status) return status.error();
    if (std::all_of(side.begin(), side.end(), [&](double value) { return value == side[0]; })) {
      return failure("a correlation with a constant side has no value");
    }
  }
  return ok_status();
}

double coefficient(Values x, Values y) {
  const double x_mean = mean_unchecked(x), y_mean = mean_unchecked(y);
  // Scaled to the largest distance, so that squares neither overflow nor vanish.
  double x_scale = 0, y_scale = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x_scale = std::max(x_scale, std::abs(x[i] - x_mean));
    y_scale = std::max(y_scale, std::abs(y[i] - y_mean));
  }
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = (x[i] - x_mean) / x_scale, dy = (y[i] - y_mean) / y_scale;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

// Fisher's transformation: atanh(r) is nearly normal, with variance `variance_factor` / (n - 3).
Interval fisher_interval(double r, std::size_t count, double variance_factor, double confidence) {
  if (count <= 3) return {-1, 1};
  const double error = std::sqrt(variance_factor / static_cast<double>(count - 3));
  const double reach = normal_quantile(0.5 + confidence / 2) * error;
  const double z = std::atanh(r);  // infinite for |r| = 1, and the interval then is that point
  return {std::tanh(z - reach), std::tanh(z + reach)};
}

double correlation_p(double r, std::size_t count) {
  const auto degrees = static_cast<double>(count - 2);
  const double rest = (1 - r) * (1 + r);
  if (!(rest > 0)) return 0;
  return student_two_sided_p(r * std::sqrt(degrees / rest), degrees);
}

}  // namespace

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

double normal_quantile(double probability) {
  if (probability > 0.5) return -normal_quantile(1 - probability);  // the lower tail keeps its digits
  double low = -40, high = 0;                                       // P(Z <= -40) is below the smallest double
  for (int i = 0; i < 100 && low < high; ++i) {
    const double middle = std::midpoint(low, high);
    (normal_cdf(middle) < probability ? low : high) = middle;
  }
  return std::midpoint(low, high);
}

double student_two_sided_p(double t, double degrees) {
  const double sum = degrees + t * t;
  return incomplete_beta(degrees / 2, 0.5, degrees / sum, t * t / sum);
}

Result<Correlation> pearson(Values x, Values y, double confidence) {
  if (const Status status = check_pairs(x, y, confidence); !status) return status.error();
  const double r = coefficient(x, y);
  return Correlation{r, fisher_interval(r, x.size(), 1, confidence), correlation_p(r, x.size()),
                     static_cast<int>(x.size())};
}

Result<Correlation> spearman(Values x, Values y, double confidence) {
  if (const Status status = check_pairs(x, y, confidence); !status) return status.error();
  const std::vector<double> x_ranks = ranks(x), y_ranks = ranks(y);
  const double r = coefficient(x_ranks, y_ranks);
  // Bonett and Wright (2000): ranks vary more than normal values do.
  return Correlation{r, fisher_interval(r, x.size(), 1 + r * r / 2, confidence), correlation_p(r, x.size()),
                     static_cast<int>(x.size())};
}

}  // namespace warpsmith::stats
