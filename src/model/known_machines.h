// Machines whose facts are written down, so that estimates can be made where they are not at hand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "problem/machine.h"

namespace warpsmith::model {

// "h200": the machine that the fitted coefficients come from.
std::optional<Machine> known_machine(std::string_view name);
std::string known_machine_names();  // for messages

}  // namespace warpsmith::model
