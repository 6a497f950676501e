// Random search.
#include "policy/random_policy.h"

namespace warpsmith {

RandomPolicy::RandomPolicy(PolicyContext context)
    : starting_points_(std::move(context.starting_points)),
      space_(context.problem, context.machine, std::move(context.families)),
      rng_(context.seed),
      sampler_(space_, context.seed) {}

std::optional<Recipe> RandomPolicy::ask() {
  std::optional<Recipe> recipe;
  while (!recipe && next_start_ < starting_points_.size()) {
    const Recipe& start = starting_points_[next_start_++];
    if (space_.fresh(start)) recipe = start;
  }
  if (!recipe) recipe = sampler_.draw(rng_);
  if (recipe) space_.mark(*recipe);
  return recipe;
}

void RandomPolicy::tell(const Recipe& recipe, const Outcome&) { space_.mark(recipe); }

}  // namespace warpsmith
