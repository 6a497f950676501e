// Edit distance by dynamic programming over two names.
#include "codegen/nearest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace warpsmith {

std::size_t edits_between(std::string_view one, std::string_view other) {
  std::vector<std::vector<std::size_t>> cost(one.size() + 1, std::vector<std::size_t>(other.size() + 1));
  for (std::size_t i = 0; i <= one.size(); ++i) {
    for (std::size_t j = 0; j <= other.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t change = one[i - 1] == other[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[one.size()][other.size()];
}

std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string_view>& known) {
  constexpr std::size_t kLongest = 64;  // beyond it no name is near
  std::string_view nearest;
  std::size_t least = name.size() / 3 + 2;  // edits that still look like a slip
  for (const std::string_view candidate : known) {
    const std::size_t distance = edits_between(name.substr(0, kLongest), candidate);
    if (name.size() > kLongest || distance >= least || distance >= candidate.size()) continue;
    least = distance;
    nearest = candidate;
  }
  std::string message = fmt::format("unknown {} '{}'", what, printable(name));
  if (!nearest.empty()) message += fmt::format("; did you mean '{}'?", nearest);
  return message + fmt::format("{} accepted: {}", nearest.empty() ? ";" : "", fmt::join(known, ", "));
}

}  // namespace warpsmith
