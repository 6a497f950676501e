// Checks and sums.
#include "report/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace warpsmith::stats {

Status check_values(Values values, std::size_t least) {
  if (values.size() < least) {
    return failure(fmt::format("a statistic of {} values; it takes at least {}", values.size(), least));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return failure(fmt::format("value {} is {}, not a finite number", i, values[i]));
  }
  return ok_status();
}

Result<std::vector<double>> logarithms_of(Values values) {
  if (const Status status = check_values(values, 1); !status) return status.error();
  std::vector<double> logarithms;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > 0)) {
      return failure(fmt::format("value {} is {}; a geometric mean takes positive values", i, values[i]));
    }
    logarithms.push_back(std::log(values[i]));
  }
  return logarithms;
}

double mean_unchecked(Values values) {
  // Sums of distances from one of the values: exact when all are equal, and no overflow for large ones.
  const double base = values.front(), weight = 1 / static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += (value - base) * weight;
  return base + sum;
}

double percentile_of_sorted(Values sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace warpsmith::stats
