// Bootstrap intervals: percentile and BCa (Efron 1987), from a generator that is the same on every machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "report/statistics.h"
#include "report/values.h"

namespace warpsmith::stats {

namespace {

// splitmix64. The standard library's distributions differ between implementations; this does not.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  // Uniform in [0, count), count < 2^32: the bias of the multiplication is below 2^-32.
  std::size_t below(std::size_t count) {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    bits ^= bits >> 31;
    return static_cast<std::size_t>(((bits >> 32) * count) >> 32);
  }

 private:
  std::uint64_t state_;
};

Status check_options(const BootstrapOptions& options) {
  if (options.resamples < 100 || options.resamples > 10'000'000) {
    return failure(fmt::format("{} bootstrap resamples; accepted: 100 to 10000000", options.resamples));
  }
  if (!(options.confidence > 0 && options.confidence < 1)) {
    return failure(fmt::format("confidence {}; accepted: between 0 and 1", options.confidence));
  }
  return ok_status();
}

// A statistic of the observations that `indices` picks, one for each draw.
using StatisticOfDraw = std::function<double(std::span<const std::size_t> indices)>;

// Where BCa moves a percentile to. z0: bias correction; a: acceleration.
double adjusted(double fraction, double z0, double a) {
  const double z = z0 + normal_quantile(fraction);
  return normal_cdf(z0 + z / (1 - a * z));
}

// From the jackknife: the skewness of the statistic without each observation.
double acceleration(std::size_t count, const StatisticOfDraw& statistic) {
  std::vector<double> without;
  std::vector<std::size_t> indices(count - 1);
  for (std::size_t left_out = 0; left_out < count; ++left_out) {
    for (std::size_t i = 0; i + 1 < count; ++i) indices[i] = i < left_out ? i : i + 1;
    without.push_back(statistic(indices));
  }
  const double center = mean_unchecked(without);
  double squares = 0, cubes = 0;
  for (const double value : without) {
    const double distance = center - value;
    squares += distance * distance;
    cubes += distance * distance * distance;
  }
  return squares > 0 ? cubes / (6 * std::pow(squares, 1.5)) : 0;
}

Interval interval_of_draws(std::size_t count, const StatisticOfDraw& statistic, double estimate,
                           const BootstrapOptions& options) {
  Generator generator(options.seed);
  std::vector<double> drawn;
  drawn.reserve(static_cast<std::size_t>(options.resamples));
  std::vector<std::size_t> indices(count);
  for (int i = 0; i < options.resamples; ++i) {
    for (std::size_t& index : indices) index = generator.below(count);
    drawn.push_back(statistic(indices));
  }
  std::sort(drawn.begin(), drawn.end());
  double low = (1 - options.confidence) / 2, high = 1 - low;
  if (options.method == BootstrapMethod::bca) {
    const auto [first, last] = std::equal_range(drawn.begin(), drawn.end(), estimate);
    const double below = static_cast<double>((first - drawn.begin()) + (last - drawn.begin())) / 2;
    // At the ends the normal quantile is infinite: half a draw is kept away from them.
    const double draws = options.resamples;
    const double z0 = normal_quantile(std::clamp(below, 0.5, draws - 0.5) / draws);
    const double a = acceleration(count, statistic);
    low = adjusted(low, z0, a);
    high = adjusted(high, z0, a);
  }
  if (high < low) std::swap(low, high);  // an acceleration beyond what the expansion bears
  return {percentile_of_sorted(drawn, low), percentile_of_sorted(drawn, high)};
}

}  // namespace

double mean_of(std::span<double> values) { return mean_unchecked(values); }

double median_of(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

Result<Interval> bootstrap_interval(Values values, const Statistic& statistic, const BootstrapOptions& options) {
  if (const Status status = check_values(values, 2); !status) return status.error();
  if (const Status status = check_options(options); !status) return status.error();
  std::vector<double> sample;
  const auto of_draw = [&](std::span<const std::size_t> indices) {
    sample.resize(indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) sample[i] = values[indices[i]];
    return statistic(sample);
  };
  std::vector<double> all(values.begin(), values.end());
  return interval_of_draws(values.size(), of_draw, statistic(all), options);
}

Result<Interval> bootstrap_mean(Values values, const BootstrapOptions& options) {
  return bootstrap_interval(values, mean_of, options);
}

Result<Interval> bootstrap_median(Values values, const BootstrapOptions& options) {
  return bootstrap_interval(values, median_of, options);
}

Result<Interval> bootstrap_geometric_mean(Values values, const BootstrapOptions& options) {
  const auto logarithms = logarithms_of(values);
  if (!logarithms) return logarithms.error();
  const auto interval = bootstrap_mean(*logarithms, options);
  if (!interval) return interval.error();
  return Interval{std::exp(interval->low), std::exp(interval->high)};
}

Result<PairedDifference> paired_bootstrap(Values first, Values second, const Statistic& statistic,
                                          const BootstrapOptions& options) {
  if (first.size() != second.size()) {
    return failure(fmt::format("pairs of {} and {} values; both must be as many", first.size(), second.size()));
  }
  for (const Values side : {first, second}) {
    if (const Status status = check_values(side, 2); !status) return status.error();
  }
  if (const Status status = check_options(options); !status) return status.error();
  std::vector<double> sample;
  const auto of_side = [&](Values side, std::span<const std::size_t> indices) {
    sample.resize(indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) sample[i] = side[indices[i]];
    return statistic(sample);
  };
  const auto of_draw = [&](std::span<const std::size_t> indices) {
    return of_side(first, indices) - of_side(second, indices);
  };
  std::vector<double> x(first.begin(), first.end()), y(second.begin(), second.end());
  const double difference = statistic(x) - statistic(y);
  return PairedDifference{difference, interval_of_draws(first.size(), of_draw, difference, options)};
}

}  // namespace warpsmith::stats
