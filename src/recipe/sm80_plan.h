// The sm80 family's knobs as numbers, and what follows from them: threads, shared memory, grid, copy widths.
// The device code derives the same figures; generated sources assert that both agree.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

enum Sm80RasterValue { kSm80RasterM, kSm80RasterN };

struct Sm80Knobs {
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int warps_m = 1, warps_n = 1;
  int stages = 0;
  int raster = kSm80RasterM, group = 1;

  int threads() const { return 32 * warps_m * warps_n; }
  int accumulators() const { return tile_m * tile_n / threads(); }  // registers per thread
  int smem_bytes() const { return stages * 2 * tile_k * (tile_m + tile_n); }
};
Sm80Knobs sm80_knobs(const Recipe& recipe);

// Registers per thread that the accumulators may take: those of a thread, less 64 for fragments and addresses.
int sm80_accumulator_limit(int threads);
std::int64_t sm80_blocks(const Sm80Knobs& knobs, const Problem& problem);
// Widest copy in bytes (16, 8, 4 or 2) that keeps every row of `columns` elements aligned.
int sm80_granule(std::int64_t columns);

}  // namespace warpsmith
