// Where a search begins: what the performance model finds fastest, and the families' own starting points.
#pragma once

#include <functional>
#include <vector>

#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

struct StartingPoints {
  std::vector<const Family*> families;  // those of the target that fit the problem; all of them when none does
  std::vector<Recipe> ranked;           // legal, the model's fastest first; none for the CPU
  std::vector<Recipe> best;             // each family's first, that are not in `ranked`
  std::vector<Recipe> others;           // the families' other ones

  std::vector<Recipe> all() const;  // in that order
};
StartingPoints find_starting_points(const Problem& problem, const Machine& machine, Target target);

// What the performance model expects legal recipes to take, as PolicyContext::expected_us.
std::function<double(const Recipe&)> expected_times(const Problem& problem, const Machine& machine);

}  // namespace warpsmith
