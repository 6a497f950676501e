// Sampling without replacement from a space whose legality is known only point by point.
#include "policy/sampler.h"

#include <algorithm>
#include <bit>

namespace warpsmith {

namespace {

constexpr std::uint64_t kLargestWalk = 1ULL << 62;
// Effort per draw: a legality query takes microseconds, so these bound a draw to some milliseconds in the common case
// and to about a second when a space is nearly used up.
constexpr int kQuickScan = 1'500;
constexpr int kDescents = 6;
constexpr int kDescentSteps = 40;
constexpr int kWanderSteps = 300;
constexpr int kLongScan = 200'000;
constexpr std::size_t kLegalKept = 64;

}  // namespace

SearchSpace::SearchSpace(const Problem& problem, const Machine& machine, std::vector<const Family*> families)
    : problem_(problem), machine_(machine), families_(std::move(families)) {
  for (const Family* family : families_) {
    std::vector<int> radices;
    for (const KnobField* field : family->fields()) radices.push_back(static_cast<int>(field->values.size()));
    radices_.push_back(std::move(radices));
  }
}

std::optional<std::size_t> SearchSpace::family_index(const Recipe& recipe) const {
  const auto found = std::find(families_.begin(), families_.end(), &recipe.family());
  if (found == families_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - families_.begin());
}

int SearchSpace::broken_rules(const Recipe& recipe) const {
  int broken = 0;
  for (const Rule& rule : recipe.family().rules) broken += rule.check(recipe, &problem_, machine_).has_value() ? 1 : 0;
  return broken;
}

SearchSpace::Key SearchSpace::key(const Recipe& recipe) {
  std::vector<int> choices(recipe.size());
  for (std::size_t i = 0; i < choices.size(); ++i) choices[i] = recipe.choice(i);
  return {recipe.family().name, std::move(choices)};
}

Sampler::Sampler(SearchSpace& space, std::uint64_t seed) : space_(space) {
  for (std::size_t family = 0; family < space_.families().size(); ++family) {
    Walk walk;
    walk.key = mix64(seed ^ mix64(family));
    walk.size = 1;
    for (const int radix : space_.radices(family)) {
      const auto count = static_cast<std::uint64_t>(radix);
      if (walk.size > kLargestWalk / count) {
        walk.size = 0;
        break;
      }
      walk.size *= count;
    }
    if (walk.size != 0) walk.half_bits = std::max(1, (static_cast<int>(std::bit_width(walk.size - 1)) + 1) / 2);
    walks_.push_back(std::move(walk));
  }
}

// A Feistel network permutes [0, 2^(2 half_bits)); indices that land outside [0, size) are permuted again, which keeps
// it a permutation of [0, size).
std::uint64_t Sampler::permute(const Walk& walk, std::uint64_t index) const {
  const std::uint64_t mask = (1ULL << walk.half_bits) - 1;
  do {
    std::uint64_t left = index >> walk.half_bits, right = index & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const std::uint64_t swapped = left ^ (mix64(walk.key ^ mix64(right * 8 + round)) & mask);
      left = right;
      right = swapped;
    }
    index = left << walk.half_bits | right;
  } while (index >= walk.size);
  return index;
}

// The next recipe of the walk, legal or not.
Recipe Sampler::next_raw(std::size_t family, Rng& rng) {
  Walk& walk = walks_[family];
  const auto& radices = space_.radices(family);
  Recipe recipe(*space_.families()[family]);
  if (walk.size == 0) {
    for (std::size_t i = 0; i < radices.size(); ++i) {
      recipe.set_choice(i, static_cast<int>(rng.index(static_cast<std::size_t>(radices[i]))));
    }
    return recipe;
  }
  std::uint64_t index = permute(walk, walk.next++);
  for (std::size_t i = 0; i < radices.size(); ++i) {
    const auto radix = static_cast<std::uint64_t>(radices[i]);
    recipe.set_choice(i, static_cast<int>(index % radix));
    index /= radix;
  }
  return recipe;
}

std::optional<Recipe> Sampler::scan(std::size_t family, Rng& rng, int tries) {
  for (int i = 0; i < tries && !walks_[family].used_up(); ++i) {
    Recipe recipe = next_raw(family, rng);
    if (space_.fresh(recipe)) return recipe;
  }
  return std::nullopt;
}

// From a random recipe, moves one field at a time to the value that breaks the fewest rules.
std::optional<Recipe> Sampler::descend(std::size_t family, Rng& rng) {
  const auto& radices = space_.radices(family);
  for (int attempt = 0; attempt < kDescents; ++attempt) {
    Recipe recipe(*space_.families()[family]);
    for (std::size_t i = 0; i < radices.size(); ++i) {
      recipe.set_choice(i, static_cast<int>(rng.index(static_cast<std::size_t>(radices[i]))));
    }
    for (int step = 0; step < kDescentSteps; ++step) {
      if (space_.fresh(recipe)) return recipe;
      const std::size_t field = rng.index(radices.size());
      std::vector<int> best;
      int fewest = 0;
      for (int value = 0; value < radices[field]; ++value) {
        recipe.set_choice(field, value);
        const int broken = space_.broken_rules(recipe);
        if (best.empty() || broken < fewest) {
          best.clear();
          fewest = broken;
        }
        if (broken == fewest) best.push_back(value);
      }
      recipe.set_choice(field, best[rng.index(best.size())]);
    }
  }
  return std::nullopt;
}

// From a known legal recipe, changes a few fields at random, staying on legal ground.
std::optional<Recipe> Sampler::wander(std::size_t family, Rng& rng) {
  const auto& legal = walks_[family].legal;
  const auto& radices = space_.radices(family);
  if (legal.empty()) return std::nullopt;
  Recipe at = legal[rng.index(legal.size())];
  for (int step = 0; step < kWanderSteps; ++step) {
    Recipe moved = at;
    for (std::uint64_t changes = 1 + rng.below(3); changes > 0; --changes) {
      const std::size_t field = rng.index(radices.size());
      moved.set_choice(field, static_cast<int>(rng.index(static_cast<std::size_t>(radices[field]))));
    }
    if (!space_.legal(moved)) continue;
    if (!space_.met(moved)) return moved;
    at = std::move(moved);
  }
  return std::nullopt;
}

std::optional<Recipe> Sampler::draw_from(std::size_t family, Rng& rng) {
  auto recipe = scan(family, rng, kQuickScan);
  if (!recipe && !walks_[family].used_up()) recipe = descend(family, rng);
  if (!recipe && !walks_[family].used_up()) recipe = wander(family, rng);
  if (!recipe) recipe = scan(family, rng, kLongScan);
  if (recipe && walks_[family].legal.size() < kLegalKept) walks_[family].legal.push_back(*recipe);
  return recipe;
}

std::optional<Recipe> Sampler::draw(Rng& rng) {
  std::vector<std::size_t> open;
  for (std::size_t family = 0; family < walks_.size(); ++family) {
    if (!walks_[family].used_up()) open.push_back(family);
  }
  rng.shuffle(open);
  for (const std::size_t family : open) {
    if (auto recipe = draw_from(family, rng)) return recipe;
  }
  return std::nullopt;
}

}  // namespace warpsmith
