// Evolution with islands: several small populations evolve apart and exchange their best in a ring, so that one lucky
// family or tile does not take over everything at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/policy.h"
#include "policy/rng.h"
#include "policy/sampler.h"

namespace warpsmith {

struct EvolutionOptions {
  std::size_t islands = 3;
  std::size_t population = 6;           // fastest individuals kept per island
  std::int64_t migration_interval = 4;  // tells per island between migrations
  std::int64_t stagnation = 40;         // tells of an island without a new best before it restarts
};

class EvolutionPolicy : public Policy {
 public:
  struct Individual {
    Recipe recipe;
    double time_us = 0;
  };
  // Fastest first.
  using Population = std::vector<Individual>;

  explicit EvolutionPolicy(PolicyContext context, const EvolutionOptions& options = {});

  std::string_view name() const override { return "evolution"; }
  std::optional<Recipe> ask() override;
  // Also of recipes that it never asked for: an earlier run's history, told first, makes it continue from there.
  void tell(const Recipe& recipe, const Outcome& outcome) override;

  std::size_t islands() const { return islands_.size(); }
  const Population& population(std::size_t island) const { return islands_[island].population; }

 private:
  struct Island {
    Population population;
    std::int64_t since_improvement = 0;  // tells
  };
  // How often a value of a field took part in a trial, and in a rejected one.
  struct ValueRecord {
    int tried = 0, rejected = 0;
  };

  std::optional<Recipe> next_starting_point();
  std::optional<Recipe> propose(const Island& island);
  std::optional<Recipe> found();
  std::optional<Recipe> breed(const Island& island);
  const Recipe& select(const Population& population);
  Recipe cross(const Recipe& first, const Recipe& second);
  void mutate(Recipe& recipe, std::uint64_t changes);
  bool repair(Recipe& recipe);
  bool suspect(const Recipe& recipe) const;

  std::size_t take_pending(const Recipe& recipe);
  void learn(const Recipe& recipe, bool accepted);
  void settle(Island& island, Individual individual);
  void migrate();
  void restart(Island& island);

  EvolutionOptions options_;
  std::vector<Recipe> starting_points_;
  std::size_t next_start_ = 0;
  SearchSpace space_;
  Rng rng_;
  Sampler sampler_;
  std::vector<Island> islands_;
  std::vector<std::pair<Recipe, std::size_t>> pending_;  // asked, not yet told, with the island that will receive it
  std::vector<std::vector<std::vector<ValueRecord>>> values_;  // by family, field, value
  std::size_t turn_ = 0;                                       // island that proposes next
  std::int64_t tells_ = 0;
};

}  // namespace warpsmith
