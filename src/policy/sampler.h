// Recipes of a search space: which were met already, and fresh legal ones drawn without replacement.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "policy/rng.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

// The legal recipes of some families for one problem on one machine.
class SearchSpace {
 public:
  SearchSpace(const Problem& problem, const Machine& machine, std::vector<const Family*> families);

  const std::vector<const Family*>& families() const { return families_; }
  // Values of each field of a family, cached: the number of choices in text order.
  const std::vector<int>& radices(std::size_t family) const { return radices_[family]; }
  // Position of the recipe's family, or nothing for a family that is not part of the space.
  std::optional<std::size_t> family_index(const Recipe& recipe) const;

  bool legal(const Recipe& recipe) const { return is_legal(recipe, problem_, machine_); }
  int broken_rules(const Recipe& recipe) const;

  // Marks a recipe as met; false when it was met before.
  bool mark(const Recipe& recipe) { return met_.insert(key(recipe)).second; }
  bool met(const Recipe& recipe) const { return met_.count(key(recipe)) != 0; }
  // May be proposed: legal, and not met before.
  bool fresh(const Recipe& recipe) const { return !met(recipe) && legal(recipe); }

 private:
  using Key = std::pair<std::string, std::vector<int>>;
  static Key key(const Recipe& recipe);

  Problem problem_;
  Machine machine_;
  std::vector<const Family*> families_;
  std::vector<std::vector<int>> radices_;
  std::set<Key> met_;
};

// Draws fresh legal recipes, uniformly over the legal ones of a family, families taking equal shares. A family's raw
// space is walked in a pseudo-random order (a permutation of its indices), so that nothing is drawn twice and a space
// that is used up is known to be. Where legality is so rare that the walk finds nothing for long, descents on the
// number of broken rules and walks from legal recipes step in; then draws are no longer uniform, but still legal and
// fresh.
class Sampler {
 public:
  Sampler(SearchSpace& space, std::uint64_t seed);

  // Nothing: the space is used up, or a bounded effort found nothing more.
  std::optional<Recipe> draw(Rng& rng);

 private:
  struct Walk {
    std::uint64_t size = 0;  // of the raw space; 0: beyond 2^62, drawn with replacement
    std::uint64_t next = 0;  // position in the permuted order
    std::uint64_t key = 0;
    int half_bits = 0;          // the permutation acts on 2 * half_bits bits
    std::vector<Recipe> legal;  // a few legal recipes met so far, to walk from

    bool used_up() const { return size != 0 && next >= size; }
  };

  std::uint64_t permute(const Walk& walk, std::uint64_t index) const;
  Recipe next_raw(std::size_t family, Rng& rng);
  std::optional<Recipe> scan(std::size_t family, Rng& rng, int tries);
  std::optional<Recipe> descend(std::size_t family, Rng& rng);
  std::optional<Recipe> wander(std::size_t family, Rng& rng);
  std::optional<Recipe> draw_from(std::size_t family, Rng& rng);

  SearchSpace& space_;
  std::vector<Walk> walks_;
};

}  // namespace warpsmith
