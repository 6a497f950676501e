// Location, spread, and the signed-rank test.
#include "report/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/values.h"

namespace warpsmith::stats {

Result<double> mean(Values values) {
  if (const Status status = check_values(values, 1); !status) return status.error();
  return mean_unchecked(values);
}

Result<double> geometric_mean(Values values) {
  const auto logarithms = logarithms_of(values);
  if (!logarithms) return logarithms.error();
  return std::exp(mean_unchecked(*logarithms));
}

Result<double> median(Values values) { return percentile(values, 0.5); }

Result<double> variance(Values values) {
  if (const Status status = check_values(values, 2); !status) return status.error();
  const double center = mean_unchecked(values);
  double sum = 0;
  for (const double value : values) sum += (value - center) * (value - center);
  return sum / static_cast<double>(values.size() - 1);
}

Result<double> standard_deviation(Values values) {
  const auto squared = variance(values);
  if (!squared) return squared.error();
  return std::sqrt(*squared);
}

Result<double> percentile(Values values, double fraction) {
  if (const Status status = check_values(values, 1); !status) return status.error();
  if (!(fraction >= 0 && fraction <= 1)) {
    return failure(fmt::format("percentile at fraction {}; accepted: 0 to 1", fraction));
  }
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return percentile_of_sorted(sorted, fraction);
}

Result<double> share_above(Values values, double threshold) {
  if (const Status status = check_values(values, 1); !status) return status.error();
  const auto above = std::count_if(values.begin(), values.end(), [&](double value) { return value > threshold; });
  return static_cast<double>(above) / static_cast<double>(values.size());
}

std::vector<double> ranks(Values values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    // Ranks first + 1 to end are shared.
    const double shared = static_cast<double>(first + 1 + end) / 2;
    for (std::size_t i = first; i < end; ++i) result[order[i]] = shared;
    first = end;
  }
  return result;
}

namespace {

constexpr int kExactLimit = 50;          // differences without ties and zeros
constexpr int kExactLimitWithTies = 13;  // as SciPy, whose permutation test enumerates 2^13 signs

struct RankedDifferences {
  std::vector<double> ranks;  // of the absolute values that count
  double tie_term = 0;        // sum of t^3 - t over groups of t equal absolute values
};

RankedDifferences rank_differences(Values differences, ZeroHandling zeros, SignedRankTest& test) {
  std::vector<double> magnitudes, signs;
  for (const double difference : differences) {
    if (difference == 0) ++test.zeros;
    if (difference == 0 && zeros == ZeroHandling::wilcox) continue;
    magnitudes.push_back(std::abs(difference));
    signs.push_back(difference);
  }
  const std::vector<double> all = ranks(magnitudes);
  RankedDifferences ranked;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (signs[i] == 0) continue;
    (signs[i] > 0 ? test.w_plus : test.w_minus) += all[i];
    ranked.ranks.push_back(all[i]);
  }
  test.used = static_cast<int>(ranked.ranks.size());
  std::sort(ranked.ranks.begin(), ranked.ranks.end());
  for (auto first = ranked.ranks.begin(); first != ranked.ranks.end();) {
    const auto end = std::upper_bound(first, ranked.ranks.end(), *first);
    const auto t = static_cast<double>(end - first);
    ranked.tie_term += t * t * t - t;
    first = end;
  }
  return ranked;
}

// Twice the smaller tail of w_plus when every rank is positive with probability one half. Shared ranks are multiples of
// one half, so twice the rank sum is an integer.
double exact_p(const std::vector<double>& positive_ranks, double w_plus) {
  std::vector<double> probability = {1.0};  // of each value of twice the rank sum
  for (const double rank : positive_ranks) {
    const auto step = static_cast<std::size_t>(std::lround(2 * rank));
    std::vector<double> next(probability.size() + step, 0.0);
    for (std::size_t i = 0; i < probability.size(); ++i) {
      next[i] += probability[i] / 2;
      next[i + step] += probability[i] / 2;
    }
    probability = std::move(next);
  }
  const auto at = static_cast<std::ptrdiff_t>(std::lround(2 * w_plus));
  const double below = std::accumulate(probability.begin(), probability.begin() + at + 1, 0.0);
  const double above = std::accumulate(probability.begin() + at, probability.end(), 0.0);
  return std::min(1.0, 2 * std::min(below, above));
}

double approximate_p(const SignedRankTest& test, double tie_term, ZeroHandling zeros) {
  const bool pratt = zeros == ZeroHandling::pratt;
  const double left_out = pratt ? test.zeros : 0;  // ranked, then left out (Cureton 1967)
  const double n = test.used + left_out;
  const double center = (n * (n + 1) - left_out * (left_out + 1)) / 4;
  const double squared =
      (n * (n + 1) * (2 * n + 1) - left_out * (left_out + 1) * (2 * left_out + 1) - tie_term / 2) / 24;
  const double distance = std::abs(test.w_plus - center);
  if (distance == 0) return 1;
  const double z = (distance - 0.5) / std::sqrt(squared);  // at least 0: distances are multiples of one half
  return std::min(1.0, 2 * normal_cdf(-z));
}

}  // namespace

Result<SignedRankTest> wilcoxon_signed_rank(Values differences, ZeroHandling zeros) {
  if (const Status status = check_values(differences, 1); !status) return status.error();
  SignedRankTest test;
  const RankedDifferences ranked = rank_differences(differences, zeros, test);
  if (test.used == 0) return test;
  const bool plain = test.zeros == 0 && ranked.tie_term == 0;
  test.exact = static_cast<int>(differences.size()) <= (plain ? kExactLimit : kExactLimitWithTies);
  test.p = test.exact ? exact_p(ranked.ranks, test.w_plus) : approximate_p(test, ranked.tie_term, zeros);
  return test;
}

}  // namespace warpsmith::stats
