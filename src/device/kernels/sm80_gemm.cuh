// C = A * B on Ampere and later: cp.async into a ring of shared-memory stages, ldmatrix, mma.m16n8k16. What the main
// loop does in what order is a program of its own (schedule/loop_program.cuh). Takes any sizes and alignments.
#pragma once

#include "device/kernels/sm80_epilogue.cuh"
#include "device/ptx/grid.cuh"

namespace warpsmith::device {

// Stages of K that part `part` of `parts` multiplies.
__device__ __forceinline__ Sm80Work sm80_work(TileCoordinate origin, int stages, int part, int parts) {
  const int first = static_cast<int>(static_cast<long long>(part) * stages / parts);
  const int end = static_cast<int>((part + 1LL) * stages / parts);
  return {origin, first, end - first};
}

// workspace: of kernels whose blocks meet there, else null.
template <Sm80Config kConfig>
__device__ __forceinline__ void sm80_gemm(const Sm80Operands& in, const Output<kConfig.scaled>& out,
                                          unsigned char* workspace) {
  using Plan = Sm80Plan<kConfig>;
  extern __shared__ __align__(1024) unsigned char shared[];  // addresses in a tile are made by XOR
  const u32 memory = shared_address(shared);
  const int tiles_m = ceil_div(in.m, kConfig.tile_m), tiles_n = ceil_div(in.n, kConfig.tile_n);
  const int warp = threadIdx.x / 32;
  Sm80Place place;
  place.tile = blockIdx.x / kConfig.split;
  place.part = blockIdx.x % kConfig.split;
  const TileCoordinate tile = raster_tile<kConfig.raster, kConfig.group>(place.tile, tiles_m, tiles_n);
  place.origin = {tile.m * kConfig.tile_m, tile.n * kConfig.tile_n};
  place.warp_m = warp % kConfig.warps_m;
  place.warp_n = warp / kConfig.warps_m % kConfig.warps_n;
  place.warp_k = warp / Plan::kGroup;
  const Sm80Work work = sm80_work(place.origin, ceil_div(in.k, kConfig.tile_k), place.part, kConfig.split);

  if constexpr (kConfig.pdl > 0) grid_dependency_wait();
  if constexpr (kConfig.pdl == 2) grid_launch_dependents();
  Sm80Loop<kConfig> loop(memory, in, work, place.warp_m * Plan::kWarpRows, place.warp_n * Plan::kWarpColumns,
                         place.warp_k * 16 * Plan::kSteps);
  loop.run();
  if constexpr (kConfig.pdl == 1) grid_launch_dependents();
  if constexpr (Plan::kReduces) {
    sm80_reduce<kConfig>(memory, loop.sums, place, workspace, tiles_m * tiles_n, out, in.m, in.n);
  } else {
    sm80_write<kConfig>(memory, loop.sums, place, out, in.m, in.n);
  }
}

}  // namespace warpsmith::device
