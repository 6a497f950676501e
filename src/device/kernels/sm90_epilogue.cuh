// How the consumers of an sm90 block write their part of a tile.
#pragma once

#include "device/kernels/sm90_memory.cuh"
#include "device/kernels/sm90_schedule.cuh"

namespace warpsmith::device {

// Through shared memory, slice after slice of 64 columns, each by TMA as soon as it is there; `staging` buffers in
// turn.
template <Sm90Config kConfig, int kRowBlocks>
__device__ __forceinline__ void sm90_write_slices(u32 base, int barrier,
                                                  const float (&d)[kRowBlocks][kConfig.tile_n / 2],
                                                  const TensorMap* map_c, int row, int column) {
  using Boxes = typename Sm90Memory<kConfig>::Boxes;
  const int thread = threadIdx.x % 128;
  const int warp_row = thread / 32 * 16;
#pragma unroll
  for (int slice = 0; slice < kConfig.tile_n / 64; ++slice) {
    const u32 buffer = base + slice % kConfig.staging * kRowBlocks * Boxes::kBytes;
    // The tile before may have ended with any of the buffers.
    if (thread == 0 && slice == 0) tma_store_wait_read();
    if (thread == 0 && slice > 0) tma_store_wait_read<kConfig.staging - 1>();
    named_barrier_sync(barrier, 128);
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      float part[32];
#pragma unroll
      for (int i = 0; i < 32; ++i) part[i] = d[block][32 * slice + i];
      stage_fragment<kConfig.element, false>(
          part, [&](int r, int piece) { return Boxes::address(buffer + block * Boxes::kBytes, warp_row + r, piece); });
    }
    fence_async_shared();
    named_barrier_sync(barrier, 128);
    if (thread == 0) {
#pragma unroll
      for (int block = 0; block < kRowBlocks; ++block) {
        Boxes::store(map_c, buffer + block * Boxes::kBytes, row + 64 * block, column + 64 * slice);
      }
      tma_store_commit();
    }
  }
}

// Writes one warpgroup's part of a tile, whose first element is (row, column) of the m x n product.
template <Sm90Config kConfig, int kRowBlocks>
__device__ __forceinline__ void sm90_write(u32 memory, int warpgroup, const float (&d)[kRowBlocks][kConfig.tile_n / 2],
                                           const TensorMap* map_c, u16* c, int row, int column, int m, int n) {
  using Memory = Sm90Memory<kConfig>;
  constexpr bool kSwap = kConfig.swap;
  const int thread = threadIdx.x % 128;
  const int warp_row = thread / 32 * 16;
  const int barrier = 1 + warpgroup;  // 0 is the block's own
  const u32 base = memory + Memory::kEpilogue + warpgroup * Memory::kWarpgroupBytes;
  if constexpr (kConfig.epilogue == Epilogue::direct) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      store_fragment<kConfig.element, kSwap>(c, row + 64 * block + warp_row, column, m, n, d[block]);
    }
  } else if constexpr (kConfig.epilogue == Epilogue::staged) {
    if constexpr (kConfig.persistent) named_barrier_sync(barrier, 128);  // the last tile's rows have been read
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      const int first = 64 * block + warp_row;
      stage_fragment<kConfig.element, kSwap>(d[block], [&](int r, int piece) {
        return kSwap ? Memory::Rows::address(base, r, first / 8 + piece)
                     : Memory::Rows::address(base, first + r, piece);
      });
    }
    named_barrier_sync(barrier, 128);
    if constexpr (kSwap) {
      Memory::Rows::template store<128>(base, thread, c, column, row, n, m);
    } else {
      Memory::Rows::template store<128>(base, thread, c, row, column, m, n);
    }
  } else if constexpr (kConfig.staging > 0) {
    sm90_write_slices<kConfig>(base, barrier, d, map_c, row, column);
  } else {
    if constexpr (kConfig.persistent) {
      if (thread == 0) tma_store_wait_read();
      named_barrier_sync(barrier, 128);
    }
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      const u32 boxes = base + block * Memory::Boxes::kBytes;
      stage_fragment<kConfig.element, kSwap>(d[block], [&](int r, int piece) {
        return kSwap ? Memory::Boxes::address(boxes, r, warp_row / 8 + piece)
                     : Memory::Boxes::address(boxes, warp_row + r, piece);
      });
    }
    fence_async_shared();
    named_barrier_sync(barrier, 128);
    if (thread == 0) {
#pragma unroll
      for (int block = 0; block < kRowBlocks; ++block) {
        const int line = row + 64 * block;
        Memory::Boxes::store(map_c, base + block * Memory::Boxes::kBytes, kSwap ? column : line, kSwap ? line : column);
      }
      tma_store_commit();
    }
  }
}

// Split-K inside a cluster: partial sums through distributed shared memory. `row`: of this warpgroup in the tile.
template <Sm90Config kConfig, int kRowBlocks>
__device__ __forceinline__ void sm90_reduce_in_cluster(u32 memory, const Sm90Schedule<kConfig>& schedule, int row,
                                                       const float (&d)[kRowBlocks][kConfig.tile_n / 2], u16* c,
                                                       TileCoordinate origin, int m, int n) {
  using Plan = Sm90Plan<kConfig>;
  using Partial = typename Sm90Memory<kConfig>::Partial;
#pragma unroll
  for (int block = 0; block < kRowBlocks; ++block) {
    Partial::put(memory, row + 64 * block + threadIdx.x % 128 / 32 * 16, d[block]);
  }
  cluster_sync();
  constexpr int kStride = kConfig.cluster_m * kConfig.cluster_n;
  const int first_rank = schedule.rank - schedule.rank_k * kStride;
  if constexpr (kConfig.swap) {
    Partial::template reduce<kConfig.element, Plan::kConsumerThreads>(memory, threadIdx.x, schedule.rank_k, first_rank,
                                                                      kStride, c, origin.n, origin.m, n, m);
  } else {
    Partial::template reduce<kConfig.element, Plan::kConsumerThreads>(memory, threadIdx.x, schedule.rank_k, first_rank,
                                                                      kStride, c, origin.m, origin.n, m, n);
  }
  cluster_sync();  // the others may still be reading this block's partial sums
}

// Stream-K: where a block leaves its part of a tile. A stretch touches at most two tiles that it does not do alone, the
// first in slot 0, the second in slot 1.
template <Sm90Config kConfig>
__device__ __forceinline__ unsigned char* sm90_slot(unsigned char* workspace, const Sm90Schedule<kConfig>& schedule,
                                                    u32 worker, u32 tile) {
  const u32 slot = schedule.deal.first_stage(worker) / schedule.depth == tile ? 0 : 1;
  const u32 block = worker * Sm90Plan<kConfig>::kClusterSize + schedule.rank;
  return workspace + static_cast<long long>(slot * gridDim.x + block) * Sm90Memory<kConfig>::Shared::kBytes;
}

template <Sm90Config kConfig, int kRowBlocks>
__device__ __forceinline__ void sm90_leave(unsigned char* workspace, const Sm90Schedule<kConfig>& schedule, int row,
                                           const float (&d)[kRowBlocks][kConfig.tile_n / 2], TileCoordinate origin,
                                           int m, int n) {
  unsigned char* slot = sm90_slot(workspace, schedule, schedule.cluster, schedule.tile);
#pragma unroll
  for (int block = 0; block < kRowBlocks; ++block) {
    const int line = row + 64 * block + threadIdx.x % 128 / 32 * 16;
    Sm90Memory<kConfig>::Shared::put(slot, line / 16, d[block], origin.m + line, origin.n, m, n);
  }
}

// Adds up this block's shares of the tiles that it worked on together with others.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_reduce_shared_tiles(unsigned char* workspace,
                                                         const Sm90Schedule<kConfig>& schedule, u16* c, int m, int n) {
  using Shared = typename Sm90Memory<kConfig>::Shared;
  constexpr int kWarps = 4 * kConfig.consumers;
  const StreamDeal& deal = schedule.deal;
  const u32 worker = schedule.cluster;
  if (worker >= deal.workers) return;
  const u32 last = deal.first_stage(worker + 1) - 1;
  for (u32 tile = deal.first_stage(worker) / deal.depth; tile * deal.depth <= last; ++tile) {
    const u32 from = deal.worker_of(tile * deal.depth);
    const int count = deal.worker_of((tile + 1) * deal.depth - 1) - from + 1;
    if (count == 1) continue;
    const long long stride = Sm90Plan<kConfig>::kClusterSize * Shared::kBytes;
    const unsigned char* rest = workspace + from * stride + schedule.rank * Shared::kBytes;
    const Contributions contributions = {sm90_slot(workspace, schedule, from, tile), rest, stride, count};
    const TileCoordinate origin = schedule.origin_of(tile);
    Shared::template reduce<kConfig.element, kConfig.swap>(contributions, (worker - from) * kWarps + threadIdx.x / 32,
                                                           count * kWarps, c, origin.m, origin.n, m, n);
  }
}

}  // namespace warpsmith::device
