// What follows the main loop of an sm80 kernel: adding up the sums of warps and blocks that share K, in a fixed order,
// and writing C.
#pragma once

#include "device/epilogue/staged.cuh"
#include "device/kernels/sm80_loop.cuh"
#include "device/ptx/barrier.cuh"
#include "device/ptx/counter.cuh"
#include "device/ptx/global.cuh"
#include "device/ptx/remote.cuh"

namespace warpsmith::device {

// A block's place in C and among the blocks that share its K.
struct Sm80Place {
  TileCoordinate origin;
  int tile, part;  // number of the tile, and of the block among those of the tile
  int warp_m, warp_n, warp_k;
};

// Two elements a store, straight from the registers.
template <Sm80Config kConfig, class Sum, int kCount>
__device__ __forceinline__ void sm80_store_pairs(const Output<kConfig.scaled>& out, int row, int column, int m, int n,
                                                 const Sum (&d)[kCount]) {
  const int lane = threadIdx.x % 32;
  const bool pairs = out.whole(n, 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int line = row + lane / 4 + 8 * half;
    if (line >= m) continue;
#pragma unroll
    for (int j = 0; j < kCount / kSumsPerBlock<Sum>; ++j) {
      store_pair(out.row(line), column + 8 * j + 2 * (lane % 4), n, pairs, sum_word<kConfig.element>(d, j, half));
    }
  }
}

// The tile as elements of C in shared memory, then out in rows.
template <Sm80Config kConfig>
struct Sm80StagedTile {
  using Plan = Sm80Plan<kConfig>;

  template <class Sum, int kCount>
  static __device__ __forceinline__ void put(u32 memory, int row, int column, const Sum (&d)[kCount]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 line = memory + (row + lane / 4 + 8 * half) * Plan::kRowPitch + 2 * column + lane % 4 * 4;
#pragma unroll
      for (int j = 0; j < kCount / kSumsPerBlock<Sum>; ++j) {
        store_shared(line + 16 * j, __uint_as_float(sum_word<kConfig.element>(d, j, half)));
      }
    }
  }
  static __device__ __forceinline__ void write(u32 memory, const Output<kConfig.scaled>& out, TileCoordinate origin,
                                               int m, int n) {
    constexpr int kPieces = kConfig.tile_n / 8;
#pragma unroll 4
    for (int i = threadIdx.x; i < kConfig.tile_m * kPieces; i += Plan::kThreads) {
      const int row = i / kPieces, piece = i % kPieces;
      store_eight(out, origin.m + row, origin.n + 8 * piece, m, n,
                  load_shared(memory + row * Plan::kRowPitch + 16 * piece));
    }
  }
};

template <Sm80Config kConfig, class Sums>
__device__ __forceinline__ void sm80_write(u32 memory, Sums& sums, const Sm80Place& place,
                                           const Output<kConfig.scaled>& out, int m, int n) {
  using Plan = Sm80Plan<kConfig>;
  const int row = place.warp_m * Plan::kWarpRows, column = place.warp_n * Plan::kWarpColumns;
#pragma unroll
  for (int i = 0; i < Plan::kBlocksM; ++i) {
    const int top = place.origin.m + row + 16 * i, left = place.origin.n + column;
    scale_sums<kConfig.element, false>(out, top, left, m, n, sums[i]);
    if constexpr (kConfig.epilogue == Sm80Epilogue::pairs) {
      sm80_store_pairs<kConfig>(out, top, left, m, n, sums[i]);
    } else if constexpr (kConfig.epilogue == Sm80Epilogue::lanes) {
      store_fragment<kConfig.element>(out, top, left, m, n, sums[i]);
    } else {
      Sm80StagedTile<kConfig>::put(memory, row + 16 * i, column, sums[i]);
    }
  }
  if constexpr (kConfig.epilogue == Sm80Epilogue::staged) {
    __syncthreads();
    Sm80StagedTile<kConfig>::write(memory, out, place.origin, m, n);
  }
}

// FP32 sums in shared memory, a whole tile for each of the warps that share K, and in the workspace, a whole tile for
// each of the blocks that do. The unit of work is a piece: eight elements of a row.
template <Sm80Config kConfig>
struct Sm80Sums {
  using Plan = Sm80Plan<kConfig>;
  static constexpr int kPiecesPerRow = kConfig.tile_n / 8;
  static constexpr int kPieces = kConfig.tile_m * kPiecesPerRow;
  static constexpr int kTileBytes = kConfig.tile_m * Plan::kSumsPitch;
  static constexpr long long kPartBytes = 4LL * kConfig.tile_m * kConfig.tile_n;  // in the workspace

  template <class Sum, int kCount>
  static __device__ __forceinline__ void put(u32 memory, int warp_k, int row, int column, const Sum (&d)[kCount]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 line =
          memory + warp_k * kTileBytes + (row + lane / 4 + 8 * half) * Plan::kSumsPitch + 4 * column + lane % 4 * 8;
#pragma unroll
      for (int j = 0; j < kCount / kSumsPerBlock<Sum>; ++j) {
        const FloatPair v = sum_pair(d, j, half);
        store_shared(line + 32 * j, v.x, v.y);
      }
    }
  }

  static __device__ __forceinline__ u32 address(u32 memory, int piece) {
    return memory + piece / kPiecesPerRow * Plan::kSumsPitch + piece % kPiecesPerRow * 32;
  }

  static __device__ __forceinline__ void add_eight(Vector4 low, Vector4 high, float (&sum)[8]) {
    const u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += __uint_as_float(words[i]);
  }

  // Adds the warps' sums of one block, whose memory is at `memory`: its own, or another's of the cluster.
  template <bool kRemote>
  static __device__ __forceinline__ void add_warps(u32 memory, int piece, float (&sum)[8]) {
#pragma unroll
    for (int warp_k = 0; warp_k < kConfig.warps_k; ++warp_k) {
      const u32 from = address(memory, piece) + warp_k * kTileBytes;
      if constexpr (kRemote) {
        add_eight(load_remote(from), load_remote(from + 16), sum);
      } else {
        add_eight(load_shared(from), load_shared(from + 16), sum);
      }
    }
  }

  static __device__ __forceinline__ void write(const Output<kConfig.scaled>& out, TileCoordinate origin, int piece,
                                               int m, int n, float (&sum)[8]) {
    const int row = origin.m + piece / kPiecesPerRow, column = origin.n + piece % kPiecesPerRow * 8;
    scale_eight<kConfig.element>(out, row, column, m, n, sum);
    store_eight(out, row, column, m, n,
                {pack<kConfig.element>(sum[0], sum[1]), pack<kConfig.element>(sum[2], sum[3]),
                 pack<kConfig.element>(sum[4], sum[5]), pack<kConfig.element>(sum[6], sum[7])});
  }
};

// Each block of the cluster adds up and writes its share of the tile's pieces.
template <Sm80Config kConfig>
__device__ __forceinline__ void sm80_reduce_in_cluster(u32 memory, const Sm80Place& place,
                                                       const Output<kConfig.scaled>& out, int m, int n) {
  using Sums = Sm80Sums<kConfig>;
  constexpr int kThreads = Sm80Plan<kConfig>::kThreads;
  __syncwarp();
  cluster_sync();
  for (int piece = place.part * kThreads + threadIdx.x; piece < Sums::kPieces; piece += kConfig.split * kThreads) {
    float sum[8] = {};
#pragma unroll
    for (int part = 0; part < kConfig.split; ++part) {
      Sums::template add_warps<true>(map_to_rank(memory, part), piece, sum);
    }
    Sums::write(out, place.origin, piece, m, n, sum);
  }
  __syncwarp();
  cluster_sync();  // the others may still read this block's memory
}

// Each block leaves its sums in the workspace; the one that comes last adds them up in order of K, writes C, and leaves
// the workspace as it was: zero. The tiles' counters lie ahead of the sums.
template <Sm80Config kConfig>
__device__ __forceinline__ void sm80_reduce_in_workspace(u32 memory, const Sm80Place& place, unsigned char* workspace,
                                                         int tiles, const Output<kConfig.scaled>& out, int m, int n) {
  using Sums = Sm80Sums<kConfig>;
  constexpr int kThreads = Sm80Plan<kConfig>::kThreads;
  u32* const counter = reinterpret_cast<u32*>(workspace) + place.tile;
  unsigned char* const parts =
      workspace + round_up(4 * tiles, 128) + static_cast<long long>(place.tile) * kConfig.split * Sums::kPartBytes;
  for (int piece = threadIdx.x; piece < Sums::kPieces; piece += kThreads) {
    float sum[8] = {};
    Sums::template add_warps<false>(memory, piece, sum);
    unsigned char* const target = parts + place.part * Sums::kPartBytes + 32 * piece;
    store_relaxed(target,
                  {__float_as_uint(sum[0]), __float_as_uint(sum[1]), __float_as_uint(sum[2]), __float_as_uint(sum[3])});
    store_relaxed(target + 16,
                  {__float_as_uint(sum[4]), __float_as_uint(sum[5]), __float_as_uint(sum[6]), __float_as_uint(sum[7])});
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 before = count_arrival(counter);
    store_shared(memory, __uint_as_float(before));
    if (before == static_cast<u32>(kConfig.split - 1)) clear_counter(counter);
  }
  __syncthreads();
  if (load_shared(memory).x != static_cast<u32>(kConfig.split - 1)) return;
  for (int piece = threadIdx.x; piece < Sums::kPieces; piece += kThreads) {
    float sum[8] = {};
#pragma unroll 4
    for (int part = 0; part < kConfig.split; ++part) {
      unsigned char* const from = parts + part * Sums::kPartBytes + 32 * piece;
      const Vector4 low = load_relaxed(from), high = load_relaxed(from + 16);
      Sums::add_eight(low, high, sum);
      store_relaxed(from, {0, 0, 0, 0});
      store_relaxed(from + 16, {0, 0, 0, 0});
    }
    Sums::write(out, place.origin, piece, m, n, sum);
  }
}

template <Sm80Config kConfig, class WarpSums>
__device__ __forceinline__ void sm80_reduce(u32 memory, const WarpSums& sums, const Sm80Place& place,
                                            unsigned char* workspace, int tiles, const Output<kConfig.scaled>& out,
                                            int m, int n) {
  using Plan = Sm80Plan<kConfig>;
  using Sums = Sm80Sums<kConfig>;
#pragma unroll
  for (int i = 0; i < Plan::kBlocksM; ++i) {
    Sums::put(memory, place.warp_k, place.warp_m * Plan::kWarpRows + 16 * i, place.warp_n * Plan::kWarpColumns,
              sums[i]);
  }
  if constexpr (kConfig.split > 1 && kConfig.meeting == Sm80Meeting::cluster) {
    sm80_reduce_in_cluster<kConfig>(memory, place, out, m, n);
  } else if constexpr (kConfig.split > 1) {
    __syncthreads();
    sm80_reduce_in_workspace<kConfig>(memory, place, workspace, tiles, out, m, n);
  } else {
    __syncthreads();
    for (int piece = threadIdx.x; piece < Sums::kPieces; piece += Plan::kThreads) {
      float sum[8] = {};
      Sums::template add_warps<false>(memory, piece, sum);
      Sums::write(out, place.origin, piece, m, n, sum);
    }
  }
}

}  // namespace warpsmith::device
