// What the statistics share: checks of their input and sums over checked values.
#pragma once

#include <vector>

#include "report/statistics.h"

namespace warpsmith::stats {

// Error (failed): fewer than `least` values, or one that is not finite.
Status check_values(Values values, std::size_t least);

// Error also: a value that is not positive.
Result<std::vector<double>> logarithms_of(Values values);

// Precondition of both: not empty, finite.
double mean_unchecked(Values values);
double percentile_of_sorted(Values sorted, double fraction);

}  // namespace warpsmith::stats
