// Legal recipes for a problem, the ones that the model finds fastest: where a search begins, and what a library runs
// when it knows nothing better.
#pragma once

#include <cstddef>
#include <vector>

#include "model/coefficients.h"
#include "model/estimate.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith::model {

struct Ranked {
  Recipe recipe;
  Estimate estimate;
};

// Up to `count` legal recipes of the target's families, fastest first, each different from the others in more than a
// detail: what the model does not know should not be wrong in all of them. Fewer where fewer are legal; none for the
// CPU. Deterministic. A few milliseconds.
std::vector<Ranked> rank(const Problem& problem, const Machine& machine, Target target, std::size_t count);
std::vector<Ranked> rank(const Problem& problem, const Machine& machine, Target target, std::size_t count,
                         const Coefficients& coefficients);

}  // namespace warpsmith::model
