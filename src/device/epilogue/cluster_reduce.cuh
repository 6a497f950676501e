// Split-K inside a cluster: every block pushes the FP32 partial sums of its tile to the blocks that finish them, which
// add them up in rank order (so results repeat bit for bit). Nobody waits for a block that has nothing for it: the
// copies count themselves at an mbarrier of their receiver.
#pragma once

#include "device/epilogue/direct.cuh"
#include "device/epilogue/scale.cuh"
#include "device/mma/sums.cuh"
#include "device/ptx/barrier.cuh"
#include "device/ptx/store_async.cuh"

namespace warpsmith::device {

// A kRows x kColumns tile that kSplit blocks hold partial sums of, in units of kWide groups of 8 columns by 16 rows:
// a warp's fragment, 16 bytes of each lane for each group. Unit u is finished by the block whose rank along K is
// u % kSplit; there, what block s sends lies in part s.
template <int kRows, int kColumns, int kSplit>
struct PushedTile {
  static constexpr int kStrips = kRows / 16;
  static constexpr int kGroups = kColumns / 8;
  // As wide as leaves a unit for every block: wide units leave in wide stores.
  static constexpr int kWide = kGroups % 4 == 0 && kStrips * (kGroups / 4) >= kSplit   ? 4
                               : kGroups % 2 == 0 && kStrips * (kGroups / 2) >= kSplit ? 2
                                                                                       : 1;
  static constexpr int kStripUnits = kGroups / kWide;
  static constexpr int kUnits = kStrips * kStripUnits;
  static constexpr int kGroupBytes = 32 * 16;
  static constexpr int kUnitBytes = kWide * kGroupBytes;
  static constexpr int kPartBytes = ceil_div(kUnits, kSplit) * kUnitBytes;
  static constexpr int kBytes = kSplit * kPartBytes;

  static __device__ __forceinline__ int units_of(int rank) { return (kUnits - rank + kSplit - 1) / kSplit; }
  // What the block of this rank receives, its own part included.
  static __device__ __forceinline__ u32 bytes_of(int rank) {
    return static_cast<u32>(units_of(rank) * kSplit * kUnitBytes);
  }

  // A warp sends its 16 rows, strip number `strip`. Ranks in the cluster: first_rank + rank along K * stride.
  template <class Sum, int kCount>
  static __device__ __forceinline__ void push(u32 buffer, u32 barrier, int strip, int rank_k, int first_rank,
                                              int stride, const Sum (&d)[kCount]) {
    static_assert(kCount == kGroups * kSumsPerBlock<Sum>);
    const u32 part = buffer + rank_k * kPartBytes + threadIdx.x % 32 * 16;
#pragma unroll
    for (int i = 0; i < kStripUnits; ++i) {
      const int unit = strip * kStripUnits + i;
      const u32 receiver = first_rank + unit % kSplit * stride;
      const u32 target = map_to_rank(part + unit / kSplit * kUnitBytes, receiver);
      const u32 counter = map_to_rank(barrier, receiver);
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const FloatPair upper = sum_pair(d, i * kWide + j, 0), lower = sum_pair(d, i * kWide + j, 1);
        store_async(target + j * kGroupBytes, counter, upper.x, upper.y, lower.x, lower.y);
      }
    }
  }

  // Warp `warp` of `warps` adds up and writes its share of this block's units, once all of them are there. (row,
  // column): the tile's first element in the m x n product.
  template <Element kElement, bool kSwap, bool kScaled>
  static __device__ __forceinline__ void finish(u32 buffer, int warp, int warps, int rank_k, const Output<kScaled>& out,
                                                int row, int column, int m, int n) {
    for (int i = warp; i < units_of(rank_k); i += warps) {
      const int unit = i * kSplit + rank_k;
      const u32 address = buffer + i * kUnitBytes + threadIdx.x % 32 * 16;
      float sum[1][4 * kWide] = {};
#pragma unroll
      for (int source = 0; source < kSplit; ++source) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          const Vector4 v = load_shared(address + source * kPartBytes + j * kGroupBytes);
          sum[0][4 * j] += __uint_as_float(v.x);
          sum[0][4 * j + 1] += __uint_as_float(v.y);
          sum[0][4 * j + 2] += __uint_as_float(v.z);
          sum[0][4 * j + 3] += __uint_as_float(v.w);
        }
      }
      const int top = row + unit / kStripUnits * 16, first = column + unit % kStripUnits * (8 * kWide);
      if constexpr (kScaled) scale_sums<kElement, kSwap>(out, top, first, m, n, sum[0]);
      store_fragment<kElement, kSwap>(out, top, first, m, n, sum[0]);
    }
  }
};

}  // namespace warpsmith::device
