// The program that compute-sanitizer watches: the candidate's launches and nothing else on the device.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace warpsmith {

// request: {"problem": TEXT, "binary": PATH of a cubin, "launch": as in a worker's request}. Every operand is an
// allocation of its own and exact size, so that any access beside it is one out of bounds; A and B are copied there,
// C and the workspace are left as allocated (a workspace that must be cleared is cleared). Two launches.
// Error: environment without a usable device; failed with the device's words.
Status run_for_sanitizer(const nlohmann::json& request, int device);

}  // namespace warpsmith
