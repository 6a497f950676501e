// The performance model as a Ranking.
#include "library/choice.h"
#ifdef WARPSMITH_HAVE_MODEL
#include "model/estimate.h"
#include "model/rank.h"
#endif

namespace warpsmith::library {

#ifdef WARPSMITH_HAVE_MODEL

namespace {

class ModelRanking final : public Ranking {
 public:
  std::vector<RankedRecipe> rank(const Problem& problem, const Machine& machine, std::size_t count) const override {
    const Target target = machine.compute_capability >= 90 ? Target::sm90 : Target::sm80;
    std::vector<RankedRecipe> recipes;
    for (model::Ranked& ranked : model::rank(problem, machine, target, count)) {
      recipes.push_back({std::move(ranked.recipe), ranked.estimate.time_us});
    }
    return recipes;
  }

  double estimate_us(const Recipe& recipe, const Problem& problem, const Machine& machine) const override {
    return model::estimate(recipe, problem, machine).time_us;
  }
};

}  // namespace

std::unique_ptr<Ranking> model_ranking() { return std::make_unique<ModelRanking>(); }

#else

std::unique_ptr<Ranking> model_ranking() { return nullptr; }

#endif

}  // namespace warpsmith::library
