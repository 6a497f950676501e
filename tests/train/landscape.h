// A recorded table made up from a formula, over the real recipe space: time of a recipe = floor of the problem times
// the product of a penalty for every field, (1 + w |choice - ideal| / range)^2, where the ideal choice of a field
// moves smoothly with log2 of one of the problem's sizes and w depends on the field. Smooth, separable, and different
// for every problem, so that what is learnt of some problems holds for others. Nothing like it is ever quoted.
#pragma once

#include <cmath>

#include "../policy/embedded_machines.h"
#include "base/hash.h"
#include "evaluate/replay/replay.h"
#include "policy/embedded/grammar.h"
#include "policy/rng.h"

namespace warpsmith::testing {

inline double landscape_us(const Recipe& recipe, const Problem& problem) {
  double time_us = 2;
  const auto fields = recipe.family().fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto range = static_cast<double>(fields[i]->values.size());
    const std::uint64_t hash = hash64(recipe.family().name + fields[i]->name);
    const std::int64_t size = hash % 3 == 0 ? problem.m : hash % 3 == 1 ? problem.n : problem.k;
    const double position = std::log2(static_cast<double>(size)) / 14;
    const double ideal = (range - 1) * ((hash >> 8) % 2 == 0 ? position : 1 - position);
    const double weight = 0.1 + 0.4 * static_cast<double>((hash >> 16) % 8) / 8;
    const double factor = 1 + weight * std::fabs(recipe.choice(i) - ideal) / range;
    time_us *= factor * factor;
  }
  return time_us;
}

// `each` legal recipes of the tiny family (and of others that fit) for every problem.
inline ReplayTable landscape_table(const std::vector<Problem>& problems, std::size_t each, std::uint64_t seed = 1) {
  const Machine machine = hopper();
  ReplayTable table(machine, Target::sm90, 1, {{"note", "a formula, not a measurement"}});
  const auto book = std::make_shared<embedded::ScopeBook>();
  Rng rng(seed);
  for (const Problem& problem : problems) {
    embedded::RuleGrammar grammar(problem, machine, {&tiny_family()}, book);
    if (grammar.empty()) continue;
    std::size_t added = 0;
    for (std::size_t attempt = 0; added < each && attempt < 20 * each; ++attempt) {
      const auto cursor = grammar.start();
      while (!cursor->done()) {
        const auto& allowed = cursor->allowed();
        cursor->take(allowed[rng.index(allowed.size())]);
      }
      const Recipe recipe = cursor->recipe();
      const bool wrong = rng.chance(0.05);
      ReplayTable::Entry entry{wrong ? "wrong" : "accepted", std::nullopt, std::nullopt};
      if (!wrong) {
        entry.cold_us = landscape_us(recipe, problem);
        entry.error = 0.5 * rng.unit();
      }
      if (table.add(problem, to_string(recipe), entry).ok()) ++added;
    }
  }
  return table;
}

inline std::vector<Problem> small_grid() {
  std::vector<Problem> problems;
  for (const std::int64_t m : {64, 128, 256}) {
    for (const std::int64_t n : {64, 96, 192}) {
      for (const std::int64_t k : {64, 256}) problems.push_back({.m = m, .n = n, .k = k, .layout = Layout::tn});
    }
  }
  return problems;
}

}  // namespace warpsmith::testing
