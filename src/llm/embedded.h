// docs/attacks.md as it was when the program was built.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace warpsmith {

const std::map<std::string, std::string_view>& embedded_attack_catalogue();

}  // namespace warpsmith
