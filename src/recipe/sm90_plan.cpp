// Arithmetic of the sm90 family: the mirror of device/copy/operand_tile.cuh and
// device/kernels/sm90_gemm.cuh.
#include "recipe/sm90_plan.h"

#include <algorithm>

namespace warpsmith {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// What a block receives of a split tile: PushedTile in device/epilogue/cluster_reduce.cuh.
constexpr std::int64_t kMostReceiverBytes = 32 << 10;  // that it has memory of its own for
std::int64_t receiver_bytes(const Sm90Knobs& k) {
  const int strips = k.tile_m / 16, groups = k.tile_n / 8, split = k.cluster_split();
  if (split == 1) return 0;
  const int wide = groups % 4 == 0 && strips * (groups / 4) >= split   ? 4
                   : groups % 2 == 0 && strips * (groups / 2) >= split ? 2
                                                                       : 1;
  return split * ceil_div(strips * (groups / wide), split) * wide * 512;
}

std::int64_t epilogue_bytes(const Sm90Knobs& k) {
  if (k.cluster_split() > 1) return receiver_bytes(k);
  const int part_rows = k.pingpong ? k.tile_m : k.tile_m / k.consumers;  // of a warpgroup
  if (k.epilogue == kSm90Staged) {
    return k.swap ? k.consumers * k.tile_n * 16 * (part_rows / 8 | 1)
                  : k.consumers * part_rows * 16 * (k.tile_n / 8 | 1);
  }
  if (k.epilogue == kSm90Tma) {
    return k.consumers * std::max(k.staging, 1) * (part_rows / 64) * sm90_store_boxes(k).bytes();
  }
  return 0;
}

}  // namespace

Sm90Knobs sm90_knobs(const Recipe& recipe) {
  Sm90Knobs knobs;
  knobs.tile_m = recipe.get("tile_m");
  knobs.tile_n = recipe.get("tile_n");
  knobs.tile_k = recipe.get("tile_k");
  knobs.cluster_m = recipe.get("cluster_m");
  knobs.cluster_n = recipe.get("cluster_n");
  knobs.split = recipe.get("split");
  knobs.stages = recipe.get("stages");
  knobs.consumers = recipe.get("consumers");
  knobs.pace = recipe.get("pace");
  knobs.raster = recipe.get("raster");
  knobs.group = recipe.get("group");
  knobs.persistent = recipe.get("persistent");
  knobs.streamk = recipe.get("streamk");
  knobs.pingpong = recipe.get("pingpong");
  knobs.swap = recipe.get("swap");
  knobs.pdl = recipe.get("pdl");
  knobs.epilogue = recipe.get("epilogue");
  knobs.staging = recipe.get("staging");
  knobs.evict_a = recipe.get("evict_a");
  knobs.evict_b = recipe.get("evict_b");
  return knobs;
}

Sm90Product sm90_product(const Sm90Knobs& knobs, const Problem& problem) {
  if (knobs.swap) return {problem.n, problem.m, problem.k, problem.b_is_k_major(), problem.a_is_k_major()};
  return {problem.m, problem.n, problem.k, problem.a_is_k_major(), problem.b_is_k_major()};
}

Sm90Boxes sm90_operand_boxes(int tile_rows, int tile_k, bool k_major) {
  if (k_major) {
    const int columns = std::min(tile_k, 64);
    return {tile_k / columns, columns, tile_rows};
  }
  const int columns = tile_rows <= 16 ? 16 : round_up(tile_rows, 64) - tile_rows < 32 ? 64 : 32;
  return {static_cast<int>(ceil_div(tile_rows, columns)), columns, tile_k};
}

Sm90Boxes sm90_store_boxes(const Sm90Knobs& knobs) {
  const int n = knobs.tile_n;
  if (knobs.swap) return {1, 64, n};
  if (knobs.staging > 0) return {1, 64, 64};
  const int columns = n % 64 == 0 ? 64 : n % 32 == 0 ? 32 : n % 16 == 0 ? 16 : 8;
  return {n / columns, columns, 64};
}

int sm90_threads(const Sm90Knobs& knobs) { return 128 * knobs.consumers + (knobs.consumers > 1 ? 128 : 32); }

int sm90_accumulator_limit(const Sm90Knobs& knobs) {
  if (knobs.swap && knobs.epilogue == kSm90Direct) return knobs.consumers == 1 ? 128 : 64;  // transposed in registers
  if (knobs.consumers == 3) return 96;
  return knobs.streamk ? 160 : 192;
}

int sm90_accumulator_limit(const Sm90Knobs& knobs, const Problem& problem) {
  const int limit = sm90_accumulator_limit(knobs);
  if (!problem.scaled()) return limit;
  const bool crowded = knobs.streamk || knobs.epilogue == kSm90Direct;
  if (problem.accumulator == AccumulatorType::f16 || knobs.consumers == 3) return std::min(limit, crowded ? 64 : 96);
  return std::min(limit, crowded ? 96 : knobs.consumers == 1 ? 128 : 192);
}

std::int64_t sm90_smem_bytes(const Sm90Knobs& knobs, const Problem& problem) {
  const Sm90Product product = sm90_product(knobs, problem);
  const std::int64_t stage = sm90_operand_boxes(knobs.tile_m, knobs.tile_k, product.a_k_major).bytes() +
                             sm90_operand_boxes(knobs.tile_n, knobs.tile_k, product.b_k_major).bytes();
  const std::int64_t pipeline = knobs.stages * stage;
  const std::int64_t receiver = receiver_bytes(knobs);
  const bool apart = knobs.persistent || (receiver > 0 && receiver <= kMostReceiverBytes);
  const std::int64_t epilogue_offset = apart ? round_up(pipeline, 1024) : 0;
  const std::int64_t barriers = 16 * knobs.stages + (knobs.pingpong ? 16 : 0) + (receiver > 0 ? 8 : 0);
  return round_up(std::max(pipeline, epilogue_offset + epilogue_bytes(knobs)), 16) + barriers;
}

std::int64_t sm90_tiles(const Sm90Knobs& knobs, const Problem& problem) {
  const Sm90Product product = sm90_product(knobs, problem);
  return ceil_div(ceil_div(product.m, knobs.tile_m), knobs.cluster_m) *
         ceil_div(ceil_div(product.n, knobs.tile_n), knobs.cluster_n);
}

std::int64_t sm90_k_tiles(const Sm90Knobs& knobs, const Problem& problem) { return ceil_div(problem.k, knobs.tile_k); }

int sm90_resident_clusters(const Sm90Knobs& knobs, const Machine& machine) {
  const int size = knobs.cluster_size();
  if (size == 1) return machine.units;
  int known = 0;
  for (std::size_t i = machine.resident_clusters.size(); i-- > 0;) {
    if (size <= 2 << i) known = machine.resident_clusters[i];
  }
  if (known > 0) return known;
  const int whole = machine.units / size;
  return std::max(1, size == 2 ? whole : whole * 9 / 10);
}

std::int64_t sm90_clusters(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine) {
  const std::int64_t tiles = sm90_tiles(knobs, problem), resident = sm90_resident_clusters(knobs, machine);
  if (!knobs.streamk) return knobs.persistent ? std::min(tiles, resident) : tiles;
  if (knobs.split > 1) return tiles * knobs.split;
  return std::min(resident, tiles * sm90_k_tiles(knobs, problem));
}

Sm90Grid sm90_grid(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine) {
  if (knobs.loops()) return {sm90_clusters(knobs, problem, machine), 1, 1};
  const Sm90Product product = sm90_product(knobs, problem);
  const std::int64_t tiles_m = ceil_div(ceil_div(product.m, knobs.tile_m), knobs.cluster_m);
  const std::int64_t tiles_n = ceil_div(ceil_div(product.n, knobs.tile_n), knobs.cluster_n);
  const std::int64_t along = knobs.raster == kSm90RasterM ? tiles_m : tiles_n;
  const std::int64_t across = knobs.raster == kSm90RasterM ? tiles_n : tiles_m;
  if (knobs.parts()) return {along, across, knobs.split};
  // Bands of equal width, so that few blocks lie outside.
  const std::int64_t bands = ceil_div(along, knobs.group);
  return {ceil_div(along, bands), across, bands};
}

std::int64_t sm90_dealt_tiles(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine) {
  return knobs.streamk ? sm90_tiles(knobs, problem) % sm90_clusters(knobs, problem, machine) : 0;
}

std::int64_t sm90_workspace_bytes(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine) {
  if (!knobs.streamk) return 0;
  const std::int64_t blocks = sm90_clusters(knobs, problem, machine) * knobs.cluster_size();
  // Equal parts of a tile: a block works on one tile only.
  return blocks * (knobs.split > 1 ? 1 : 2) * knobs.tile_m * knobs.tile_n * 4;
}

}  // namespace warpsmith
