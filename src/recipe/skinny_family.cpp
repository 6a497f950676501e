// The skinny family: M or N is at most 32, so the time is that of streaming the other operand once. The long side goes
// on mma's side of 16, the short one on its side of 8; loads run ahead in registers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "recipe/direct_rules.h"
#include "recipe/knob.h"
#include "recipe/recipe.h"

namespace warpsmith {

namespace {

using direct::Reason;

constexpr int kLongestShortSide = 32;

std::vector<Knob> knobs() {
  return {
      {"tile",
       "elements of the long side that a warp multiplies, and of K that it loads at once",
       {{"tile_rows", {16, 32, 64}, 32, {}}, {"tile_k", {32, 64, 128}, 64, {}}}},
      {"warps",
       "warps of a block along the long side, and warps that share the K range of a tile",
       {{"warps_rows", {1, 2, 4, 8}, 1, {}}, {"warps_k", {1, 2, 4, 8, 16}, 8, {}}}},
      {"split",
       "blocks of a cluster that share K; FP32 partial sums meet in distributed shared memory",
       {{"split", {1, 2, 4, 8, 16}, 1, {}}}},
      {"ahead", "rounds of loads under way while another is multiplied", {{"ahead", {0, 1, 2, 3}, 1, {}}}},
      {"hint",
       "what the caches do with the streamed operand: past the first level, or also first out of the second",
       {{"hint", {kDirectStream, kDirectEvictFirst}, kDirectStream, {"stream", "first"}}}},
      {"fetch",
       "bytes that the second-level cache fetches per load at least; 0: its own choice",
       {{"fetch", {0, 128, 256}, 0, {}}}},
      {"pdl",
       "programmatic dependent launch: 0 none; dependents start 1 after the main loop, 2 before this kernel's loads",
       {{"pdl", {kDirectPdlNone, kDirectPdlLate, kDirectPdlEarly}, kDirectPdlNone, {}}}},
  };
}

// With the shortest short side, for the rules about the recipe alone.
DirectKnobs least_knobs(const Recipe& recipe) { return skinny_knobs(recipe, {.m = 1, .n = 64, .k = 64}); }

Reason check_short_side(const Recipe&, const Problem* problem, const Machine&) {
  if (skinny_short_side(*problem) <= kLongestShortSide) return std::nullopt;
  return fmt::format("M or N must be at most {}; they are {} and {}", kLongestShortSide, problem->m, problem->n);
}

Reason check_grid(const Recipe& recipe, const Problem* problem, const Machine&) {
  const DirectKnobs k = skinny_knobs(recipe, *problem);
  const std::int64_t blocks = direct_blocks_m(k, *problem) * direct_blocks_n(k, *problem);
  if (blocks < (std::int64_t{1} << 31)) return std::nullopt;
  return fmt::format("{} blocks; a grid has fewer than 2^31", blocks);
}

std::vector<Rule> rules() {
  using Recipes = const Recipe&;
  using Problems = const Problem*;
  using Machines = const Machine&;
  return {
      {"architecture", "mma.m16n8k16 exists from compute capability 8.0 on", false,
       [](Recipes, Problems, Machines m) { return direct::check_architecture(m); }},
      {"cluster", "split-K over blocks needs compute capability 9.0", false,
       [](Recipes r, Problems, Machines m) { return direct::check_cluster(least_knobs(r), m); }},
      {"dependents", "programmatic dependent launch needs compute capability 9.0", false,
       [](Recipes r, Problems, Machines m) { return direct::check_dependents(least_knobs(r), m); }},
      {"threads", "a block has at most 16 warps", false,
       [](Recipes r, Problems, Machines) { return direct::check_threads(least_knobs(r)); }},
      {"registers", "operands in flight and sums fit in a thread's registers, whatever the short side", false,
       [](Recipes r, Problems, Machines) { return direct::check_registers(least_knobs(r)); }},
      {"short_side", "M or N is at most 32", true, check_short_side},
      {"class_registers", "the same with the short side's tile, and where operands are loaded by single elements", true,
       [](Recipes r, Problems p, Machines) { return direct::check_class_registers(skinny_knobs(r, *p), *p); }},
      {"shared_memory", "the warps' sums fit in a block's shared memory", true,
       [](Recipes r, Problems p, Machines m) { return direct::check_shared_memory(skinny_knobs(r, *p), m); }},
      {"accumulator", "FP32 accumulation, or FP16 of f16 elements", true,
       [](Recipes, Problems p, Machines) { return direct::check_accumulator(*p); }},
      {"depth", "every warp has some of K", true,
       [](Recipes r, Problems p, Machines) { return direct::check_depth(skinny_knobs(r, *p), *p); }},
      {"ahead", "there are more rounds of loads than run ahead", true,
       [](Recipes r, Problems p, Machines) { return direct::check_ahead(skinny_knobs(r, *p), *p); }},
      {"grid", "the grid has fewer than 2^31 blocks", true, check_grid},
  };
}

// A rough time in clock cycles: start, a trip to memory, the streamed operand at the rate that the bytes in flight give
// (Little's law), the short one from the second-level cache, adding up.
double estimated_cycles(const DirectKnobs& k, const Problem& problem, const Machine& machine) {
  constexpr double kStart = 1000, kTrip = 1200, kLoadedTrip = 2000;  // the last with the memory busy
  constexpr double kMemoryBytesPerCycle = 19;                        // 4.4 TB/s over 132 multiprocessors
  constexpr double kUnitBytesPerCycle = 50;                          // the most that one multiprocessor takes in
  const double blocks = static_cast<double>(direct_blocks_m(k, problem) * direct_blocks_n(k, problem) * k.split);
  const double registers = k.operand_registers() + k.accumulators() + 56;
  const double resident = std::max(1.0, std::floor(65536 / (registers * k.threads())));  // blocks of a multiprocessor
  const double busy = std::min<double>(blocks, machine.units);
  const double per_unit = std::min(resident, std::max(1.0, blocks / machine.units));
  const double round_bytes = 2.0 * k.rows() * k.tile_k * k.warps_k * k.groups();
  const double in_flight = per_unit * round_bytes * (k.ahead + 0.7);
  // Along MN-major memory a warp reads 2 tile_rows bytes in a row; short pieces waste the memory's pages.
  const bool k_major = k.transposed ? problem.b_is_k_major() : problem.a_is_k_major();
  const double pieces = k_major || k.rows() == 64 ? 1.0 : k.rows() == 32 ? 0.8 : 0.6;
  const double rate =
      pieces * std::min({in_flight / kLoadedTrip, kMemoryBytesPerCycle * machine.units / busy, kUnitBytesPerCycle});
  const double rounds = static_cast<double>(direct_rounds(k, problem));
  const double waves = std::max(1.0, blocks / busy / per_unit);
  const double streamed = waves * per_unit * round_bytes * rounds / rate;
  const double shorter = static_cast<double>(std::min<std::int64_t>(skinny_short_side(problem), k.columns()));
  const double other = waves * per_unit * 2 * shorter * k.tile_k * k.warps_k * rounds / kUnitBytesPerCycle;
  const double words = 1.0 * k.rows() * k.columns() * k.groups();
  const double sums = (k.warps_k > 1 ? 100 + words * k.warps_k / 16 : 0) + (k.split > 1 ? 500 + 15.0 * k.split : 0);
  return kStart + kTrip + streamed + 0.5 * other + waves * sums;
}

std::vector<Recipe> promising(const Problem& problem, const Machine& machine) {
  std::vector<Recipe> recipes;
  for (const int rows : {16, 32, 64}) {
    for (const int tile_k : {32, 64, 128}) {
      for (const auto& [warps_rows, warps_k] :
           {std::pair{1, 1}, {1, 2}, {1, 4}, {1, 8}, {1, 16}, {2, 4}, {2, 8}, {4, 1}, {8, 1}}) {
        for (const int split : {1, 2, 4, 8, 16}) {
          for (const int ahead : {0, 1, 2}) {
            Recipe recipe(skinny_family());
            recipe.set("tile_rows", rows).set("tile_k", tile_k).set("split", split).set("ahead", ahead);
            recipe.set("warps_rows", warps_rows).set("warps_k", warps_k);
            if (is_legal(recipe, problem, machine)) recipes.push_back(std::move(recipe));
          }
        }
      }
    }
  }
  return recipes;
}

// The best nine by estimate, of rows or ways to share K that differ: the estimate is rough. Then the best with wider
// fetches.
std::vector<Recipe> starting_points(const Problem& problem, const Machine& machine) {
  if (skinny_short_side(problem) > kLongestShortSide) return {};
  std::vector<std::pair<double, Recipe>> ranked;
  for (Recipe& recipe : promising(problem, machine)) {
    const double cycles = estimated_cycles(skinny_knobs(recipe, problem), problem, machine);
    ranked.emplace_back(cycles, std::move(recipe));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Recipe> chosen;
  std::set<std::array<int, 3>> kinds;
  for (auto& [cycles, recipe] : ranked) {
    if (!kinds.insert({recipe.get("tile_rows"), recipe.get("warps_k"), recipe.get("split")}).second) continue;
    chosen.push_back(std::move(recipe));
    if (chosen.size() == 9) break;
  }
  if (!chosen.empty()) chosen.push_back(Recipe(chosen.front()).set("fetch", 128));
  return chosen;
}

}  // namespace

const Family& skinny_family() {
  static const Family kFamily = {"skinny",     "M or N at most 32: one operand streamed through registers, mma",
                                 Target::sm80, knobs(),
                                 rules(),      starting_points};
  return kFamily;
}

}  // namespace warpsmith
