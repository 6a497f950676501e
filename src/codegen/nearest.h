// "unknown name 'pionter'; did you mean 'pointer'?": the known name nearest to one that is not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace warpsmith {

// Insertions, deletions, substitutions and swaps of neighbours.
std::size_t edits_between(std::string_view one, std::string_view other);

// One line: what was unknown, the nearest of `known` where one is near, and all of them.
std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string_view>& known);

}  // namespace warpsmith
