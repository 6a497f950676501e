// Where a search of the sm90 family begins: recipes ranked by a rough estimate
// of their time.
#pragma once

#include <vector>

#include "problem/machine.h"
#include "recipe/recipe.h"
#include "recipe/sm90_plan.h"

namespace warpsmith {

// Clock cycles from launch to end, to rank recipes; not a prediction of times.
double sm90_estimated_cycles(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine);

// About ten legal recipes, best guess first, of several kinds: a few of each,
// since the estimate knows little.
std::vector<Recipe> sm90_starting_points(const Problem& problem, const Machine& machine);

}  // namespace warpsmith
