// Batches, transfer between neighbours, and the policies behind them.
#include "search/tune_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "search/starting_points.h"

namespace warpsmith {

namespace {

// In units of the distance between shapes: what changing the layout costs a transfer. The source is another one then,
// and has to be compiled.
constexpr double kOtherLayout = 1.25;
// A recipe this much slower on its neighbour than the best one there ranks like one from a problem a unit further off.
constexpr double kSlownessPerUnit = 0.1;
constexpr std::size_t kTransfersPerNeighbour = 3;
// The model's fastest recipes that a problem begins with, whatever their sources serve besides.
constexpr std::size_t kFirstRanked = 4;
// A policy that answers with what was proposed already is asked again so often.
constexpr int kAsks = 16;

double distance(const Problem& x, const Problem& y) {
  const auto apart = [](std::int64_t a, std::int64_t b) {
    return std::log2(static_cast<double>(a)) - std::log2(static_cast<double>(b));
  };
  const double layouts = x.layout == y.layout ? 0 : kOtherLayout;
  return std::hypot(apart(x.m, y.m), apart(x.n, y.n), apart(x.k, y.k)) + layouts;
}

std::string full_text(const Recipe& recipe) { return to_string(recipe); }

}  // namespace

Result<TunePlan> TunePlan::create(TunePlanOptions options) {
  TunePlan plan(std::move(options));
  PolicyContext probe;
  probe.families = families_for(plan.options_.target);
  if (const auto known = make_policy(plan.options_.policy, probe); !known) return known.error();
  plan.states_.resize(plan.options_.problems.size());
  if (plan.declared()) {
    if (plan.options_.spaces.size() != plan.size()) return bad_input("a space of each problem is needed");
    for (std::size_t i = 0; i < plan.size(); ++i) plan.states_[i].starts = plan.options_.spaces[i];
    return plan;
  }
  plan.find_starts();
  plan.find_neighbours();
  return plan;
}

std::string TunePlan::source_key(const Problem& problem, const Recipe& recipe) const {
  return options_.source_of ? options_.source_of(problem, recipe) : full_text(recipe);
}

// The model's best guesses and every family's own first; then those whose source serves the most problems, so that few
// compiles keep a device busy for long.
void TunePlan::find_starts() {
  std::map<std::string, int> served;
  std::vector<std::vector<std::pair<std::string, Recipe>>> others(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Problem& problem = options_.problems[i];
    StartingPoints points = find_starting_points(problem, options_.machine, options_.target);
    const std::size_t first = std::min(points.ranked.size(), kFirstRanked);
    std::vector<Recipe>& starts = states_[i].starts;
    starts.assign(points.ranked.begin(), points.ranked.begin() + static_cast<std::ptrdiff_t>(first));
    starts.insert(starts.end(), points.best.begin(), points.best.end());
    for (const Recipe& recipe : starts) ++served[source_key(problem, recipe)];
    points.others.insert(points.others.begin(), points.ranked.begin() + static_cast<std::ptrdiff_t>(first),
                         points.ranked.end());
    for (Recipe& recipe : points.others) {
      std::string key = source_key(problem, recipe);
      ++served[key];
      others[i].emplace_back(std::move(key), std::move(recipe));
    }
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    std::stable_sort(others[i].begin(), others[i].end(),
                     [&](const auto& x, const auto& y) { return served.at(x.first) > served.at(y.first); });
    for (auto& [key, recipe] : others[i]) states_[i].starts.push_back(std::move(recipe));
  }
}

void TunePlan::find_neighbours() {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Problem& here = options_.problems[i];
    std::vector<std::pair<double, std::size_t>> near;
    for (std::size_t j = 0; j < states_.size(); ++j) {
      const Problem& there = options_.problems[j];
      if (j != i && there.element == here.element && there.accumulator == here.accumulator) {
        near.emplace_back(distance(here, there), j);
      }
    }
    const std::size_t kept = std::min(near.size(), options_.neighbours);
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(kept), near.end());
    for (std::size_t j = 0; j < kept; ++j) {
      states_[i].distances.push_back(near[j].first);
      states_[i].neighbours.push_back(near[j].second);
    }
  }
}

std::optional<double> TunePlan::best_us(std::size_t index) const {
  const auto& ranking = states_[index].ranking;
  return ranking.empty() ? std::nullopt : std::optional(ranking.front().time_us);
}

void TunePlan::remember(std::size_t index, const Recipe& recipe, const Outcome& outcome, bool current) {
  State& state = states_[index];
  if (current) {
    state.proposed.insert(full_text(recipe));
    if (!declared()) std::erase(state.starts, recipe);  // rest() passes over what was proposed
    tell(index, recipe, outcome);
    return;
  }
  if (!outcome.time_us || std::find(state.again.begin(), state.again.end(), recipe) != state.again.end()) return;
  const auto slower = std::upper_bound(state.again_us.begin(), state.again_us.end(), *outcome.time_us);
  const auto at = slower - state.again_us.begin();
  state.again_us.insert(slower, *outcome.time_us);
  state.again.insert(state.again.begin() + at, recipe);
  if (state.again.size() > kRanked) {
    state.again.pop_back();
    state.again_us.pop_back();
  }
}

// By value: the recipe may be one of the ranking, which changes.
void TunePlan::tell(std::size_t index, Recipe recipe, const Outcome& outcome) {
  State& state = states_[index];
  ++state.told;
  state.proposed.insert(full_text(recipe));
  if (state.policy) {
    state.policy->tell(recipe, outcome);
  } else {
    state.history.emplace_back(recipe, outcome);
  }
  std::erase_if(state.ranking, [&](const Ranked& other) { return other.recipe == recipe; });
  const bool accepted = outcome.time_us && std::isfinite(*outcome.time_us) && *outcome.time_us > 0;
  if (!accepted) return;
  const auto slower = std::find_if(state.ranking.begin(), state.ranking.end(),
                                   [&](const Ranked& other) { return *outcome.time_us < other.time_us; });
  state.ranking.insert(slower, {recipe, *outcome.time_us});
  if (state.ranking.size() > kRanked) state.ranking.pop_back();
}

// True when the recipe may be proposed now, and from then on was.
bool TunePlan::take(State& state, const Problem& problem, const Recipe& recipe) {
  if (!is_legal(recipe, problem, options_.machine)) return false;
  return state.proposed.insert(full_text(recipe)).second;
}

std::size_t TunePlan::room(std::size_t index) const {
  if (options_.per_problem <= 0) return std::numeric_limits<std::size_t>::max();
  // What was proposed but not told counts as well: its verdict will come.
  const auto used = static_cast<std::int64_t>(states_[index].proposed.size());
  return static_cast<std::size_t>(std::max<std::int64_t>(0, options_.per_problem - used));
}

std::vector<Recipe> TunePlan::starting_points(State& state, const Problem& problem, std::size_t count) {
  std::vector<Recipe> batch;
  std::size_t used = 0;
  for (; used < state.starts.size() && batch.size() < count; ++used) {
    if (take(state, problem, state.starts[used])) batch.push_back(state.starts[used]);
  }
  state.starts.erase(state.starts.begin(), state.starts.begin() + static_cast<std::ptrdiff_t>(used));
  return batch;
}

std::vector<Recipe> TunePlan::transfers(std::size_t index, std::size_t count) {
  State& state = states_[index];
  count = std::min(count, room(index));
  std::vector<std::pair<double, const Recipe*>> offers;
  for (std::size_t n = 0; n < state.neighbours.size(); ++n) {
    const auto& ranking = states_[state.neighbours[n]].ranking;
    for (std::size_t r = 0; r < std::min(ranking.size(), kTransfersPerNeighbour); ++r) {
      const double slowness = ranking[r].time_us / ranking.front().time_us - 1;
      offers.emplace_back(state.distances[n] + slowness / kSlownessPerUnit, &ranking[r].recipe);
    }
  }
  std::stable_sort(offers.begin(), offers.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Recipe> batch;
  for (const auto& [score, recipe] : offers) {
    if (batch.size() == count) break;
    if (take(state, options_.problems[index], *recipe)) batch.push_back(*recipe);
  }
  return batch;
}

std::vector<Recipe> TunePlan::asked(std::size_t index, std::size_t count) {
  State& state = states_[index];
  if (!state.policy) {
    PolicyContext context;
    context.problem = options_.problems[index];
    context.machine = options_.machine;
    context.seed = options_.seed ^ hash64(to_string(context.problem));
    StartingPoints starts = find_starting_points(context.problem, context.machine, options_.target);
    context.starting_points = starts.all();
    if (context.starting_points.empty()) return {};  // no family fits the problem
    context.families = std::move(starts.families);
    auto policy = make_policy(options_.policy, std::move(context));
    if (!policy) return {};
    state.policy = std::move(*policy);
    for (const auto& [recipe, outcome] : state.history) state.policy->tell(recipe, outcome);
    state.history.clear();
  }
  std::vector<Recipe> batch;
  for (int ask = 0; batch.size() < count && ask < kAsks * static_cast<int>(count); ++ask) {
    const auto recipe = state.policy->ask();
    if (!recipe) break;
    if (take(state, options_.problems[index], *recipe)) batch.push_back(*recipe);
  }
  return batch;
}

// Of a declared space, what was not proposed yet; what is not legal here will be told so.
std::vector<Recipe> TunePlan::rest(State& state) {
  std::vector<Recipe> batch;
  for (Recipe& recipe : std::exchange(state.starts, {})) {
    if (state.proposed.insert(full_text(recipe)).second) batch.push_back(std::move(recipe));
  }
  return batch;
}

std::vector<Recipe> TunePlan::next(std::size_t index) {
  State& state = states_[index];
  if (declared()) return rest(state);
  const Problem& problem = options_.problems[index];
  const bool first = state.batches++ == 0 && state.told == 0;
  const std::size_t size =
      std::min(room(index), static_cast<std::size_t>(first ? options_.first_batch : options_.batch));
  std::vector<Recipe> batch;
  const auto add = [&](std::vector<Recipe> more) { std::move(more.begin(), more.end(), std::back_inserter(batch)); };
  // The fastest of an earlier version of the kernels, as long as there are any.
  for (const Recipe& recipe : std::exchange(state.again, {})) {
    if (batch.size() < size && take(state, problem, recipe)) batch.push_back(recipe);
  }
  state.again_us.clear();
  if (first) {
    // Where neighbours were tuned before, what is fastest there is as good a guess as the model's.
    add(transfers(index, (size - batch.size()) / 2));
    add(starting_points(state, problem, size - batch.size()));
    return batch;
  }
  const std::size_t fresh = std::min(size, static_cast<std::size_t>(std::max(0, options_.fresh)));
  if (batch.size() + fresh < size) add(transfers(index, size - fresh - batch.size()));
  // Starting points are shared by many problems; those that remain fill a batch up to its half.
  if (batch.size() < size / 2) add(starting_points(state, problem, size / 2 - batch.size()));
  const std::size_t wanted = std::max(fresh, size / 2 - std::min(size / 2, batch.size()));
  add(asked(index, std::min(wanted, size - batch.size())));
  return batch;
}

}  // namespace warpsmith
