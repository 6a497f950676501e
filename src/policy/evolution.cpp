// Evolution with islands.
#include "policy/evolution.h"

#include <algorithm>
#include <cmath>

namespace warpsmith {

namespace {

constexpr std::size_t kFounders = 3;    // an island with fewer individuals is still being settled
constexpr std::size_t kTournament = 3;  // contestants per selection
constexpr int kBreedAttempts = 48;      // children bred before the island gives up on a fresh legal one
constexpr double kImmigrantShare = 0.05;
constexpr double kCrossoverShare = 0.3;
constexpr double kStepShare = 0.7;     // of mutations: to a neighbouring value; the others: to any value
constexpr int kSuspectTrials = 4;      // a value whose first trials were all rejected is avoided ...
constexpr double kSuspectShare = 0.1;  // ... but not for ever

}  // namespace

EvolutionPolicy::EvolutionPolicy(PolicyContext context, const EvolutionOptions& options)
    : options_(options),
      starting_points_(std::move(context.starting_points)),
      space_(context.problem, context.machine, std::move(context.families)),
      rng_(context.seed),
      sampler_(space_, context.seed),
      islands_(std::max<std::size_t>(1, options.islands)) {
  for (std::size_t family = 0; family < space_.families().size(); ++family) {
    std::vector<std::vector<ValueRecord>> fields;
    for (const int radix : space_.radices(family)) fields.emplace_back(static_cast<std::size_t>(radix));
    values_.push_back(std::move(fields));
  }
}

std::optional<Recipe> EvolutionPolicy::ask() {
  const std::size_t island = turn_++ % islands_.size();
  auto recipe = next_starting_point();
  if (!recipe) recipe = propose(islands_[island]);
  if (!recipe) return std::nullopt;
  space_.mark(*recipe);
  pending_.emplace_back(*recipe, island);
  return recipe;
}

std::optional<Recipe> EvolutionPolicy::next_starting_point() {
  while (next_start_ < starting_points_.size()) {
    const Recipe& start = starting_points_[next_start_++];
    if (space_.family_index(start) && space_.fresh(start)) return start;
  }
  return std::nullopt;
}

std::optional<Recipe> EvolutionPolicy::propose(const Island& island) {
  std::optional<Recipe> recipe;
  if (island.population.size() < kFounders) {
    recipe = found();
  } else if (!rng_.chance(kImmigrantShare)) {
    recipe = breed(island);
  }
  if (!recipe) recipe = sampler_.draw(rng_);
  return recipe;
}

// A first individual for an island: far from a starting point, or, by a coin's toss, anywhere (nothing).
std::optional<Recipe> EvolutionPolicy::found() {
  if (starting_points_.empty() || rng_.chance(0.5)) return std::nullopt;
  for (int attempt = 0; attempt < kBreedAttempts; ++attempt) {
    Recipe recipe = starting_points_[rng_.index(starting_points_.size())];
    if (!space_.family_index(recipe)) continue;
    mutate(recipe, 2 + rng_.below(3));
    if (!space_.legal(recipe) && !repair(recipe)) continue;
    if (!space_.met(recipe) && (!suspect(recipe) || rng_.chance(kSuspectShare))) return recipe;
  }
  return std::nullopt;
}

std::optional<Recipe> EvolutionPolicy::breed(const Island& island) {
  for (int attempt = 0; attempt < kBreedAttempts; ++attempt) {
    Recipe child = select(island.population);
    // Mostly one change, more as attempts fail because everything near was met already.
    std::uint64_t changes = 1 + static_cast<std::uint64_t>(attempt / 12);
    while (changes < 4 && rng_.chance(0.4)) ++changes;
    if (rng_.chance(kCrossoverShare)) {
      child = cross(child, select(island.population));
      changes -= rng_.chance(0.5) ? 1 : 0;
    }
    mutate(child, changes);
    if (!space_.legal(child) && !repair(child)) continue;
    if (!space_.met(child) && (!suspect(child) || rng_.chance(kSuspectShare))) return child;
  }
  return std::nullopt;
}

// Tournament: the fastest of a few drawn at random.
const Recipe& EvolutionPolicy::select(const Population& population) {
  std::size_t fastest = rng_.index(population.size());
  for (std::size_t i = 1; i < kTournament; ++i) fastest = std::min(fastest, rng_.index(population.size()));
  return population[fastest].recipe;
}

// Uniform crossover; parents of different families do not mix.
Recipe EvolutionPolicy::cross(const Recipe& first, const Recipe& second) {
  Recipe child = first;
  if (&first.family() != &second.family()) return child;
  for (std::size_t i = 0; i < child.size(); ++i) {
    if (rng_.chance(0.5)) child.set_choice(i, second.choice(i));
  }
  return child;
}

void EvolutionPolicy::mutate(Recipe& recipe, std::uint64_t changes) {
  const auto& radices = space_.radices(*space_.family_index(recipe));
  std::vector<std::size_t> variable;
  for (std::size_t i = 0; i < radices.size(); ++i) {
    if (radices[i] > 1) variable.push_back(i);
  }
  rng_.shuffle(variable);
  for (std::size_t i = 0; i < std::min<std::size_t>(changes, variable.size()); ++i) {
    const std::size_t field = variable[i];
    const int radix = radices[field], old = recipe.choice(field);
    if (rng_.chance(kStepShare)) {
      const int step = rng_.chance(0.5) ? 1 : -1;
      const bool inside = old + step >= 0 && old + step < radix;
      recipe.set_choice(field, inside ? old + step : old - step);
    } else {
      const int other = static_cast<int>(rng_.index(static_cast<std::size_t>(radix - 1)));
      recipe.set_choice(field, other < old ? other : other + 1);
    }
  }
}

// Makes an illegal recipe legal by changing one field as little as possible, fields in random order; false when no
// single change does.
bool EvolutionPolicy::repair(Recipe& recipe) {
  const auto& radices = space_.radices(*space_.family_index(recipe));
  std::vector<std::size_t> fields(radices.size());
  for (std::size_t i = 0; i < fields.size(); ++i) fields[i] = i;
  rng_.shuffle(fields);
  for (const std::size_t field : fields) {
    const int old = recipe.choice(field);
    for (int distance = 1; distance < radices[field]; ++distance) {
      for (const int value : {old - distance, old + distance}) {
        if (value < 0 || value >= radices[field]) continue;
        recipe.set_choice(field, value);
        if (space_.legal(recipe)) return true;
      }
    }
    recipe.set_choice(field, old);
  }
  return false;
}

// Holds a value that was rejected whenever it was tried.
bool EvolutionPolicy::suspect(const Recipe& recipe) const {
  const auto& fields = values_[*space_.family_index(recipe)];
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const ValueRecord& record = fields[i][static_cast<std::size_t>(recipe.choice(i))];
    if (record.tried >= kSuspectTrials && record.rejected == record.tried) return true;
  }
  return false;
}

void EvolutionPolicy::tell(const Recipe& recipe, const Outcome& outcome) {
  space_.mark(recipe);
  Island& island = islands_[take_pending(recipe)];
  ++tells_;
  if (!space_.family_index(recipe)) return;
  const bool accepted = outcome.time_us && std::isfinite(*outcome.time_us) && *outcome.time_us > 0;
  // A failed environment says nothing about the recipe.
  if (outcome.kind != "failed") learn(recipe, accepted);
  ++island.since_improvement;
  if (accepted) {
    if (island.population.empty() || *outcome.time_us < island.population.front().time_us) island.since_improvement = 0;
    settle(island, {recipe, *outcome.time_us});
  } else if (outcome.kind != "failed" && outcome.kind != "too-slow") {
    for (Island& each : islands_) {
      std::erase_if(each.population, [&](const Individual& one) { return one.recipe == recipe; });
    }
  }
  if (tells_ % (options_.migration_interval * static_cast<std::int64_t>(islands_.size())) == 0) migrate();
  if (island.since_improvement >= options_.stagnation) restart(island);
}

// The island that asked for the recipe; recipes that nobody asked for are dealt out in turn.
std::size_t EvolutionPolicy::take_pending(const Recipe& recipe) {
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&](const auto& asked) { return asked.first == recipe; });
  if (found == pending_.end()) return static_cast<std::size_t>(tells_) % islands_.size();
  const std::size_t island = found->second;
  pending_.erase(found);
  return island;
}

void EvolutionPolicy::learn(const Recipe& recipe, bool accepted) {
  auto& fields = values_[*space_.family_index(recipe)];
  for (std::size_t i = 0; i < fields.size(); ++i) {
    ValueRecord& record = fields[i][static_cast<std::size_t>(recipe.choice(i))];
    ++record.tried;
    record.rejected += accepted ? 0 : 1;
  }
}

// Inserts in order of time. Of a recipe measured again the latest time counts.
void EvolutionPolicy::settle(Island& island, Individual individual) {
  Population& population = island.population;
  std::erase_if(population, [&](const Individual& other) { return other.recipe == individual.recipe; });
  const auto slower = std::find_if(population.begin(), population.end(),
                                   [&](const Individual& other) { return individual.time_us < other.time_us; });
  population.insert(slower, std::move(individual));
  if (population.size() > std::max<std::size_t>(1, options_.population)) population.pop_back();
}

// Each island's best joins the next island of the ring; all leave before any arrives.
void EvolutionPolicy::migrate() {
  std::vector<std::optional<Individual>> travellers;
  for (const Island& island : islands_) {
    travellers.push_back(island.population.empty() ? std::nullopt : std::optional(island.population.front()));
  }
  for (std::size_t i = 0; i < islands_.size(); ++i) {
    Island& next = islands_[(i + 1) % islands_.size()];
    if (travellers[i]) settle(next, *travellers[i]);
  }
}

// A new start on ground that yields nothing more. The best of all islands is never given up.
void EvolutionPolicy::restart(Island& island) {
  island.since_improvement = 0;
  if (island.population.empty()) return;
  const double best_us = island.population.front().time_us;
  const bool kept_elsewhere = std::any_of(islands_.begin(), islands_.end(), [&](const Island& other) {
    return &other != &island && !other.population.empty() && other.population.front().time_us <= best_us;
  });
  island.population.erase(island.population.begin() + (kept_elsewhere ? 0 : 1), island.population.end());
}

}  // namespace warpsmith
