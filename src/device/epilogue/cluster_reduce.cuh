// Split-K inside a cluster: every block leaves its FP32 partial tile in shared memory, then sums and writes its share
// of the rows, reading the others' through distributed shared memory in rank order (so results repeat bit for bit).
#pragma once

#include "device/epilogue/staged.cuh"
#include "device/ptx/barrier.cuh"

namespace warpsmith::device {

// The part of C that is kRows x kColumns; kSwap: the blocks hold its transpose.
template <int kRows, int kColumns, int kSplit, bool kSwap>
struct PartialTile {
  // Rows 32 bytes apart modulo all banks: the four rows of a half-warp's 8-byte stores do not collide. Transposed, 16
  // bytes: neither do the eight rows, two apart, of a warp's 4-byte stores.
  static constexpr int kPitch = 4 * (round_up(kColumns, 32) + (kSwap ? 4 : 8));
  static constexpr int kBytes = kRows * kPitch;
  static constexpr int kShareRows = kRows / kSplit;
  static_assert(kRows % kSplit == 0);

  // A warp leaves its 16 rows of the product, starting at `row`.
  template <int kCount>
  static __device__ __forceinline__ void put(u32 base, int row, const float (&d)[kCount]) {
    const int lane = threadIdx.x % 32;
    if constexpr (kSwap) {
      const u32 address = base + (row + lane / 4) * 4 + lane % 4 * 2 * kPitch;
#pragma unroll
      for (int j = 0; j < kCount / 4; ++j) {
        store_shared(address + 8 * j * kPitch, d[4 * j]);
        store_shared(address + (8 * j + 1) * kPitch, d[4 * j + 1]);
        store_shared(address + 8 * j * kPitch + 32, d[4 * j + 2]);
        store_shared(address + (8 * j + 1) * kPitch + 32, d[4 * j + 3]);
      }
    } else {
      const u32 address = base + (row + lane / 4) * kPitch + lane % 4 * 8;
#pragma unroll
      for (int j = 0; j < kCount / 4; ++j) {
        store_shared(address + 32 * j, d[4 * j], d[4 * j + 1]);
        store_shared(address + 32 * j + 8 * kPitch, d[4 * j + 2], d[4 * j + 3]);
      }
    }
  }

  // Sums share `share` of the tile whose first element is (row, column) of C. Ranks of the blocks that hold the
  // partials: first_rank + i * rank_stride.
  template <Element kElement, int kThreads>
  static __device__ __forceinline__ void reduce(u32 base, int thread, int share, int first_rank, int rank_stride,
                                                u16* c, int row, int column, int m, int n) {
    constexpr int kPieces = kColumns / 8;
    for (int i = thread; i < kShareRows * kPieces; i += kThreads) {
      const int r = share * kShareRows + i / kPieces, block = i % kPieces;
      float sum[8] = {};
#pragma unroll
      for (int peer = 0; peer < kSplit; ++peer) {
        const u32 address = map_to_rank(base + r * kPitch + block * 32, first_rank + peer * rank_stride);
        float low[4], high[4];
        load_cluster(address, low);
        load_cluster(address + 16, high);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum[e] += low[e];
          sum[4 + e] += high[e];
        }
      }
      store_eight(c, row + r, column + 8 * block, m, n,
                  {pack<kElement>(sum[0], sum[1]), pack<kElement>(sum[2], sum[3]), pack<kElement>(sum[4], sum[5]),
                   pack<kElement>(sum[6], sum[7])});
    }
  }
};

}  // namespace warpsmith::device
