// What Nsight Compute measured of a kernel, as words of a prompt: its CSV output to named metrics.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith::llm {

struct ProfileMetric {
  const char* name;     // of Nsight Compute
  const char* meaning;  // in prompts
};
const std::vector<ProfileMetric>& profile_metrics();

// "tensor pipes busy 31.2 %, DRAM throughput 4.1 %, ..." of the first kernel in the output of `ncu --csv`, whatever
// stands above the table. Error (bad_input): no table, or none of the metrics, with ncu's own complaint where there is
// one.
Result<std::string> describe_profile(std::string_view ncu_output);

// The command that profiles one launch of the kernels called `kernels`, all of them one name or alternatives, after
// `skip` others of that name, while `command` runs.
std::vector<std::string> profile_command(const std::string& ncu, const std::vector<std::string>& kernels, int skip,
                                         const std::vector<std::string>& command);

}  // namespace warpsmith::llm
