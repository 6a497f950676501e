// Arithmetic of the sm90 family: the mirror of device/copy/operand_tile.cuh and device/kernels/sm90_gemm.cuh.
#include "recipe/sm90_plan.h"

#include <algorithm>

namespace warpsmith {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

std::int64_t epilogue_bytes(const Sm90Knobs& knobs) {
  if (knobs.split > 1) return knobs.tile_m * 4 * (round_up(knobs.tile_n, 32) + 8);  // FP32 partial sums, padded rows
  if (knobs.epilogue == kSm90Staged) return knobs.tile_m * 16 * (knobs.tile_n / 8 | 1);
  if (knobs.epilogue == kSm90Tma) return knobs.tile_m * 2 * knobs.tile_n;
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
  knobs.raster = recipe.get("raster");
  knobs.group = recipe.get("group");
  knobs.persistent = recipe.get("persistent");
  knobs.pdl = recipe.get("pdl");
  knobs.epilogue = recipe.get("epilogue");
  return knobs;
}

Sm90Boxes sm90_operand_boxes(int tile_rows, int tile_k, bool k_major) {
  if (k_major) {
    const int columns = std::min(tile_k, 64);
    return {tile_k / columns, columns, tile_rows};
  }
  const int columns = tile_rows <= 16 ? 16 : round_up(tile_rows, 64) - tile_rows < 32 ? 64 : 32;
  return {static_cast<int>(ceil_div(tile_rows, columns)), columns, tile_k};
}

Sm90Boxes sm90_store_boxes(int tile_n) {
  const int columns = tile_n % 64 == 0 ? 64 : tile_n % 32 == 0 ? 32 : tile_n % 16 == 0 ? 16 : 8;
  return {tile_n / columns, columns, 64};
}

int sm90_threads(const Sm90Knobs& knobs) { return 128 * knobs.consumers + (knobs.consumers > 1 ? 128 : 32); }

int sm90_accumulator_limit(int consumers) { return consumers == 3 ? 96 : 192; }

std::int64_t sm90_smem_bytes(const Sm90Knobs& knobs, bool a_k_major, bool b_k_major) {
  const std::int64_t stage = sm90_operand_boxes(knobs.tile_m, knobs.tile_k, a_k_major).bytes() +
                             sm90_operand_boxes(knobs.tile_n, knobs.tile_k, b_k_major).bytes();
  const std::int64_t pipeline = knobs.stages * stage;
  const std::int64_t epilogue_offset = knobs.persistent ? round_up(pipeline, 1024) : 0;
  const std::int64_t barriers = 16 * knobs.stages;
  return round_up(std::max(pipeline, epilogue_offset + epilogue_bytes(knobs)), 16) + barriers;
}

std::int64_t sm90_clusters(const Sm90Knobs& knobs, const Problem& problem) {
  return ceil_div(ceil_div(problem.m, knobs.tile_m), knobs.cluster_m) *
         ceil_div(ceil_div(problem.n, knobs.tile_n), knobs.cluster_n);
}

int sm90_resident_clusters(const Sm90Knobs& knobs, const Machine& machine) {
  const int whole = machine.units / knobs.cluster_size();
  return std::max(1, knobs.cluster_size() <= 2 ? whole : whole * 9 / 10);
}

std::int64_t sm90_k_tiles(const Sm90Knobs& knobs, const Problem& problem) { return ceil_div(problem.k, knobs.tile_k); }

}  // namespace warpsmith
