// How the consumers of an sm90 block write their part of a tile.
#pragma once

#include "device/kernels/sm90_memory.cuh"
#include "device/kernels/sm90_schedule.cuh"
#include "device/ptx/mbarrier.cuh"

namespace warpsmith::device {

// Through shared memory, slice after slice of 64 columns, each by TMA as soon as it is there; `staging` buffers in
// turn.
template <Sm90Config kConfig, class Sum, int kRowBlocks, int kCount>
__device__ __forceinline__ void sm90_write_slices(u32 base, int barrier, const Sum (&d)[kRowBlocks][kCount],
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
      constexpr int kPart = 8 * kSumsPerBlock<Sum>;
      Sum part[kPart];
#pragma unroll
      for (int i = 0; i < kPart; ++i) part[i] = d[block][kPart * slice + i];
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

// Writes one warpgroup's part of a tile, whose first element is (row, column) of the m x n product. The sums of a
// scaled problem are scaled in place.
template <Sm90Config kConfig, class Sum, int kRowBlocks, int kCount>
__device__ __forceinline__ void sm90_write(u32 memory, int warpgroup, const Sum (&d)[kRowBlocks][kCount],
                                           const TensorMap* map_c, const Output<kConfig.scaled>& out, int row,
                                           int column, int m, int n) {
  using Memory = Sm90Memory<kConfig>;
  constexpr bool kSwap = kConfig.swap;
  const int thread = threadIdx.x % 128;
  const int warp_row = thread / 32 * 16;
  const int barrier = 1 + warpgroup;  // 0 is the block's own
  const u32 base = memory + Memory::kEpilogue + warpgroup * Memory::kWarpgroupBytes;
  if constexpr (kConfig.epilogue == Epilogue::direct) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      const int line = row + 64 * block + warp_row;
      if constexpr (kConfig.scaled) {
        store_scaled_fragment<kConfig.element, kSwap>(out, line, column, m, n, d[block]);
      } else {
        store_fragment<kConfig.element, kSwap>(out, line, column, m, n, d[block]);
      }
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
      Memory::Rows::template store<128>(base, thread, out, column, row, n, m);
    } else {
      Memory::Rows::template store<128>(base, thread, out, row, column, m, n);
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

// Finishes one warpgroup's part of a tile. Sums are scaled in place, but for stream-K a copy of them: wgmma's registers
// must not be written where another path leaves them in a workspace.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_finish(u32 memory, int warpgroup, typename Sm90Plan<kConfig>::Sums& d,
                                            const TensorMap* map_c, const Output<kConfig.scaled>& out, int row,
                                            int column, int m, int n) {
  if constexpr (kConfig.scaled && kConfig.epilogue != Epilogue::direct) {
    using Plan = Sm90Plan<kConfig>;
    const int first = row + threadIdx.x % 128 / 32 * 16;
    if constexpr (kConfig.streamk) {
      typename Plan::Sums scaled;
#pragma unroll
      for (int block = 0; block < Plan::kRowBlocks; ++block) {
#pragma unroll
        for (int i = 0; i < Plan::kRowSums; ++i) scaled[block][i] = d[block][i];
      }
      scale_strips<kConfig.element, kConfig.swap>(out, first, column, m, n, scaled);
      sm90_write<kConfig>(memory, warpgroup, scaled, map_c, out, row, column, m, n);
      return;
    }
    scale_strips<kConfig.element, kConfig.swap>(out, first, column, m, n, d);
  }
  sm90_write<kConfig>(memory, warpgroup, d, map_c, out, row, column, m, n);
}

// Split-K inside a cluster: partial sums through distributed shared memory. `row`: of this warpgroup in the tile.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_reduce_in_cluster(u32 memory, const Sm90Schedule<kConfig>& schedule, int row,
                                                       const typename Sm90Plan<kConfig>::Sums& d,
                                                       const Output<kConfig.scaled>& out, TileCoordinate origin, int m,
                                                       int n) {
  using Plan = Sm90Plan<kConfig>;
  using Memory = Sm90Memory<kConfig>;
  using Pushed = typename Memory::Pushed;
  constexpr int kStride = kConfig.cluster_m * kConfig.cluster_n;
  const int first_rank = schedule.rank - schedule.rank_k * kStride;
  const u32 buffer = memory + Memory::kEpilogue, barrier = memory + Memory::kSums;
  if constexpr (!Memory::kOwnReceiver) cluster_arrive();  // this block's stages may be overwritten
  cluster_wait();                                         // the others are as far
#pragma unroll
  for (int block = 0; block < Plan::kRowBlocks; ++block) {
    const int strip = (row + 64 * block) / 16 + threadIdx.x % 128 / 32;
    Pushed::push(buffer, barrier, strip, schedule.rank_k, first_rank, kStride, d[block]);
  }
  const int warp = warp_uniform(threadIdx.x / 32);
  if (warp >= Pushed::units_of(schedule.rank_k)) return;
  mbarrier_wait<WaitScope::cluster>(barrier, 0);
  Pushed::template finish<kConfig.element, kConfig.swap>(buffer, warp, 4 * kConfig.consumers, schedule.rank_k, out,
                                                         origin.m, origin.n, m, n);
}

// Stream-K: where a block leaves its part of a tile. A stretch touches at most two tiles that it does not do alone, the
// first in slot 0, the second in slot 1. With equal parts, each block has a slot; the worker is the part's number.
template <Sm90Config kConfig>
__device__ __forceinline__ unsigned char* sm90_slot(unsigned char* workspace, const Sm90Schedule<kConfig>& schedule,
                                                    int worker, int tile) {
  if constexpr (kConfig.parts) {
    const int block = (schedule.cluster + (worker - schedule.part) * schedule.plane) * Sm90Plan<kConfig>::kClusterSize;
    return workspace + static_cast<long long>(block + schedule.rank) * Sm90Memory<kConfig>::Shared::kBytes;
  }
  const int slot = schedule.deal.tile_of(schedule.deal.first_stage(worker)) == tile ? 0 : 1;
  const int block = worker * Sm90Plan<kConfig>::kClusterSize + schedule.rank;
  const int blocks = static_cast<int>(gridDim.x);
  return workspace + static_cast<long long>(slot * blocks + block) * Sm90Memory<kConfig>::Shared::kBytes;
}

template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_leave(unsigned char* workspace, const Sm90Schedule<kConfig>& schedule, int row,
                                           const typename Sm90Plan<kConfig>::Sums& d, TileCoordinate origin, int m,
                                           int n) {
  unsigned char* slot = sm90_slot(workspace, schedule, kConfig.parts ? schedule.part : schedule.cluster, schedule.tile);
#pragma unroll
  for (int block = 0; block < Sm90Plan<kConfig>::kRowBlocks; ++block) {
    const int line = row + 64 * block + threadIdx.x % 128 / 32 * 16;
    Sm90Memory<kConfig>::Shared::put(slot, line / 16, d[block], origin.m + line, origin.n, m, n);
  }
}

// Adds up this block's shares of the tiles that it worked on together with others.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_reduce_shared_tiles(unsigned char* workspace,
                                                         const Sm90Schedule<kConfig>& schedule,
                                                         const Output<kConfig.scaled>& out, int m, int n) {
  using Shared = typename Sm90Memory<kConfig>::Shared;
  constexpr int kWarps = 4 * kConfig.consumers;
  if constexpr (kConfig.parts) {
    const unsigned char* first = sm90_slot(workspace, schedule, 0, 0);
    const long long stride = static_cast<long long>(schedule.plane * Sm90Plan<kConfig>::kClusterSize) * Shared::kBytes;
    const Contributions contributions = {first, first, stride, schedule.parts};
    Shared::template reduce<kConfig.element, kConfig.swap>(contributions, schedule.part * kWarps + threadIdx.x / 32,
                                                           schedule.parts * kWarps, out, schedule.origin.m,
                                                           schedule.origin.n, m, n);
    return;
  }
  const StreamDeal& deal = schedule.deal;
  const int worker = schedule.cluster;
  if (worker >= deal.workers) return;
  const int last = deal.first_stage(worker + 1) - 1;
  for (int tile = deal.tile_of(deal.first_stage(worker)); tile * deal.depth <= last; ++tile) {
    const int from = deal.worker_of(tile * deal.depth);
    const int count = deal.worker_of((tile + 1) * deal.depth - 1) - from + 1;
    if (count == 1) continue;
    const long long stride = Sm90Plan<kConfig>::kClusterSize * Shared::kBytes;
    const unsigned char* rest = workspace + from * stride + schedule.rank * Shared::kBytes;
    const Contributions contributions = {sm90_slot(workspace, schedule, from, tile), rest, stride, count};
    const TileCoordinate origin = schedule.origin_of(tile);
    Shared::template reduce<kConfig.element, kConfig.swap>(contributions, (worker - from) * kWarps + threadIdx.x / 32,
                                                           count * kWarps, out, origin.m, origin.n, m, n);
  }
}

}  // namespace warpsmith::device
