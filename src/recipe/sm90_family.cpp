// The sm90 family: TMA and wgmma kernels for Hopper.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "recipe/knob.h"
#include "recipe/recipe.h"
#include "recipe/sm90_plan.h"

namespace warpsmith {

namespace {

using Reason = std::optional<std::string>;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::vector<int> multiples_of_8(int last) {
  std::vector<int> values;
  for (int value = 8; value <= last; value += 8) values.push_back(value);
  return values;
}

std::vector<Knob> knobs() {
  return {
      {"tile",
       "elements of M, N and K that a block multiplies per stage",
       {{"tile_m", {64, 128, 192, 256}, 128, {}},
        {"tile_n", multiples_of_8(256), 128, {}},
        {"tile_k", {32, 64, 128}, 64, {}}}},
      {"cluster",
       "blocks along M and N that share their operands' loads by multicast",
       {{"cluster_m", {1, 2, 4}, 1, {}}, {"cluster_n", {1, 2}, 1, {}}}},
      {"split",
       "blocks of a cluster that share K; FP32 partial sums meet in distributed shared memory",
       {{"split", {1, 2, 4, 8, 16}, 1, {}}}},
      {"stages", "depth of the load pipeline", {{"stages", {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 4, {}}}},
      {"consumers", "warpgroups that multiply, each on its share of tile_m", {{"consumers", {1, 2, 3}, 2, {}}}},
      {"raster",
       "direction in which neighbouring tiles follow one another",
       {{"raster", {kSm90RasterM, kSm90RasterN}, kSm90RasterM, {"m", "n"}}}},
      {"group", "tiles along the raster direction before the other one advances", {{"group", {1, 2, 4, 8, 16}, 8, {}}}},
      {"persistent",
       "1: as many blocks as fit, each looping over tiles; 0: a block per tile",
       {{"persistent", {0, 1}, 0, {}}}},
      {"pdl", "programmatic dependent launch: the prologue overlaps the previous kernel", {{"pdl", {0, 1}, 0, {}}}},
      {"epilogue",
       "way of the results: registers to memory, 16-byte stores through shared memory, or TMA stores",
       {{"epilogue", {kSm90Direct, kSm90Staged, kSm90Tma}, kSm90Staged, {"direct", "staged", "tma"}}}},
  };
}

Reason check_architecture(const Recipe&, const Problem*, const Machine& machine) {
  if (machine.compute_capability == 90) return std::nullopt;
  return fmt::format("wgmma needs compute capability 9.0, and {} has {}.{}", machine.name,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_accumulator(const Recipe&, const Problem* problem, const Machine&) {
  if (problem->accumulator == AccumulatorType::f32) return std::nullopt;
  return "the sm90 family accumulates in f32 only";
}

Reason check_alignment(const Recipe& recipe, const Problem* problem, const Machine&) {
  if (problem->a_cols() % 8 != 0) {
    return fmt::format("TMA needs rows of whole 16-byte units, and A is stored with rows of {} elements",
                       problem->a_cols());
  }
  if (problem->b_cols() % 8 != 0) {
    return fmt::format("TMA needs rows of whole 16-byte units, and B is stored with rows of {} elements",
                       problem->b_cols());
  }
  if (recipe.get("epilogue") == kSm90Tma && problem->n % 8 != 0) {
    return fmt::format("epilogue=tma needs rows of whole 16-byte units, and C has rows of {} elements", problem->n);
  }
  return std::nullopt;
}

Reason check_consumer_rows(const Recipe& recipe, const Problem*, const Machine&) {
  const int tile_m = recipe.get("tile_m"), consumers = recipe.get("consumers");
  if (tile_m % (64 * consumers) == 0) return std::nullopt;
  return fmt::format("{} consumers share {} rows, and each takes a multiple of 64", consumers, tile_m);
}

Reason check_registers(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  const int limit = sm90_accumulator_limit(k.consumers);
  if (k.accumulators() <= limit) return std::nullopt;
  return fmt::format("a {}x{} tile takes {} accumulator registers per thread of {} consumers; {} fit", k.tile_m,
                     k.tile_n, k.accumulators(), k.consumers, limit);
}

Reason check_shared_memory(const Recipe& recipe, const Problem* problem, const Machine& machine) {
  const std::int64_t bytes = sm90_smem_bytes(sm90_knobs(recipe), problem->a_is_k_major(), problem->b_is_k_major());
  if (bytes <= machine.smem_bytes_per_block) return std::nullopt;
  return fmt::format("needs {} bytes of shared memory per block; {} are there", bytes, machine.smem_bytes_per_block);
}

Reason check_cluster_size(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (k.cluster_size() <= 16) return std::nullopt;
  return fmt::format("cluster {}x{} with split {} has {} blocks; at most 16", k.cluster_m, k.cluster_n, k.split,
                     k.cluster_size());
}

Reason check_multicast(const Recipe& recipe, const Problem* problem, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (!problem->b_is_k_major() || k.tile_n % (8 * k.cluster_m) == 0) return std::nullopt;
  return fmt::format("{} blocks share the {} rows of B's tile, and each loads a multiple of 8", k.cluster_m, k.tile_n);
}

Reason check_split(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (k.split == 1) return std::nullopt;
  if (k.persistent) return fmt::format("split={} reuses the pipeline's memory, so it needs persistent=0", k.split);
  if (k.epilogue != kSm90Staged)
    return fmt::format("split={} adds up in shared memory, so it needs epilogue=staged", k.split);
  return std::nullopt;
}

Reason check_split_depth(const Recipe& recipe, const Problem* problem, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  const std::int64_t k_tiles = sm90_k_tiles(k, *problem);
  if (k.split <= k_tiles) return std::nullopt;
  return fmt::format("split={} shares {} tiles of K", k.split, k_tiles);
}

Reason check_grid(const Recipe& recipe, const Problem* problem, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  const std::int64_t blocks = sm90_clusters(k, *problem) * k.cluster_size();
  if (blocks < (std::int64_t{1} << 31)) return std::nullopt;
  return fmt::format("{} blocks; a grid has fewer than 2^31", blocks);
}

std::vector<Rule> rules() {
  return {
      {"architecture", "wgmma exists on compute capability 9.0 only", false, check_architecture},
      {"consumer_rows", "each consumer takes a multiple of 64 rows of the tile", false, check_consumer_rows},
      {"registers", "a thread's accumulators fit in its registers", false, check_registers},
      {"cluster_size", "a cluster has at most 16 blocks", false, check_cluster_size},
      {"split", "split-K uses the staged epilogue of a kernel that is not persistent", false, check_split},
      {"accumulator", "FP32 accumulation", true, check_accumulator},
      {"alignment", "rows of the operands are whole 16-byte units", true, check_alignment},
      {"multicast", "a share of a tile is whole swizzle periods", true, check_multicast},
      {"split_depth", "every block of a split has a tile of K", true, check_split_depth},
      {"shared_memory", "the stages and the epilogue fit in a block's shared memory", true, check_shared_memory},
      {"grid", "the grid has fewer than 2^31 blocks", true, check_grid},
  };
}

// A rough time of a recipe, in clock cycles: waves of clusters, each as long as its slower of multiplying and loading.
double estimated_cycles(const Sm90Knobs& k, const Problem& problem, const Machine& machine) {
  constexpr double kFlopsPerCycle = 4096;  // dense half precision, per multiprocessor
  constexpr double kBytesPerCycle = 40;    // from the L2 cache, per multiprocessor
  constexpr double kStoreBytesPerCycle = 30;
  constexpr double kStartCycles = 1500, kReduceCycles = 1200;
  double waves = static_cast<double>(sm90_clusters(k, problem)) / sm90_resident_clusters(k, machine);
  if (waves <= 4) waves = std::ceil(waves);  // a long queue of blocks evens out
  const double depth = static_cast<double>(ceil_div(sm90_k_tiles(k, problem), k.split) * k.tile_k);
  // Below 64 columns wgmma waits for A from shared memory.
  const double multiply = 2.0 * k.tile_m * std::max(k.tile_n, 64) * depth / kFlopsPerCycle;
  // Multicast saves half of what it could: the blocks of a cluster wait for one another.
  const double rows = 0.5 * k.tile_m * (1 + 1.0 / k.cluster_n) + 0.5 * k.tile_n * (1 + 1.0 / k.cluster_m);
  const double load = 2.0 * rows * depth / kBytesPerCycle;
  const double store = 2.0 * k.tile_m * k.tile_n / kStoreBytesPerCycle;
  const double reduce = k.split > 1 ? kReduceCycles + 2.0 * store : 0;
  // Two stages leave no slack between loading and multiplying.
  const bool starved = k.stages == 2 && sm90_k_tiles(k, problem) > std::int64_t{2} * k.split;
  const double body = std::max(multiply, load) * (starved ? 1.25 : 1.0) + reduce;
  if (k.persistent) return kStartCycles + store + waves * 1.08 * body;
  return kStartCycles * (0.5 + 0.5 * waves) + waves * (body + store);
}

// As many stages as shared memory holds and the K range fills.
void set_stages(Recipe& recipe, const Problem& problem, const Machine& machine) {
  Sm90Knobs k = sm90_knobs(recipe);
  const std::int64_t useful = k.persistent ? 12 : ceil_div(sm90_k_tiles(k, problem), k.split);
  k.stages = static_cast<int>(std::clamp<std::int64_t>(useful, 2, 12));
  while (k.stages > 2 &&
         sm90_smem_bytes(k, problem.a_is_k_major(), problem.b_is_k_major()) > machine.smem_bytes_per_block) {
    --k.stages;
  }
  recipe.set("stages", k.stages);
}

// A tile with one block per tile, with pairs of blocks that share B, and persistent: the last two where they can pay.
void add_variants(Recipe recipe, const Problem& problem, const Machine& machine, std::vector<Recipe>& recipes) {
  const Sm90Knobs k = sm90_knobs(recipe);
  const auto add = [&](Recipe variant) {
    set_stages(variant, problem, machine);
    if (is_legal(variant, problem, machine)) recipes.push_back(std::move(variant));
  };
  const bool loops = sm90_clusters(k, problem) > machine.units;
  if (loops) recipe.set("group", 16);
  add(recipe);
  if (k.split > 1) return;
  Recipe pairs = recipe;
  pairs.set("cluster_m", 2);
  if (k.tile_m * k.tile_n >= 128 * 128 && problem.m > k.tile_m) add(pairs);
  if (!loops) return;
  recipe.set("persistent", 1).set("epilogue", problem.n % 8 == 0 ? kSm90Tma : kSm90Staged);
  add(recipe);
}

// All combinations of a few good values; tiles of twice the problem's size only waste.
std::vector<Recipe> promising(const Problem& problem, const Machine& machine) {
  std::vector<Recipe> recipes;
  for (const auto& [tile_m, consumers] : {std::pair{64, 1}, {128, 2}, {256, 2}, {128, 1}, {192, 3}}) {
    if (tile_m > 64 && tile_m >= 2 * problem.m) continue;
    for (const int tile_n : {8, 16, 32, 64, 96, 128, 160, 192, 256}) {
      if (tile_n > 32 && tile_n >= 2 * problem.n) continue;
      for (const int tile_k : {64, 128}) {
        for (const int split : {1, 2, 4, 8, 16}) {
          Recipe recipe(sm90_family());
          recipe.set("tile_m", tile_m).set("tile_n", tile_n).set("tile_k", tile_k).set("split", split);
          recipe.set("consumers", consumers);
          add_variants(std::move(recipe), problem, machine, recipes);
        }
      }
    }
  }
  return recipes;
}

// The best ten by estimate, no more than two of the same tile_m x tile_n.
std::vector<Recipe> starting_points(const Problem& problem, const Machine& machine) {
  std::vector<std::pair<double, Recipe>> ranked;
  for (Recipe& recipe : promising(problem, machine)) {
    const double cycles = estimated_cycles(sm90_knobs(recipe), problem, machine);
    ranked.emplace_back(cycles, std::move(recipe));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Recipe> chosen;
  std::multiset<std::pair<int, int>> tiles;
  for (auto& [cycles, recipe] : ranked) {
    const std::pair<int, int> tile{recipe.get("tile_m"), recipe.get("tile_n")};
    if (tiles.count(tile) == 2) continue;
    tiles.insert(tile);
    chosen.push_back(std::move(recipe));
    if (chosen.size() == 10) break;
  }
  return chosen;
}

}  // namespace

const Family& sm90_family() {
  static const Family kFamily = {"sm90",       "Hopper: TMA loads, mbarrier pipeline, warpgroup matrix multiply",
                                 Target::sm90, knobs(),
                                 rules(),      starting_points};
  return kFamily;
}

}  // namespace warpsmith
