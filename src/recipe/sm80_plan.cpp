// Arithmetic of the sm80 family: the mirror of device/kernels/sm80_config.cuh.
#include "recipe/sm80_plan.h"

#include <algorithm>

namespace warpsmith {

int Sm80Knobs::sum_registers(AccumulatorType accumulator) const {
  const int results = tile_m / warps_m * (tile_n / warps_n) / 32;
  return accumulator == AccumulatorType::f16 ? results / 2 : results;
}

int Sm80Knobs::fragment_registers() const { return loop.fragments * (tile_m / warps_m + tile_n / warps_n) / 4; }

int Sm80Knobs::smem_bytes() const {
  const int ring = stages * 2 * tile_k * (tile_m + tile_n);
  const int sums = reduces() ? warps_k * tile_m * 4 * (tile_n + 8) : 0;
  const int rows = !reduces() && epilogue == kSm80Staged ? tile_m * 2 * (tile_n + 8) : 0;
  return std::max({ring, sums, rows});
}

Sm80Knobs sm80_knobs(const Recipe& recipe) {
  Sm80Knobs knobs;
  knobs.tile_m = recipe.get("tile_m");
  knobs.tile_n = recipe.get("tile_n");
  knobs.tile_k = recipe.get("tile_k");
  knobs.warps_m = recipe.get("warps_m");
  knobs.warps_n = recipe.get("warps_n");
  knobs.warps_k = recipe.get("warps_k");
  knobs.stages = recipe.get("stages");
  knobs.loop = sm80_loop_plan(recipe);
  knobs.split = recipe.get("split");
  knobs.reduce = recipe.get("reduce");
  knobs.raster = recipe.get("raster");
  knobs.group = recipe.get("group");
  knobs.fetch = recipe.get("fetch");
  knobs.epilogue = recipe.get("epilogue");
  knobs.pdl = recipe.get("pdl");
  return knobs;
}

int sm80_register_limit(int threads) { return std::min(255, 65536 / threads) - 48; }

int sm80_accumulator_limit(int threads) { return std::clamp(std::min(255, 65536 / threads) - 64, 0, 128); }

std::int64_t sm80_tiles(const Sm80Knobs& knobs, const Problem& problem) {
  return ((problem.m + knobs.tile_m - 1) / knobs.tile_m) * ((problem.n + knobs.tile_n - 1) / knobs.tile_n);
}

std::int64_t sm80_blocks(const Sm80Knobs& knobs, const Problem& problem) {
  return sm80_tiles(knobs, problem) * knobs.split;
}

std::int64_t sm80_k_tiles(const Sm80Knobs& knobs, const Problem& problem) {
  return (problem.k + knobs.tile_k - 1) / knobs.tile_k;
}

std::int64_t sm80_workspace_bytes(const Sm80Knobs& knobs, const Problem& problem) {
  if (knobs.split == 1 || knobs.reduce != kSm80Workspace) return 0;
  const std::int64_t tiles = sm80_tiles(knobs, problem), counters = (4 * tiles + 127) / 128 * 128;
  return counters + tiles * knobs.split * 4 * knobs.tile_m * knobs.tile_n;
}

int sm80_granule(std::int64_t columns) {
  return columns % 8 == 0 ? 16 : columns % 4 == 0 ? 8 : columns % 2 == 0 ? 4 : 2;
}

}  // namespace warpsmith
