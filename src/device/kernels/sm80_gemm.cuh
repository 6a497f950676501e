// C = A * B on Ampere and later: cp.async into a ring of shared-memory stages, ldmatrix, mma.m16n8k16, results straight
// from the registers. Takes any sizes and alignments.
#pragma once

#include "device/copy/shared_tile.cuh"
#include "device/epilogue/direct.cuh"
#include "device/kernels/sm80_config.cuh"
#include "device/mma/warp_fragments.cuh"

namespace warpsmith::device {

template <Sm80Config kConfig>
struct Sm80Tiles {
  using A = SharedTile<kConfig.a_k_major ? kConfig.tile_m : kConfig.tile_k,
                       kConfig.a_k_major ? kConfig.tile_k : kConfig.tile_m, kConfig.a_granule>;
  using B = SharedTile<kConfig.b_k_major ? kConfig.tile_n : kConfig.tile_k,
                       kConfig.b_k_major ? kConfig.tile_k : kConfig.tile_n, kConfig.b_granule>;
  static_assert(A::kBytes + B::kBytes == Sm80Plan<kConfig>::kStageBytes);
};

// Starts the copies of one stage: depth is its first k.
template <Sm80Config kConfig>
__device__ __forceinline__ void sm80_load_stage(u32 memory, const u16* a, const u16* b, TileCoordinate origin,
                                                int depth, int m, int n, int k) {
  using Tiles = Sm80Tiles<kConfig>;
  constexpr int kThreads = Sm80Plan<kConfig>::kThreads;
  if constexpr (kConfig.a_k_major) {
    Tiles::A::template load<kThreads>(memory, a, m, k, origin.m, depth);
  } else {
    Tiles::A::template load<kThreads>(memory, a, k, m, depth, origin.m);
  }
  if constexpr (kConfig.b_k_major) {
    Tiles::B::template load<kThreads>(memory + Tiles::A::kBytes, b, n, k, origin.n, depth);
  } else {
    Tiles::B::template load<kThreads>(memory + Tiles::A::kBytes, b, k, n, depth, origin.n);
  }
}

// Multiplies one stage into the warp's accumulators; row, column: the warp's first within the tile.
template <Sm80Config kConfig, int kBlocksM, int kCount>
__device__ __forceinline__ void sm80_multiply_stage(u32 memory, int row, int column, float (&d)[kBlocksM][kCount]) {
  using Tiles = Sm80Tiles<kConfig>;
  constexpr int kBlocksN = kCount / 4;
#pragma unroll
  for (int depth = 0; depth < kConfig.tile_k; depth += 16) {
    u32 a[kBlocksM][4], b[kBlocksN / 2][4];
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
      load_fragment_a<typename Tiles::A, kConfig.a_k_major>(memory, row + 16 * i, depth, a[i]);
    }
#pragma unroll
    for (int j = 0; j < kBlocksN / 2; ++j) {
      load_fragment_b<typename Tiles::B, kConfig.b_k_major>(memory + Tiles::A::kBytes, column + 16 * j, depth, b[j]);
    }
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j) {
        float(&block)[4] = *reinterpret_cast<float(*)[4]>(&d[i][4 * j]);
        mma_16x8x16<kConfig.element>(block, a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

template <Sm80Config kConfig>
__device__ __forceinline__ void sm80_gemm(const u16* a, const u16* b, u16* c, int m, int n, int k) {
  using Plan = Sm80Plan<kConfig>;
  extern __shared__ __align__(128) unsigned char shared[];
  const u32 memory = shared_address(shared);
  const int warp = threadIdx.x / 32;
  const int row = warp % kConfig.warps_m * Plan::kWarpRows, column = warp / kConfig.warps_m * Plan::kWarpColumns;

  // Prologue: all stages but one are in flight before the first multiplication.
  const TileCoordinate tile =
      raster_tile<kConfig.raster, kConfig.group>(blockIdx.x, ceil_div(m, kConfig.tile_m), ceil_div(n, kConfig.tile_n));
  const TileCoordinate origin = {tile.m * kConfig.tile_m, tile.n * kConfig.tile_n};
  const int count = ceil_div(k, kConfig.tile_k);
#pragma unroll
  for (int stage = 0; stage < kConfig.stages - 1; ++stage) {
    if (stage < count) {
      sm80_load_stage<kConfig>(memory + stage * Plan::kStageBytes, a, b, origin, stage * kConfig.tile_k, m, n, k);
    }
    cp_async_commit();
  }

  // Main loop: one group is committed per stage, empty ones at the end, so that the number in flight stays the same.
  constexpr int kBlocksM = Plan::kWarpRows / 16;
  float d[kBlocksM][Plan::kWarpColumns / 2] = {};
  int slot = 0, free_slot = kConfig.stages - 1;
  for (int stage = 0; stage < count; ++stage) {
    cp_async_wait<kConfig.stages - 2>();
    __syncthreads();  // the stage has arrived for all warps, and all are done with the one to overwrite
    const int next = stage + kConfig.stages - 1;
    if (next < count) {
      sm80_load_stage<kConfig>(memory + free_slot * Plan::kStageBytes, a, b, origin, next * kConfig.tile_k, m, n, k);
    }
    cp_async_commit();
    sm80_multiply_stage<kConfig>(memory + slot * Plan::kStageBytes, row, column, d);
    free_slot = slot;
    slot = slot + 1 == kConfig.stages ? 0 : slot + 1;
  }

  // Epilogue.
#pragma unroll
  for (int i = 0; i < kBlocksM; ++i) {
    store_fragment<kConfig.element>(c, origin.m + row + 16 * i, origin.n + column, m, n, d[i]);
  }
}

}  // namespace warpsmith::device
