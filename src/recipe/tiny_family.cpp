// The tiny family: few output tiles and short K, where a kernel's time is that of one round trip to memory. No tensor
// maps, no pipeline: operands go straight to registers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "recipe/direct_rules.h"
#include "recipe/knob.h"
#include "recipe/recipe.h"

namespace warpsmith {

namespace {

using direct::Reason;

constexpr int kMostBlocksPerUnit = 16;  // more of them is work for a family with larger tiles
constexpr int kMostRounds = 16;

std::vector<Knob> knobs() {
  const std::vector<int> tile = {8, 16, 32, 64};
  return {
      {"tile",
       "elements of M and N that a warp multiplies, and of K that it loads at once",
       {{"tile_m", tile, 16, {}}, {"tile_n", tile, 16, {}}, {"tile_k", {16, 32, 64, 128, 256}, 64, {}}}},
      {"warps",
       "warps of a block along M and N, and warps that share the K range of a tile",
       {{"warps_m", {1, 2, 4}, 1, {}}, {"warps_n", {1, 2, 4}, 1, {}}, {"warps_k", {1, 2, 4, 8, 16}, 4, {}}}},
      {"split",
       "blocks of a cluster that share K; FP32 partial sums meet in distributed shared memory",
       {{"split", {1, 2, 4, 8, 16}, 1, {}}}},
      {"ahead", "rounds of loads under way while another is multiplied", {{"ahead", {0, 1}, 0, {}}}},
      {"b",
       "how B comes to registers where its rows run along N: direct, or shared: whole rows through shared memory, "
       "transposed on the way",
       {{"b", {0, 1}, 0, {"direct", "shared"}}}},
      {"fetch",
       "bytes that the second-level cache fetches per load at least; 0: its own choice",
       {{"fetch", {0, 128, 256}, 0, {}}}},
      {"pdl",
       "programmatic dependent launch: 0 none; dependents start 1 after the main loop, 2 before this kernel's loads",
       {{"pdl", {kDirectPdlNone, kDirectPdlLate, kDirectPdlEarly}, kDirectPdlNone, {}}}},
  };
}

Reason check_tile(const Recipe& recipe, const Problem*, const Machine&) {
  const DirectKnobs k = tiny_knobs(recipe);
  if (k.rows() % 16 == 0) return std::nullopt;
  return fmt::format("a tile of {}x{}: mma takes 16 rows or 16 columns", k.tile_m, k.tile_n);
}

Reason check_tiles(const Recipe& recipe, const Problem* problem, const Machine& machine) {
  const DirectKnobs k = tiny_knobs(recipe);
  const std::int64_t blocks = direct_blocks_m(k, *problem) * direct_blocks_n(k, *problem) * k.split;
  const std::int64_t most = std::int64_t{kMostBlocksPerUnit} * machine.units;
  if (blocks <= most) return std::nullopt;
  return fmt::format("{} blocks; this family takes at most {} ({} per multiprocessor)", blocks, most,
                     kMostBlocksPerUnit);
}

Reason check_rounds(const Recipe& recipe, const Problem* problem, const Machine&) {
  const std::int64_t rounds = direct_rounds(tiny_knobs(recipe), *problem);
  if (rounds <= kMostRounds) return std::nullopt;
  return fmt::format("{} rounds of loads along K; this family takes at most {}", rounds, kMostRounds);
}

Reason check_shared_b(const Recipe& recipe, const Problem*, const Machine&) {
  const DirectKnobs k = tiny_knobs(recipe);
  if (!k.shared_b || (!k.transposed && k.ahead == 0 && k.tile_k % 32 == 0)) return std::nullopt;
  return fmt::format(
      "b=shared takes tiles of 16 rows and more, 32 of K and more, and ahead=0; this is {}x{}x{} ahead={}", k.tile_m,
      k.tile_n, k.tile_k, k.ahead);
}

Reason check_rows_of_b(const Recipe& recipe, const Problem* problem, const Machine&) {
  if (!tiny_knobs(recipe).shared_b) return std::nullopt;
  if (problem->b_is_k_major()) return "b=shared is for rows of B that run along N";
  if (problem->n % 8 == 0 && problem->b_ld() % 8 == 0) return std::nullopt;
  return fmt::format("b=shared copies 16 bytes at once; rows of B have {} elements, {} apart", problem->n,
                     problem->b_ld());
}

std::vector<Rule> rules() {
  using Recipes = const Recipe&;
  using Problems = const Problem*;
  using Machines = const Machine&;
  return {
      {"architecture", "mma.m16n8k16 exists from compute capability 8.0 on", false,
       [](Recipes, Problems, Machines m) { return direct::check_architecture(m); }},
      {"cluster", "split-K over blocks needs compute capability 9.0", false,
       [](Recipes r, Problems, Machines m) { return direct::check_cluster(tiny_knobs(r), m); }},
      {"dependents", "programmatic dependent launch needs compute capability 9.0", false,
       [](Recipes r, Problems, Machines m) { return direct::check_dependents(tiny_knobs(r), m); }},
      {"tile", "a tile has 16 rows or 16 columns at least", false, check_tile},
      {"b", "what is transposed in shared memory is of the side of 8, one round at a time", false, check_shared_b},
      {"rows_of_b", "rows that go through shared memory run along N, in 16-byte units", true, check_rows_of_b},
      {"threads", "a block has at most 16 warps", false,
       [](Recipes r, Problems, Machines) { return direct::check_threads(tiny_knobs(r)); }},
      {"registers", "operands in flight and sums fit in a thread's registers", false,
       [](Recipes r, Problems, Machines) { return direct::check_registers(tiny_knobs(r)); }},
      {"class_registers", "the same where operands are loaded by single elements", true,
       [](Recipes r, Problems p, Machines) { return direct::check_class_registers(tiny_knobs(r), *p); }},
      {"shared_memory", "the warps' sums fit in a block's shared memory", false,
       [](Recipes r, Problems, Machines m) { return direct::check_shared_memory(tiny_knobs(r), m); }},
      {"accumulator", "FP32 accumulation, or FP16 of f16 elements", true,
       [](Recipes, Problems p, Machines) { return direct::check_accumulator(*p); }},
      {"depth", "every warp has some of K", true,
       [](Recipes r, Problems p, Machines) { return direct::check_depth(tiny_knobs(r), *p); }},
      {"ahead", "there are more rounds of loads than run ahead", true,
       [](Recipes r, Problems p, Machines) { return direct::check_ahead(tiny_knobs(r), *p); }},
      {"tiles", "few blocks per multiprocessor", true, check_tiles},
      {"rounds", "few rounds of loads along K", true, check_rounds},
  };
}

// Instructions that a warp needs to load one operand's tile: 16 bytes per lane where K runs along memory, otherwise
// what a lane's neighbouring rows give.
double load_instructions(int tile, int tile_k, bool k_major) {
  const double bytes = 2.0 * tile * tile_k / 32;  // of a lane
  return bytes / (k_major ? std::min(16, tile_k / 2) : std::min(16, tile / 4));
}

// A rough time in clock cycles: start, one trip to memory per round, loading, multiplying, adding up.
double estimated_cycles(const DirectKnobs& k, const Problem& problem, const Machine& machine) {
  constexpr double kStart = 1000, kTrip = 1200, kBytesPerCycle = 40, kStoreCycles = 150;
  const double blocks = static_cast<double>(direct_blocks_m(k, problem) * direct_blocks_n(k, problem) * k.split);
  const double per_unit = std::max(1.0, blocks / machine.units);
  const double rounds = static_cast<double>(direct_rounds(k, problem));
  const double trips = k.ahead == 0 ? rounds : 1 + (rounds - 1) / (1 + k.ahead);
  // Warps side by side find each other's lines in the first-level cache.
  const double block_bytes = 2.0 * (k.tile_m * k.warps_m + k.tile_n * k.warps_n) * k.tile_k * k.warps_k * rounds;
  const double loads = load_instructions(k.tile_m, k.tile_k, problem.a_is_k_major()) +
                       load_instructions(k.tile_n, k.tile_k, problem.b_is_k_major());
  const double issue = 6 * loads * k.groups() * k.warps_k * rounds;  // of a block; one port per multiprocessor
  const double mma_tiles = k.rows() / 16.0 * (k.columns() / 8.0);
  const double multiply = rounds * k.tile_k / 16.0 * std::max(mma_tiles <= 2 ? 18.0 : 33.0, 10 * mma_tiles);
  const double tile_words = 1.0 * k.tile_m * k.tile_n * k.groups();
  const double block_sum = k.warps_k > 1 ? 100 + tile_words * k.warps_k / 16 : 0;
  const double cluster_sum = k.split > 1 ? 500 + 15.0 * k.split + (k.split > 8 ? 200 : 0) + tile_words / 8 : 0;
  return kStart + 25 * per_unit + trips * kTrip + per_unit * std::max(block_bytes / kBytesPerCycle, issue) + multiply +
         block_sum + cluster_sum + kStoreCycles;
}

Recipe recipe_of(const DirectKnobs& k) {
  Recipe recipe(tiny_family());
  recipe.set("tile_m", k.tile_m).set("tile_n", k.tile_n).set("tile_k", k.tile_k);
  recipe.set("warps_m", k.warps_m).set("warps_n", k.warps_n).set("warps_k", k.warps_k);
  recipe.set("split", k.split).set("ahead", k.ahead).set("b", k.shared_b ? 1 : 0);
  return recipe;
}

// Every combination that keeps registers and shares K, with its estimate.
std::vector<std::pair<double, DirectKnobs>> promising(const Problem& problem, const Machine& machine) {
  std::vector<std::pair<double, DirectKnobs>> ranked;
  DirectKnobs k;
  for (k.tile_m = 8; k.tile_m <= 64; k.tile_m *= 2) {
    for (k.tile_n = 8; k.tile_n <= 64; k.tile_n *= 2) {
      for (k.tile_k = 16; k.tile_k <= 256; k.tile_k *= 2) {
        for (k.warps_k = 1; k.warps_k <= 16; k.warps_k *= 2) {
          for (k.split = 1; k.split <= 16; k.split *= 2) {
            for (const auto& [warps_m, warps_n, ahead] :
                 {std::tuple{1, 1, 0}, {2, 1, 0}, {1, 2, 0}, {2, 2, 0}, {2, 2, 1}, {4, 2, 1}, {2, 4, 1}, {1, 1, 1}}) {
              k.warps_m = warps_m, k.warps_n = warps_n, k.ahead = ahead;
              k.transposed = k.tile_m == 8;
              if (k.rows() < 16 || k.threads() > kDirectMostThreads || !direct_fits_registers(k)) continue;
              if (!direct_shares_depth(k, problem) || k.ahead >= direct_rounds(k, problem)) continue;
              ranked.emplace_back(estimated_cycles(k, problem, machine), k);
            }
          }
        }
      }
    }
  }
  return ranked;
}

// The best nine by estimate, of tiles that differ in area or in how warps share K: the estimate is rough. Then the best
// with wider fetches, and the first three that can with B through shared memory.
std::vector<Recipe> starting_points(const Problem& problem, const Machine& machine) {
  auto ranked = promising(problem, machine);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Recipe> chosen;
  std::set<std::array<int, 3>> kinds;
  for (const auto& [cycles, k] : ranked) {
    if (kinds.count({k.tile_m * k.tile_n, k.warps_k, k.split})) continue;
    Recipe recipe = recipe_of(k);
    if (!is_legal(recipe, problem, machine)) continue;
    kinds.insert({k.tile_m * k.tile_n, k.warps_k, k.split});
    chosen.push_back(std::move(recipe));
    if (chosen.size() == 9) break;
  }
  if (chosen.empty()) return chosen;
  std::vector<Recipe> shared;
  for (const Recipe& recipe : chosen) {
    Recipe variant = Recipe(recipe).set("b", 1);
    if (shared.size() < 3 && is_legal(variant, problem, machine)) shared.push_back(std::move(variant));
  }
  chosen.push_back(Recipe(chosen.front()).set("fetch", 128));
  std::move(shared.begin(), shared.end(), std::back_inserter(chosen));
  return chosen;
}

}  // namespace

const Family& tiny_family() {
  static const Family kFamily = {"tiny",       "few tiles, short K: operands straight to registers, mma, no pipeline",
                                 Target::sm80, knobs(),
                                 rules(),      starting_points};
  return kFamily;
}

}  // namespace warpsmith
