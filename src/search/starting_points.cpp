// The model's ranks merged with the families' seeds.
#include "search/starting_points.h"

#include <algorithm>
#include <utility>

#include "model/estimate.h"
#include "model/rank.h"

namespace warpsmith {

namespace {

constexpr std::size_t kRanked = 16;

}  // namespace

std::vector<Recipe> StartingPoints::all() const {
  std::vector<Recipe> recipes = ranked;
  recipes.insert(recipes.end(), best.begin(), best.end());
  recipes.insert(recipes.end(), others.begin(), others.end());
  return recipes;
}

StartingPoints find_starting_points(const Problem& problem, const Machine& machine, Target target) {
  StartingPoints points;
  for (model::Ranked& each : model::rank(problem, machine, target, kRanked)) {
    points.ranked.push_back(std::move(each.recipe));
  }
  const auto known = [&](const Recipe& recipe) {
    return std::find(points.ranked.begin(), points.ranked.end(), recipe) != points.ranked.end();
  };
  const std::vector<const Family*> all = families_for(target);
  for (const Family* family : all) {
    const std::vector<Recipe> starts = family->starting_points(problem, machine);
    const bool ranked = std::any_of(points.ranked.begin(), points.ranked.end(),
                                    [&](const Recipe& recipe) { return &recipe.family() == family; });
    if (starts.empty() && !ranked) continue;  // the family does not fit the problem
    points.families.push_back(family);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (!known(starts[i])) (i == 0 ? points.best : points.others).push_back(starts[i]);
    }
  }
  if (points.families.empty()) points.families = all;
  return points;
}

std::function<double(const Recipe&)> expected_times(const Problem& problem, const Machine& machine) {
  return [problem, machine](const Recipe& recipe) {
    return model::covers(recipe.family()) ? model::estimate(recipe, problem, machine).time_us : 0;
  };
}

}  // namespace warpsmith
