// The order of preference among wisdom, model and cuBLASLt. What is expected of a recipe that was measured for a near
// problem is the model's estimate, corrected by half (in logarithms) of what the model was wrong about there:
// `warpsmith rank --against TABLE --wisdom FILE` finds no correction, all of it, or more distant entries no better.
#include "library/choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace warpsmith::library {

namespace {

constexpr double kCorrection = 0.5;
// The fastest of thousands of estimates is too good to be true by about so much; with less, the same experiment gets
// worse.
constexpr double kUnmeasured = 1.15;
constexpr std::size_t kMostRankedOfAny = 8 * kMostTried;  // of which some may be left out
constexpr double kScalingPenalty = 0.05, kPackingPenalty = 0.05, kElementPenalty = 0.1;

double squared_doublings(std::int64_t x, std::int64_t y) {
  const double doublings = std::log2(static_cast<double>(x) / static_cast<double>(y));
  return doublings * doublings;
}

Choice cublaslt_choice() { return {}; }

// Stream-K's clusters wait for one another's sums, so all must run at once. No other kernel's blocks wait for blocks
// outside of their cluster: sums that sm80 splits over blocks are added up by the block that comes last.
bool blocks_wait(const Recipe& recipe) { return recipe.family().name == "sm90" && recipe.get("streamk") != 0; }

// What was measured for an entry in a mode: recipe, its time and the baseline's.
struct Measured {
  const std::string* recipe;
  double time_us;
  double baseline_us;
  bool dependent = false;
  bool server = false;

  // Without a baseline nothing speaks against the kernel.
  bool own_is_faster() const { return !(baseline_us > 0) || !(time_us > baseline_us); }
};

Measured measured(const WisdomEntry& entry, warpsmith_mode_t mode, warpsmith_launch_t launch) {
  if (mode == WARPSMITH_MODE_SERVER && !entry.server_recipe.empty()) {
    return {&entry.server_recipe, entry.server_us, entry.baseline_server_us, false, true};
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

bool same_sizes(const Problem& x, const Problem& y) { return x.m == y.m && x.n == y.n && x.k == y.k; }

// The kMostTried that are expected to be fastest, no recipe twice.
std::vector<Choice> fastest(std::vector<Choice> weighed) {
  const auto weight = [](const Choice& one) {
    return one.source == ChoiceSource::model ? kUnmeasured * one.expected_us : one.expected_us;
  };
  std::stable_sort(weighed.begin(), weighed.end(),
                   [&](const Choice& x, const Choice& y) { return weight(x) < weight(y); });
  std::vector<Choice> choices;
  for (Choice& each : weighed) {
    const bool known =
        std::any_of(choices.begin(), choices.end(), [&](const Choice& other) { return other.recipe == each.recipe; });
    if (!known && choices.size() < kMostTried) choices.push_back(std::move(each));
  }
  return choices;
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

Chooser::Chooser(Machine machine, std::shared_ptr<const WisdomIndex> wisdom, std::shared_ptr<const Ranking> ranking,
                 warpsmith_sharing_t sharing)
    : machine_(std::move(machine)), wisdom_(std::move(wisdom)), ranking_(std::move(ranking)), sharing_(sharing) {}

bool Chooser::shares(const Recipe& recipe) const { return sharing_ == WARPSMITH_SHARING_EQUAL || !blocks_wait(recipe); }

bool Chooser::runs(const Recipe& recipe, const Problem& problem) const {
  return shares(recipe) && is_legal(recipe, problem, machine_);
}

// Whether the entry was measured for the problem's sizes, and its winner may run here.
bool Chooser::decides(const Near& near, const Problem& problem, Use use) const {
  if (!same_sizes(wisdom_->problem(near.index), problem)) return false;
  if (sharing_ == WARPSMITH_SHARING_EQUAL) return true;
  const std::optional<WisdomEntry> entry = wisdom_->entry(near.index);
  if (!entry) return true;
  const Measured figures = measured(*entry, use.mode, use.launch);
  const auto recipe = parse_recipe(*figures.recipe);
  return !figures.own_is_faster() || !recipe || shares(*recipe);
}

// Within kNearestLimit, nearest first; equal distances in the order of the file.
std::vector<Chooser::Near> Chooser::near(const Problem& problem, Entries entries) const {
  std::vector<Near> near;
  for (std::size_t i = 0; wisdom_ && i < wisdom_->size(); ++i) {
    const Problem& other = wisdom_->problem(i);
    if (entries == Entries::of_other_sizes && same_sizes(other, problem)) continue;
    const std::optional<double> distance = problem_distance(problem, other);
    if (distance && *distance <= kNearestLimit) near.push_back({*distance, i});
  }
  std::stable_sort(near.begin(), near.end(), [](const Near& x, const Near& y) { return x.distance < y.distance; });
  return near;
}

std::vector<Choice> Chooser::choose(const Problem& problem, warpsmith_mode_t mode, warpsmith_launch_t launch,
                                    Entries entries) const {
  const std::vector<Near> around = near(problem, entries);
  const bool measured_here = !around.empty() && decides(around.front(), problem, {mode, launch});
  std::vector<Choice> choices;
  if (ranking_ && !measured_here) choices = by_expectation(problem, around, {mode, launch});
  return choices.empty() ? by_distance(problem, around, {mode, launch}) : choices;
}

std::vector<Choice> Chooser::by_distance(const Problem& problem, const std::vector<Near>& around, Use use) const {
  std::vector<Choice> preferred, last_resort;
  bool cublaslt_named = false;
  std::size_t used = 0;
  for (const auto& [distance, index] : around) {
    if (used == kMostTried || cublaslt_named) break;
    const std::optional<WisdomEntry> entry = wisdom_->entry(index);
    if (!entry) continue;
    const Measured figures = measured(*entry, use.mode, use.launch);
    Choice choice = choice_from(*entry, distance, figures);
    const auto recipe = parse_recipe(*figures.recipe);
    const bool can_run = recipe && runs(*recipe, problem);
    if (can_run) choice.recipe = *recipe;
    choice.expected_us = figures.time_us;
    if (figures.own_is_faster()) {
      if (!can_run) continue;  // another program's knob, or a recipe that this problem breaks
      preferred.push_back(std::move(choice));
    } else {
      if (can_run) last_resort.push_back(choice);
      choice.recipe.reset();
      choice.expected_us = figures.baseline_us;
      preferred.push_back(std::move(choice));
      cublaslt_named = true;
    }
    ++used;
  }
  if (!cublaslt_named) preferred.push_back(cublaslt_choice());
  std::move(last_resort.begin(), last_resort.end(), std::back_inserter(preferred));
  return preferred;
}

// The near entries' recipes that run here, with the times expected here.
Chooser::Weighed Chooser::weigh(const Problem& problem, const std::vector<Near>& around, Use use) const {
  Weighed weighed;
  for (std::size_t i = 0; i < std::min(around.size(), kMostWeighed); ++i) {
    const auto& [distance, index] = around[i];
    const std::optional<WisdomEntry> entry = wisdom_->entry(index);
    if (!entry) continue;
    const Measured figures = measured(*entry, use.mode, use.launch);
    const auto recipe = parse_recipe(*figures.recipe);
    if (!recipe || !runs(*recipe, problem)) continue;
    const double here = ranking_->estimate_us(*recipe, problem, machine_);
    const double there = ranking_->estimate_us(*recipe, entry->problem, machine_);
    if (!(here > 0) || !(there > 0) || !(figures.time_us > 0)) continue;
    Choice choice = choice_from(*entry, distance, figures);
    if (figures.baseline_us > 0) {
      weighed.log_ratios += std::log(figures.baseline_us / figures.time_us);
      ++weighed.compared;
      if (!weighed.cublaslt) weighed.cublaslt = choice;
    }
    choice.recipe = *recipe;
    // Of a call out of the blue the host's share is measured too, which the model says nothing about.
    const double wrong = figures.server ? 1 : figures.time_us / there;
    choice.expected_us = here * std::pow(wrong, kCorrection);
    weighed.choices.push_back(std::move(choice));
  }
  return weighed;
}

// Empty where nothing can be judged.
std::vector<Choice> Chooser::by_expectation(const Problem& problem, const std::vector<Near>& around, Use use) const {
  Weighed weighed = weigh(problem, around, use);
  const std::size_t ranked_count = sharing_ == WARPSMITH_SHARING_EQUAL ? kMostTried : kMostRankedOfAny;
  for (RankedRecipe& ranked : ranking_->rank(problem, machine_, ranked_count)) {
    if (!shares(ranked.recipe)) continue;
    Choice choice;
    choice.source = ChoiceSource::model;
    choice.recipe = std::move(ranked.recipe);
    choice.expected_us = ranked.expected_us;
    weighed.choices.push_back(std::move(choice));
  }
  if (weighed.choices.empty()) return {};
  std::vector<Choice> choices = fastest(std::move(weighed.choices));
  // cuBLASLt goes first where it beat the kernels of the problems around.
  if (weighed.compared == 0 || weighed.log_ratios >= 0) {
    choices.push_back(cublaslt_choice());
  } else {
    weighed.cublaslt->expected_us = choices.front().expected_us * std::exp(weighed.log_ratios / weighed.compared);
    choices.insert(choices.begin(), std::move(*weighed.cublaslt));
  }
  return choices;
}

}  // namespace warpsmith::library
