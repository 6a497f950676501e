// One problem of a replay table as Kernel Tuner's cache file, so that its search strategies can be run on the same
// measurements in its simulation mode.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "evaluate/replay/replay.h"

namespace warpsmith {

// Tunable parameters are the recipe's fields. With several families: "family" and the fields of all, by full
// name ("sm90.tile_m"); those of another family than the recipe's stand at their defaults. Times are in milliseconds;
// rejected recipes carry Kernel Tuner's error marks. Error (bad_input): a problem that the table lacks.
Result<nlohmann::json> kernel_tuner_cache(const ReplayTable& table, const Problem& problem);

// Its file: the cache stands last and the text ends with three braces, by which Kernel Tuner knows that it is whole.
std::string kernel_tuner_text(const nlohmann::json& cache);

}  // namespace warpsmith
