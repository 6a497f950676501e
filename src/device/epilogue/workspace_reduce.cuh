// Tiles whose K range several blocks share: each leaves its FP32 partial sums in a workspace, then all of them add up
// shares of the tile, in order of K (so results repeat bit for bit). The data are their own flags: the workspace is
// zero to begin with, a partial sum never is, and whoever has read one clears it.
#pragma once

#include "device/epilogue/direct.cuh"
#include "device/ptx/global.cuh"

namespace warpsmith::device {

// Where the contributions to one tile lie: the first at `head`, number i > 0 at `rest` + i * `stride` bytes.
struct Contributions {
  const unsigned char* head;
  const unsigned char* rest;
  long long stride;
  int count;

  __device__ __forceinline__ const unsigned char* at(int i) const { return i == 0 ? head : rest + i * stride; }
};

// A kRows x kColumns tile in fragment order: strips of 16 rows, groups of 8 columns, 16 bytes of each lane.
template <int kRows, int kColumns>
struct WorkspaceTile {
  static constexpr int kGroups = kColumns / 8;
  static constexpr int kStrips = kRows / 16;
  static constexpr int kBytes = kRows * kColumns * 4;
  static constexpr int kPieceBytes = 32 * 16;
  static constexpr int kLoadsInFlight = 16;  // of 16 bytes, by a lane

  static __device__ __forceinline__ int offset(int strip, int group) {
    return (strip * kGroups + group) * kPieceBytes + threadIdx.x % 32 * 16;
  }

  // A warp leaves one strip, whose first element is (row, column) of an m x n result; parts outside are left out.
  template <class Sum, int kCount>
  static __device__ __forceinline__ void put(unsigned char* tile, int strip, const Sum (&d)[kCount], int row,
                                             int column, int m, int n) {
    if (row >= m) return;
#pragma unroll
    for (int j = 0; j < kCount / kSumsPerBlock<Sum>; ++j) {
      if (column + 8 * j >= n) break;
      const FloatPair upper = sum_pair(d, j, 0), lower = sum_pair(d, j, 1);
      store_relaxed(tile + offset(strip, j),
                    {nonzero_bits(upper.x), nonzero_bits(upper.y), nonzero_bits(lower.x), nonzero_bits(lower.y)});
    }
  }

  // Sums the contributions to kWide groups of one strip, of which the first `left` exist, waiting for those that are
  // not there yet, and clears them.
  template <int kWide>
  static __device__ __forceinline__ void collect(const Contributions& from, int strip, int group, int left,
                                                 float (&sum)[4 * kWide]) {
    constexpr int kBatch = kLoadsInFlight / kWide;  // contributions whose loads are in flight together
    const int at = offset(strip, group);
#pragma unroll
    for (int i = 0; i < 4 * kWide; ++i) sum[i] = 0;
    for (int first = 0; first < from.count; first += kBatch) {
      Vector4 v[kBatch][kWide];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          v[i][j] = {1, 1, 1, 1};  // as good as zero, and not waited for
          if (first + i < from.count && j < left) v[i][j] = load_relaxed(from.at(first + i) + at + j * kPieceBytes);
        }
      }
      // What has come is not asked for again: the others' sums are still on their way through the same cache.
      bool ready;
      do {
        ready = true;
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
#pragma unroll
          for (int j = 0; j < kWide; ++j) {
            if (v[i][j].x != 0 && v[i][j].y != 0 && v[i][j].z != 0 && v[i][j].w != 0) continue;
            v[i][j] = load_relaxed(from.at(first + i) + at + j * kPieceBytes);
            ready = false;
          }
        }
      } while (!ready);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          if (first + i >= from.count || j >= left) continue;
          sum[4 * j] += __uint_as_float(v[i][j].x);
          sum[4 * j + 1] += __uint_as_float(v[i][j].y);
          sum[4 * j + 2] += __uint_as_float(v[i][j].z);
          sum[4 * j + 3] += __uint_as_float(v[i][j].w);
          store_relaxed(const_cast<unsigned char*>(from.at(first + i)) + at + j * kPieceBytes, {0, 0, 0, 0});
        }
      }
    }
  }

  // Warp `warp` of the `warps` that share the tile sums and writes its part. (row, column): the tile's first element.
  template <Element kElement, bool kSwap, int kWide, bool kScaled>
  static __device__ __forceinline__ void reduce_shares(const Contributions& from, int warp, int warps,
                                                       const Output<kScaled>& out, int row, int column, int m, int n) {
    for (int task = warp; task < kStrips * (kGroups / kWide); task += warps) {
      const int strip = task / (kGroups / kWide), group = task % (kGroups / kWide) * kWide;
      const int top = row + 16 * strip, first = column + 8 * group;
      if (top >= m || first >= n) continue;
      float sum[4 * kWide];
      collect<kWide>(from, strip, group, ceil_div(n - first, 8), sum);
      __syncwarp();
      scale_sums<kElement, kSwap>(out, top, first, m, n, sum);
      store_fragment<kElement, kSwap>(out, top, first, m, n, sum);
    }
  }

  // As wide as leaves the loads of all contributions to a share in flight together.
  template <Element kElement, bool kSwap, bool kScaled>
  static __device__ __forceinline__ void reduce(const Contributions& from, int warp, int warps,
                                                const Output<kScaled>& out, int row, int column, int m, int n) {
    constexpr int kMost = kGroups % 4 == 0 ? 4 : kGroups % 2 == 0 ? 2 : 1;
    if constexpr (kMost == 4) {
      if (from.count <= kLoadsInFlight / 4) {
        reduce_shares<kElement, kSwap, 4>(from, warp, warps, out, row, column, m, n);
        return;
      }
    }
    if constexpr (kMost >= 2) {
      if (from.count <= kLoadsInFlight / 2) {
        reduce_shares<kElement, kSwap, 2>(from, warp, warps, out, row, column, m, n);
        return;
      }
    }
    reduce_shares<kElement, kSwap, 1>(from, warp, warps, out, row, column, m, n);
  }
};

}  // namespace warpsmith::device
