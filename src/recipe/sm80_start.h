// Starting points of the sm80 family.
#pragma once

#include <vector>

#include "recipe/recipe.h"

namespace warpsmith {

// The best by a rough estimate of time, then variants of the best one that differ in the structure of the main loop.
std::vector<Recipe> sm80_starting_points(const Problem& problem, const Machine& machine);

}  // namespace warpsmith
