// The pool, and each problem's choice from it.
#include "search/declare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/hash.h"
#include "policy/sampler.h"
#include "search/starting_points.h"

namespace warpsmith {

namespace {

// Shares of a space that a family has at most, as long as others can fill it. Those not named: of the whole.
constexpr std::array<std::pair<std::string_view, double>, 3> kShares = {
    {{"sm80", 0.2}, {"tiny", 0.06}, {"skinny", 0.08}}};
// Of a problem's starting points, its own first ones are in its space in any case.
constexpr std::size_t kOwnStarts = 24;
// The pool holds this many recipes of a family for each of its places in a space: not all are legal everywhere.
constexpr double kPoolPerPlace = 1.8;
// Of every ten recipes of the pool: from winners, starting points, neighbours of these, at random.
enum Origin { kWinner, kStart, kNeighbour, kRandom };
constexpr std::array<Origin, 10> kTurns = {kWinner, kStart,     kNeighbour, kRandom, kNeighbour,
                                           kRandom, kNeighbour, kStart,     kRandom, kRandom};
constexpr int kDraws = 40;  // a random recipe or a neighbour is tried for so often

double share_of(const Family& family) {
  for (const auto& [name, share] : kShares) {
    if (family.name == name) return share;
  }
  return 1;
}

class Declarer {
 public:
  explicit Declarer(const DeclareOptions& options)
      : options_(options), rng_(options.seed ^ hash64("declared spaces")) {}

  Result<DeclaredSpaces> run();

 private:
  void find_starts();
  void fill_pool(const Family& family);
  std::optional<Recipe> neighbour(const std::vector<Recipe>& of);
  std::vector<const Problem*> problems_for(const Family& family) const;
  bool legal(const Recipe& recipe, const Problem& problem) const { return is_legal(recipe, problem, options_.machine); }
  Result<std::vector<Recipe>> space_of(std::size_t index);

  const DeclareOptions& options_;
  Rng rng_;
  std::vector<std::vector<Recipe>> starts_;          // of each problem
  std::vector<std::pair<std::string, int>> common_;  // starting points of all, the most frequent first
  std::vector<Recipe> pool_;                         // family by family
};

void Declarer::find_starts() {
  std::map<std::string, int> counts;
  for (const Problem& problem : options_.problems) {
    std::vector<Recipe> starts = find_starting_points(problem, options_.machine, options_.target).all();
    for (const Recipe& recipe : starts) ++counts[to_string(recipe)];
    if (starts.size() > kOwnStarts) starts.erase(starts.begin() + kOwnStarts, starts.end());
    starts_.push_back(std::move(starts));
  }
  common_.assign(counts.begin(), counts.end());
  std::stable_sort(common_.begin(), common_.end(), [](const auto& x, const auto& y) { return x.second > y.second; });
}

// One or two fields changed, mostly to a value beside.
std::optional<Recipe> Declarer::neighbour(const std::vector<Recipe>& of) {
  if (of.empty()) return std::nullopt;
  Recipe recipe = of[rng_.index(of.size())];
  const auto fields = recipe.family().fields();
  for (std::uint64_t changes = 1 + rng_.below(2); changes > 0; --changes) {
    const std::size_t field = rng_.index(fields.size());
    const int last = static_cast<int>(fields[field]->values.size()) - 1;
    const int beside = recipe.choice(field) + (rng_.chance(0.5) ? 1 : -1);
    const int other = static_cast<int>(rng_.index(fields[field]->values.size()));
    recipe.set_choice(field, rng_.chance(0.7) ? std::clamp(beside, 0, last) : other);
  }
  return recipe;
}

// Those that the family has starting points for.
std::vector<const Problem*> Declarer::problems_for(const Family& family) const {
  std::vector<const Problem*> fitting;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    const auto of_family = [&](const Recipe& recipe) { return &recipe.family() == &family; };
    if (std::any_of(starts_[i].begin(), starts_[i].end(), of_family)) fitting.push_back(&options_.problems[i]);
  }
  return fitting;
}

void Declarer::fill_pool(const Family& family) {
  const std::vector<const Problem*> fitting = problems_for(family);
  if (fitting.empty()) return;
  const auto wanted =
      static_cast<std::size_t>(kPoolPerPlace * share_of(family) * static_cast<double>(options_.recipes));
  std::vector<Recipe> winners, starts, both;
  for (const Recipe& recipe : options_.winners) {
    if (&recipe.family() == &family) winners.push_back(recipe);
  }
  for (const auto& [text, count] : common_) {
    Recipe recipe = parse_recipe(text).value();
    if (&recipe.family() == &family) starts.push_back(std::move(recipe));
  }
  both = winners;
  both.insert(both.end(), starts.begin(), starts.end());
  std::set<std::string> known;
  const auto fits_any = [&](const Recipe& recipe) {
    for (int i = 0; i < 3; ++i) {
      if (legal(recipe, *fitting[rng_.index(fitting.size())])) return true;
    }
    return false;
  };
  std::vector<std::unique_ptr<SearchSpace>> spaces;
  std::vector<Sampler> samplers;
  for (const Problem* problem : fitting) {
    spaces.push_back(std::make_unique<SearchSpace>(*problem, options_.machine, std::vector<const Family*>{&family}));
    samplers.emplace_back(*spaces.back(), rng_.bits());
  }
  const auto draw = [&](Origin origin, std::size_t turn) -> std::optional<Recipe> {
    if (origin == kWinner) return turn < winners.size() ? std::optional(winners[turn]) : std::nullopt;
    if (origin == kStart) return turn < starts.size() ? std::optional(starts[turn]) : std::nullopt;
    if (origin == kNeighbour) return neighbour(both);
    return samplers[rng_.index(samplers.size())].draw(rng_);
  };
  std::array<std::size_t, 4> turns{};
  std::size_t added = 0;
  for (std::size_t i = 0, idle = 0; added < wanted && idle < 4 * kTurns.size(); ++i) {
    const Origin origin = kTurns[i % kTurns.size()];
    bool found = false;
    for (int tries = 0; tries < kDraws && !found; ++tries) {
      const auto recipe = draw(origin, turns[origin]++);
      if (!recipe) break;
      found = fits_any(*recipe) && known.insert(to_string(*recipe)).second;
      if (found) pool_.push_back(*recipe);
    }
    added += found ? 1 : 0;
    idle = found ? 0 : idle + 1;
  }
}

Result<std::vector<Recipe>> Declarer::space_of(std::size_t index) {
  const Problem& problem = options_.problems[index];
  std::vector<Recipe> chosen;
  std::set<std::string> taken;
  std::map<const Family*, double> count;
  const auto take = [&](const Recipe& recipe, bool limited) {
    if (chosen.size() >= options_.recipes) return;
    const double most = share_of(recipe.family()) * static_cast<double>(options_.recipes);
    if ((limited && count[&recipe.family()] >= most) || !legal(recipe, problem)) return;
    if (!taken.insert(to_string(recipe)).second) return;
    ++count[&recipe.family()];
    chosen.push_back(recipe);
  };
  if (index < options_.best.size()) {
    for (const Recipe& recipe : options_.best[index]) take(recipe, false);
  }
  for (const Recipe& recipe : starts_[index]) take(recipe, false);
  // Small families first: the others fill what they leave.
  for (const bool large : {false, true}) {
    for (const Recipe& recipe : pool_) {
      if ((share_of(recipe.family()) == 1) == large) take(recipe, true);
    }
  }
  for (const Recipe& recipe : pool_) take(recipe, false);
  // What the pool does not give is the problem's alone.
  const auto families = find_starting_points(problem, options_.machine, options_.target).families;
  SearchSpace space(problem, options_.machine, families);
  for (const Recipe& recipe : chosen) space.mark(recipe);
  Sampler sampler(space, options_.seed ^ hash64(to_string(problem)));
  while (chosen.size() < options_.recipes) {
    const auto recipe = sampler.draw(rng_);
    if (!recipe) break;
    space.mark(*recipe);
    take(*recipe, false);
  }
  if (chosen.size() < options_.recipes) {
    return bad_input(fmt::format("{} legal recipes were found for {}; {} are asked for", chosen.size(),
                                 to_string(problem), options_.recipes));
  }
  return chosen;
}

Result<DeclaredSpaces> Declarer::run() {
  find_starts();
  for (const Family* family : families_for(options_.target)) fill_pool(*family);
  DeclaredSpaces spaces(options_.machine.name, options_.target, options_.seed, options_.provenance);
  for (std::size_t i = 0; i < options_.problems.size(); ++i) {
    const auto space = space_of(i);
    if (!space) return space.error();
    if (const Status status = spaces.declare(options_.problems[i], *space); !status) return status.error();
  }
  return spaces;
}

}  // namespace

Result<DeclaredSpaces> declare_spaces(const DeclareOptions& options) {
  if (options.recipes == 0 || options.problems.empty()) return bad_input("no recipes or no problems to declare");
  return Declarer(options).run();
}

}  // namespace warpsmith
