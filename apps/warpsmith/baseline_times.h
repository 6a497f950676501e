// Auto-tuned cuBLASLt's cold times, as a survey measured them.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "problem/problem.h"

namespace warpsmith::cli {

// The key of a problem in load_baseline_times(): its sizes and layout.
std::string baseline_key(const Problem& problem);

// Of the columns lt_auto_nn_us and lt_auto_tn_us of a survey's PREFIX-offline.csv, us; cells without a positive number
// are passed over. Error: bad_input, also where there is no time at all; environment for a file that cannot be read.
Result<std::map<std::string, double>> load_baseline_times(const std::string& path);

}  // namespace warpsmith::cli
