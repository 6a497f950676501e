// The program that compute-sanitizer watches for a task's candidate: its launches and nothing else on the device.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace warpsmith::task {

// request: an EvaluationRequest, of which every setting is run. Every tensor is an allocation of its own and exact
// size, so that any access beside it is one out of bounds; inputs are copied there, outputs and workspace are left as
// allocated (a workspace that must be cleared is cleared). Two launches of each setting; no reference is needed. Error:
// environment without a usable device; failed with the device's words.
Status run_for_sanitizer(const nlohmann::json& request, int device);

}  // namespace warpsmith::task
