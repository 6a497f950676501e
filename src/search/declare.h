// The spaces of a dense sweep: for each of many problems so many legal recipes, good and poor, most of which are shared
// by all problems, since compiling them is the other half of the cost.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "evaluate/replay/declared.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

struct DeclareOptions {
  std::vector<Problem> problems;
  Machine machine;
  Target target = Target::cpu;
  std::size_t recipes = 1500;  // of each problem
  std::uint64_t seed = 1;
  // What did best on other problems, the most frequent first.
  std::vector<Recipe> winners{};
  // Of each problem what is known to do best on it; absent: nothing.
  std::vector<std::vector<Recipe>> best{};
  nlohmann::json provenance = nlohmann::json::object();  // for the file's header
};

// A problem has what is known to do best on it, its own starting points (the performance model's fastest, the families'
// own), and what is legal of a
// pool that all share: winners, starting points of the others, neighbours of both, recipes drawn at random. Families
// take fixed shares as far as they go. Deterministic. Error: bad_input, for a problem that has fewer legal recipes.
Result<DeclaredSpaces> declare_spaces(const DeclareOptions& options);

}  // namespace warpsmith
