// What to try next on each of many problems: a state machine without a device or a clock. Proposals are starting
// points, the best recipes of neighbouring problems, and those of a policy that searches around the problem's own best.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/policy.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

struct TunePlanOptions {
  std::vector<Problem> problems;
  Machine machine;
  Target target = Target::cpu;
  std::string policy = "evolution";
  std::uint64_t seed = 1;
  // Recipes of one batch. A device that changes problems spends as long as on a dozen recipes, and a new source
  // compiles as long as a hundred are measured: batches are large, and few of a batch are of sources not seen before.
  int first_batch = 10;
  int batch = 20;
  int fresh = 2;  // of a later batch, proposals of the policy; more where there is nothing else
  std::size_t neighbours = 8;
  std::int64_t per_problem = 0;  // verdicts of one problem, earlier runs included; 0: no limit
  // Of each problem all that is to be measured, in that order; nothing else is proposed then, and a batch is all that
  // is left. Empty: what the policies find.
  std::vector<std::vector<Recipe>> spaces{};
  // Identifies the source that a recipe makes for a problem. Empty: every recipe counts as a source of its own.
  std::function<std::string(const Problem&, const Recipe&)> source_of{};
};

class TunePlan {
 public:
  struct Ranked {
    Recipe recipe;
    double time_us = 0;
  };

  // Error: bad_input for an unknown policy.
  static Result<TunePlan> create(TunePlanOptions options);

  std::size_t size() const { return states_.size(); }
  const Problem& problem(std::size_t index) const { return options_.problems[index]; }

  // A verdict of an earlier run. current: of the source that the recipe makes today; what was measured of another
  // source says only that the recipe is worth trying again soon.
  void remember(std::size_t index, const Recipe& recipe, const Outcome& outcome, bool current);

  // The next batch of a problem, each legal and not proposed before, best guess first. Empty: nothing more is known, or
  // the limit is reached.
  std::vector<Recipe> next(std::size_t index);
  // Up to `count` recipes that did best on the nearest problems and were not proposed for this one; proposed by this.
  std::vector<Recipe> transfers(std::size_t index, std::size_t count);
  void tell(std::size_t index, Recipe recipe, const Outcome& outcome);

  bool declared() const { return !options_.spaces.empty(); }                  // TunePlanOptions::spaces are given
  std::int64_t told(std::size_t index) const { return states_[index].told; }  // verdicts, remembered ones included
  // Accepted recipes, fastest first; of a recipe told twice the latest time counts. At most kRanked.
  const std::vector<Ranked>& ranking(std::size_t index) const { return states_[index].ranking; }
  std::optional<double> best_us(std::size_t index) const;
  // Others with the same element type, nearest first: distance in log2 of m, n and k; the other layout is a little
  // further than the same.
  const std::vector<std::size_t>& neighbours(std::size_t index) const { return states_[index].neighbours; }

  static constexpr std::size_t kRanked = 8;

 private:
  struct State {
    std::vector<Recipe> starts;                       // those not proposed yet, in the order in which they will be
    std::vector<Recipe> again;                        // measured of another source, the fastest first
    std::vector<double> again_us;                     // their times then; infinite: not accepted
    std::set<std::string> proposed;                   // in text form
    std::vector<std::pair<Recipe, Outcome>> history;  // for a policy that is made later
    std::unique_ptr<Policy> policy;
    std::vector<Ranked> ranking;
    std::vector<std::size_t> neighbours;
    std::vector<double> distances;  // of neighbours
    std::int64_t told = 0;
    int batches = 0;
  };

  explicit TunePlan(TunePlanOptions options) : options_(std::move(options)) {}
  void find_starts();
  void find_neighbours();
  std::vector<Recipe> rest(State& state);
  bool take(State& state, const Problem& problem, const Recipe& recipe);
  std::vector<Recipe> starting_points(State& state, const Problem& problem, std::size_t count);
  std::vector<Recipe> asked(std::size_t index, std::size_t count);
  std::size_t room(std::size_t index) const;
  std::string source_key(const Problem& problem, const Recipe& recipe) const;

  TunePlanOptions options_;
  std::vector<State> states_;
};

}  // namespace warpsmith
