// The sm90 family: TMA and wgmma kernels for Hopper.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "recipe/knob.h"
#include "recipe/recipe.h"
#include "recipe/sm90_plan.h"
#include "recipe/sm90_start.h"

namespace warpsmith {

namespace {

using Reason = std::optional<std::string>;

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
       {{"cluster_m", {1, 2, 4}, 1, {}}, {"cluster_n", {1, 2, 4}, 1, {}}}},
      {"split",
       "parts of a tile's K range: blocks of one cluster, whose FP32 partial "
       "sums meet in distributed shared memory; "
       "with streamk, clusters, whose sums meet in a workspace",
       {{"split", {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32}, 1, {}}}},
      {"stages", "depth of the load pipeline", {{"stages", {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 4, {}}}},
      {"consumers", "warpgroups that multiply, each on its share of tile_m", {{"consumers", {1, 2, 3}, 2, {}}}},
      {"pace", "cycles that the producer lets pass between the loads of its first round", {{"pace", {0, 64}, 0, {}}}},
      {"raster",
       "direction in which neighbouring tiles follow one another",
       {{"raster", {kSm90RasterM, kSm90RasterN}, kSm90RasterM, {"m", "n"}}}},
      {"group", "tiles along the raster direction before the other one advances", {{"group", {1, 2, 4, 8, 16}, 8, {}}}},
      {"persistent",
       "1: as many blocks as fit, each looping over tiles; 0: a block per tile",
       {{"persistent", {0, 1}, 0, {}}}},
      {"streamk",
       "1: tiles that do not fill a wave are dealt to all clusters in equal "
       "stretches of K (split=1), or each to `split` "
       "of them; FP32 partial sums meet in a workspace",
       {{"streamk", {0, 1}, 0, {}}}},
      {"pingpong",
       "1: two consumers take whole tiles in turn, so that one writes while "
       "the other multiplies",
       {{"pingpong", {0, 1}, 0, {}}}},
      {"swap", "1: computes the transposed product, so that tile_n covers M", {{"swap", {0, 1}, 0, {}}}},
      {"pdl",
       "programmatic dependent launch: the prologue overlaps the previous "
       "kernel",
       {{"pdl", {0, 1}, 0, {}}}},
      {"epilogue",
       "way of the results: registers to memory, 16-byte stores through shared "
       "memory, or TMA stores",
       {{"epilogue", {kSm90Direct, kSm90Staged, kSm90Tma}, kSm90Staged, {"direct", "staged", "tma"}}}},
      {"staging",
       "slices of 64 columns that the buffer of a persistent kernel's TMA "
       "stores holds; 0: a whole tile",
       {{"staging", {0, 1, 2}, 0, {}}}},
      {"evict",
       "how readily the L2 cache gives up the left and the right operand of "
       "the product",
       {{"evict_a", {kSm90EvictNormal, kSm90EvictFirst, kSm90EvictLast}, kSm90EvictNormal, {"normal", "first", "last"}},
        {"evict_b",
         {kSm90EvictNormal, kSm90EvictFirst, kSm90EvictLast},
         kSm90EvictNormal,
         {"normal", "first", "last"}}}},
  };
}

Reason check_architecture(const Recipe&, const Problem*, const Machine& machine) {
  if (machine.compute_capability == 90) return std::nullopt;
  return fmt::format("wgmma needs compute capability 9.0, and {} has {}.{}", machine.name,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_accumulator(const Recipe&, const Problem* problem, const Machine&) {
  if (problem->accumulator == AccumulatorType::f32 || problem->element == ElementType::f16) return std::nullopt;
  return "wgmma sums products of bf16 elements in f32 only";
}

Reason check_alignment(const Recipe& recipe, const Problem* problem, const Machine&) {
  const auto reason = [](const char* what, const char* matrix, std::int64_t ld) {
    return fmt::format("{} needs rows that are whole 16-byte units apart, and those of {} are {} elements apart", what,
                       matrix, ld);
  };
  if (problem->a_ld() % 8 != 0) return reason("TMA", "A", problem->a_ld());
  if (problem->b_ld() % 8 != 0) return reason("TMA", "B", problem->b_ld());
  if (recipe.get("epilogue") == kSm90Tma && problem->c_ld() % 8 != 0) {
    return reason("epilogue=tma", "C", problem->c_ld());
  }
  if (recipe.get("epilogue") == kSm90Tma && problem->n % 8 != 0) {
    return fmt::format("epilogue=tma writes whole 16-byte units, and rows of C end inside one, after {} elements",
                       problem->n);
  }
  return std::nullopt;
}

Reason check_consumer_rows(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (k.pingpong || k.tile_m % (64 * k.consumers) == 0) return std::nullopt;
  return fmt::format("{} consumers share {} rows, and each takes a multiple of 64", k.consumers, k.tile_m);
}

Reason check_registers(const Sm90Knobs& k, AccumulatorType accumulator, int limit) {
  const int needed = k.accumulators(accumulator);
  if (needed <= limit) return std::nullopt;
  return fmt::format("a {}x{} tile takes {} accumulator registers ({}) per thread of {} consumers; {} fit", k.tile_m,
                     k.tile_n, needed, to_string(accumulator), k.consumers, limit);
}

Reason check_least_registers(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  return check_registers(k, AccumulatorType::f16, sm90_accumulator_limit(k));
}

Reason check_sum_registers(const Recipe& recipe, const Problem* problem, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  return check_registers(k, problem->accumulator, sm90_accumulator_limit(k, *problem));
}

Reason check_shared_memory(const Recipe& recipe, const Problem* problem, const Machine& machine) {
  const std::int64_t bytes = sm90_smem_bytes(sm90_knobs(recipe), *problem);
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
  if (!sm90_product(k, *problem).b_k_major || k.tile_n % (8 * k.cluster_m) == 0) return std::nullopt;
  return fmt::format("{} blocks share the {} rows of a tile, and each loads a multiple of 8", k.cluster_m, k.tile_n);
}

Reason check_split(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  const int split = k.cluster_split();
  if (split == 1) return std::nullopt;
  if ((split & (split - 1)) != 0) return fmt::format("split={} blocks of a cluster; a power of two is needed", split);
  if (k.persistent) return fmt::format("split={} adds up the sums of one tile, so it needs persistent=0", split);
  if (k.epilogue != kSm90Staged) return fmt::format("split={} adds up in shared memory: epilogue=staged", split);
  return std::nullopt;
}

Reason check_streamk(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (!k.streamk || k.persistent) return std::nullopt;
  return "streamk=1 loops over pieces of tiles, so it needs persistent=1";
}

Reason check_pingpong(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (!k.pingpong || (k.persistent && !k.streamk && k.consumers == 2)) return std::nullopt;
  return "pingpong=1 takes two consumers that loop over whole tiles: "
         "consumers=2 persistent=1 streamk=0";
}

Reason check_staging(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (k.staging == 0) return std::nullopt;
  if (k.epilogue != kSm90Tma || !k.persistent || k.swap) {
    return fmt::format("staging={} needs epilogue=tma persistent=1 swap=0", k.staging);
  }
  if (k.tile_n % 64 == 0 && k.tile_n > 64 * k.staging) return std::nullopt;
  return fmt::format("staging={} is some of the slices of 64 columns in {}", k.staging, k.tile_n);
}

Reason check_split_depth(const Recipe& recipe, const Problem* problem, const Machine&) {
  const Sm90Knobs k = sm90_knobs(recipe);
  const std::int64_t k_tiles = sm90_k_tiles(k, *problem);
  if (k.split <= k_tiles) return std::nullopt;
  return fmt::format("split={} shares {} tiles of K", k.split, k_tiles);
}

Reason check_resident(const Recipe& recipe, const Problem* problem, const Machine& machine) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (!k.streamk) return std::nullopt;
  const std::int64_t clusters = sm90_clusters(k, *problem, machine);
  const int resident = sm90_resident_clusters(k, machine);
  if (clusters <= resident) return std::nullopt;
  return fmt::format("{} clusters wait for one another, and {} run at once", clusters, resident);
}

Reason check_dealt(const Recipe& recipe, const Problem* problem, const Machine& machine) {
  const Sm90Knobs k = sm90_knobs(recipe);
  if (!k.streamk) return std::nullopt;
  const std::int64_t tiles = sm90_tiles(k, *problem), clusters = sm90_clusters(k, *problem, machine);
  if (tiles % clusters == 0) return fmt::format("{} tiles fill {} clusters", tiles, clusters);
  // The device divides such numbers in floating point (schedule/divide.cuh).
  const std::int64_t dealt = sm90_dealt_tiles(k, *problem, machine) * sm90_k_tiles(k, *problem);
  if (std::max(tiles, (dealt + 1) * clusters) < (std::int64_t{1} << 24)) return std::nullopt;
  return fmt::format("{} tiles of K for {} tiles of C are too many to count", sm90_k_tiles(k, *problem), tiles);
}

Reason check_grid(const Recipe& recipe, const Problem* problem, const Machine& machine) {
  const Sm90Knobs k = sm90_knobs(recipe);
  const Sm90Grid grid = sm90_grid(k, *problem, machine);
  const std::int64_t clusters = grid.clusters(), most = std::int64_t{1} << 31;
  if (clusters * k.cluster_size() >= most) {
    return fmt::format("{} blocks; a grid has fewer than 2^31", clusters * k.cluster_size());
  }
  // The device divides by multiplying (Sm90Places).
  if (k.loops() || clusters * std::max(grid.fast, grid.slow) < most) return std::nullopt;
  return fmt::format("{} clusters in rows of {} and planes of {} are too many to place", clusters, grid.fast,
                     grid.slow);
}

std::vector<Rule> rules() {
  return {
      {"architecture", "wgmma exists on compute capability 9.0 only", false, check_architecture},
      {"consumer_rows", "each consumer takes a multiple of 64 rows of the tile", false, check_consumer_rows},
      {"registers", "a thread's accumulators fit in its registers, two FP16 sums in each", false,
       check_least_registers},
      {"cluster_size", "a cluster has at most 16 blocks", false, check_cluster_size},
      {"split",
       "split-K in a cluster uses the staged epilogue of a kernel that is not "
       "persistent",
       false, check_split},
      {"streamk", "stream-K is persistent", false, check_streamk},
      {"pingpong", "ping-pong is persistent, with two consumers", false, check_pingpong},
      {"staging", "staging takes TMA stores of several slices", false, check_staging},
      {"accumulator", "FP32 accumulation, or FP16 of f16 elements", true, check_accumulator},
      {"sum_registers", "the same with the problem's accumulator, and room to scale", true, check_sum_registers},
      {"alignment", "rows of the operands are whole 16-byte units apart", true, check_alignment},
      {"multicast", "a share of a tile is whole swizzle periods", true, check_multicast},
      {"split_depth", "every block of a split has a tile of K", true, check_split_depth},
      {"shared_memory", "the stages and the epilogue fit in a block's shared memory", true, check_shared_memory},
      {"resident", "blocks that wait for one another run at the same time", true, check_resident},
      {"dealt", "stream-K has tiles to deal, and so few that 24 bits count their stages times blocks", true,
       check_dealt},
      {"grid", "the grid has fewer than 2^31 blocks, and tiles can be placed without a loop", true, check_grid},
  };
}

}  // namespace

const Family& sm90_family() {
  static const Family kFamily = {"sm90",       "Hopper: TMA loads, mbarrier pipeline, warpgroup matrix multiply",
                                 Target::sm90, knobs(),
                                 rules(),      sm90_starting_points};
  return kFamily;
}

}  // namespace warpsmith
