// The order of preference among wisdom, model and cuBLASLt.
#include "library/choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace warpsmith::library {

namespace {

constexpr double kScalingPenalty = 0.05, kPackingPenalty = 0.05, kElementPenalty = 0.1;

double squared_doublings(std::int64_t x, std::int64_t y) {
  const double doublings = std::log2(static_cast<double>(x) / static_cast<double>(y));
  return doublings * doublings;
}

Choice cublaslt_choice() { return {}; }

// What was measured for an entry in a mode: recipe, its time and the baseline's.
struct Measured {
  const std::string* recipe;
  double time_us;
  double baseline_us;
  bool dependent = false;

  // Without a baseline nothing speaks against the kernel.
  bool own_is_faster() const { return !(baseline_us > 0) || !(time_us > baseline_us); }
};

Measured measured(const WisdomEntry& entry, warpsmith_mode_t mode, warpsmith_launch_t launch) {
  if (mode == WARPSMITH_MODE_SERVER && !entry.server_recipe.empty()) {
    return {&entry.server_recipe, entry.server_us, entry.baseline_server_us};
  }
  if (launch == WARPSMITH_LAUNCH_DEPENDENT && entry.pdl_us > 0 && entry.pdl_us < entry.cold_us) {
    return {&entry.pdl_recipe, entry.pdl_us, entry.baseline_us, true};
  }
  return {&entry.recipe, entry.cold_us, entry.baseline_us};
}

Choice choice_from(const WisdomEntry& entry, double distance, const Measured& figures) {
  Choice choice;
  choice.source = distance > 0 ? ChoiceSource::wisdom_nearest : ChoiceSource::wisdom_exact;
  choice.matched = to_string(entry.problem);
  choice.distance = distance;
  choice.dependent = figures.dependent;
  choice.baseline = entry.baseline;
  choice.baseline_us = figures.baseline_us;
  choice.baseline_setting = entry.baseline_setting;
  return choice;
}

}  // namespace

const char* to_string(ChoiceSource source) {
  switch (source) {
    case ChoiceSource::wisdom_exact:
      return "wisdom";
    case ChoiceSource::wisdom_nearest:
      return "nearest wisdom";
    case ChoiceSource::model:
      return "model";
    case ChoiceSource::cublaslt:
      break;
  }
  return "cublaslt";
}

std::optional<double> problem_distance(const Problem& x, const Problem& y) {
  if (x.layout != y.layout || x.accumulator != y.accumulator) return std::nullopt;
  double distance = std::sqrt(squared_doublings(x.m, y.m) + squared_doublings(x.n, y.n) + squared_doublings(x.k, y.k));
  if (x.scaling != y.scaling) distance += kScalingPenalty;
  if (x.packed() != y.packed()) distance += kPackingPenalty;
  if (x.element != y.element) distance += kElementPenalty;
  return distance;
}

Chooser::Chooser(Machine machine, std::shared_ptr<const WisdomIndex> wisdom, std::shared_ptr<const Ranking> ranking)
    : machine_(std::move(machine)), wisdom_(std::move(wisdom)), ranking_(std::move(ranking)) {}

// Within kNearestLimit, nearest first; equal distances in the order of the file.
std::vector<Chooser::Near> Chooser::near(const Problem& problem) const {
  std::vector<Near> near;
  for (std::size_t i = 0; wisdom_ && i < wisdom_->size(); ++i) {
    const std::optional<double> distance = problem_distance(problem, wisdom_->problem(i));
    if (distance && *distance <= kNearestLimit) near.push_back({*distance, i});
  }
  std::stable_sort(near.begin(), near.end(), [](const Near& x, const Near& y) { return x.distance < y.distance; });
  return near;
}

std::vector<Choice> Chooser::choose(const Problem& problem, warpsmith_mode_t mode, warpsmith_launch_t launch) const {
  std::vector<Choice> preferred, last_resort;
  bool cublaslt_named = false;
  std::size_t used = 0;
  for (const auto& [distance, index] : near(problem)) {
    if (used == kMostNearest || cublaslt_named) break;
    const std::optional<WisdomEntry> entry = wisdom_->entry(index);
    if (!entry) continue;
    const Measured figures = measured(*entry, mode, launch);
    Choice choice = choice_from(*entry, distance, figures);
    const auto recipe = parse_recipe(*figures.recipe);
    const bool runs = recipe && is_legal(*recipe, problem, machine_);
    if (runs) choice.recipe = *recipe;
    choice.expected_us = figures.time_us;
    if (figures.own_is_faster()) {
      if (!runs) continue;  // another program's knob, or a recipe that this problem breaks
      preferred.push_back(std::move(choice));
    } else {
      if (runs) last_resort.push_back(choice);
      choice.recipe.reset();
      choice.expected_us = figures.baseline_us;
      preferred.push_back(std::move(choice));
      cublaslt_named = true;
    }
    ++used;
  }
  if (ranking_ && preferred.empty()) {
    for (RankedRecipe& ranked : ranking_->rank(problem, machine_, kMostRanked)) {
      Choice choice;
      choice.source = ChoiceSource::model;
      choice.recipe = std::move(ranked.recipe);
      choice.expected_us = ranked.expected_us;
      preferred.push_back(std::move(choice));
    }
  }
  if (!cublaslt_named) preferred.push_back(cublaslt_choice());
  std::move(last_resort.begin(), last_resort.end(), std::back_inserter(preferred));
  return preferred;
}

}  // namespace warpsmith::library
