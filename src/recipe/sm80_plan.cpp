// Arithmetic of the sm80 family: the mirror of device/kernels/sm80_config.cuh.
#include "recipe/sm80_plan.h"

#include <algorithm>

namespace warpsmith {

Sm80Knobs sm80_knobs(const Recipe& recipe) {
  Sm80Knobs knobs;
  knobs.tile_m = recipe.get("tile_m");
  knobs.tile_n = recipe.get("tile_n");
  knobs.tile_k = recipe.get("tile_k");
  knobs.warps_m = recipe.get("warps_m");
  knobs.warps_n = recipe.get("warps_n");
  knobs.stages = recipe.get("stages");
  knobs.raster = recipe.get("raster");
  knobs.group = recipe.get("group");
  return knobs;
}

int sm80_accumulator_limit(int threads) {
  const int registers = std::min(255, 65536 / threads);
  return std::clamp(registers - 64, 0, 128);
}

std::int64_t sm80_blocks(const Sm80Knobs& knobs, const Problem& problem) {
  return ((problem.m + knobs.tile_m - 1) / knobs.tile_m) * ((problem.n + knobs.tile_n - 1) / knobs.tile_n);
}

int sm80_granule(std::int64_t columns) {
  return columns % 8 == 0 ? 16 : columns % 4 == 0 ? 8 : columns % 2 == 0 ? 4 : 2;
}

}  // namespace warpsmith
