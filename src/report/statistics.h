// Statistics of measurements: location, spread, paired tests, bootstrap intervals, correlations. What has no value for
// an input (too few values, NaN, a logarithm of zero) is a failed Result with one line; nothing returns NaN.
// docs/statistics.md has the formulas and their sources.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace warpsmith::stats {

using Values = std::span<const double>;

// All: error (failed) for no values and for any that is not finite.
Result<double> mean(Values values);
Result<double> geometric_mean(Values values);      // error: a value that is not positive
Result<double> median(Values values);              // mean of the middle two for an even count
Result<double> variance(Values values);            // of a sample, divided by n - 1; error: fewer than two values
Result<double> standard_deviation(Values values);  // its root
// Linear interpolation between order statistics at fraction * (n - 1), fraction in [0, 1]; values in any order.
Result<double> percentile(Values values, double fraction);
Result<double> share_above(Values values, double threshold);  // strictly above

// What the Wilcoxon test does with differences of zero: `wilcox` leaves them out before ranking, `pratt` after it.
enum class ZeroHandling { wilcox, pratt };

struct SignedRankTest {
  double w_plus = 0, w_minus = 0;  // sums of the ranks of positive and negative differences
  double p = 1;                    // two-sided
  int used = 0, zeros = 0;         // differences that count, and zeros
  bool exact = true;               // from the exact distribution; false: normal approximation
};

// Wilcoxon's signed-rank test that the differences are symmetric about 0. The distribution is exact up to 50
// differences without zeros and ties, and up to 13 with them; beyond, a normal approximation with corrections for ties
// and continuity. That is SciPy's wilcoxon(d, zero_method=..., correction=True). All zeros: p = 1.
Result<SignedRankTest> wilcoxon_signed_rank(Values differences, ZeroHandling zeros = ZeroHandling::wilcox);

struct Interval {
  double low = 0, high = 0;
};

enum class BootstrapMethod { bca, percentile };

struct BootstrapOptions {
  int resamples = 10000;
  double confidence = 0.95;
  BootstrapMethod method = BootstrapMethod::bca;  // bias-corrected and accelerated
  std::uint64_t seed = 1;                         // the same seed gives the same interval on every machine
};

// A statistic of values that are given in arbitrary order and may be reordered by it.
using Statistic = std::function<double(std::span<double>)>;
double mean_of(std::span<double> values);
double median_of(std::span<double> values);

// Error: fewer than two values, one that is not finite, options out of range.
Result<Interval> bootstrap_interval(Values values, const Statistic& statistic, const BootstrapOptions& options = {});
Result<Interval> bootstrap_mean(Values values, const BootstrapOptions& options = {});
Result<Interval> bootstrap_median(Values values, const BootstrapOptions& options = {});
// The interval of the mean of the logarithms, transformed back. Error also: a value that is not positive.
Result<Interval> bootstrap_geometric_mean(Values values, const BootstrapOptions& options = {});

struct PairedDifference {
  double difference = 0;  // statistic(first) - statistic(second)
  Interval interval;
};

// Pairs are drawn together: pair i is first[i] and second[i]. Error also: sizes that differ.
Result<PairedDifference> paired_bootstrap(Values first, Values second, const Statistic& statistic,
                                          const BootstrapOptions& options = {});

struct Correlation {
  double r = 0;
  Interval interval;
  double p = 1;  // two-sided, of no correlation
  int count = 0;
};

// Error: sizes that differ, fewer than three pairs, a constant side. Three pairs: the interval is [-1, 1].
Result<Correlation> pearson(Values x, Values y, double confidence = 0.95);
Result<Correlation> spearman(Values x, Values y, double confidence = 0.95);

// Ranks from 1; equal values share the mean of their ranks. Values must not be NaN.
std::vector<double> ranks(Values values);

// The standard normal distribution: P(Z <= z), and the z of a probability in (0, 1).
double normal_cdf(double z);
double normal_quantile(double probability);
// P(|T| >= |t|) of Student's distribution.
double student_two_sided_p(double t, double degrees);

}  // namespace warpsmith::stats
