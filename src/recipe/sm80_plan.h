// The sm80 family's knobs as numbers, and what follows from them: threads, shared memory, grid, workspace, copy widths.
// The device code derives the same figures; generated sources assert that both agree.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "recipe/recipe.h"
#include "recipe/sm80_loop.h"

namespace warpsmith {

enum Sm80RasterValue { kSm80RasterM, kSm80RasterN };
enum Sm80EpilogueValue { kSm80Pairs, kSm80Lanes, kSm80Staged };
enum Sm80ReduceValue { kSm80Cluster, kSm80Workspace };
enum Sm80PdlValue { kSm80PdlNone, kSm80PdlLate, kSm80PdlEarly };

struct Sm80Knobs {
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int warps_m = 1, warps_n = 1, warps_k = 1;
  int stages = 0;
  device::LoopPlan loop;
  int split = 1, reduce = kSm80Cluster;
  int raster = kSm80RasterM, group = 1;
  int fetch = 0;
  int epilogue = kSm80Lanes;
  int pdl = kSm80PdlNone;

  int threads() const { return 32 * warps_m * warps_n * warps_k; }
  int k_steps() const { return tile_k / (16 * warps_k); }  // of a warp, in a stage
  bool reduces() const { return warps_k > 1 || split > 1; }
  device::LoopProgram program() const { return device::make_loop(loop, k_steps(), stages); }
  int accumulators() const { return sum_registers(AccumulatorType::f32); }
  // Registers per thread: sums, of either accumulator, and fragments.
  int sum_registers(AccumulatorType accumulator) const;
  int fragment_registers() const;
  int smem_bytes() const;
};
Sm80Knobs sm80_knobs(const Recipe& recipe);

// Registers per thread for sums and fragments: those of a thread, less 48 for addresses.
int sm80_register_limit(int threads);
// FP32 sums per thread that leave room for two fragment buffers.
int sm80_accumulator_limit(int threads);
std::int64_t sm80_tiles(const Sm80Knobs& knobs, const Problem& problem);
std::int64_t sm80_blocks(const Sm80Knobs& knobs, const Problem& problem);
std::int64_t sm80_k_tiles(const Sm80Knobs& knobs, const Problem& problem);
std::int64_t sm80_workspace_bytes(const Sm80Knobs& knobs, const Problem& problem);
// Widest copy in bytes (16, 8, 4 or 2) that keeps every row of `columns` elements aligned.
int sm80_granule(std::int64_t columns);

}  // namespace warpsmith
