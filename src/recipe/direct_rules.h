// Legality rules that the tiny and skinny families share: predicates over their knobs, each with its reason.
#pragma once

#include <optional>
#include <string>

#include "recipe/direct_plan.h"

namespace warpsmith::direct {

using Reason = std::optional<std::string>;

Reason check_architecture(const Machine& machine);
Reason check_cluster(const DirectKnobs& knobs, const Machine& machine);
Reason check_dependents(const DirectKnobs& knobs, const Machine& machine);
Reason check_threads(const DirectKnobs& knobs);
Reason check_registers(const DirectKnobs& knobs);
Reason check_shared_memory(const DirectKnobs& knobs, const Machine& machine);
Reason check_accumulator(const Problem& problem);
Reason check_class_registers(const DirectKnobs& knobs, const Problem& problem);
Reason check_depth(const DirectKnobs& knobs, const Problem& problem);
Reason check_ahead(const DirectKnobs& knobs, const Problem& problem);

}  // namespace warpsmith::direct
