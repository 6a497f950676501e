// C = alpha A B + beta C: a warp's sums are scaled in FP32, before their one rounding.
#pragma once

#include "device/epilogue/output.cuh"
#include "device/mma/sums.cuh"
#include "device/ptx/matrix.cuh"

namespace warpsmith::device {

// Scales strips of sums: strip i is that of 16 rows from row + 64 i on, of an m x n product; kSwap: C is the transposed
// product, n x m. All lanes of a warp call it together. No path but one, and column after column: registers are scarce
// as long as they hold sums.
template <Element kElement, bool kSwap, class Sum, int kStrips, int kCount>
__device__ __forceinline__ void scale_strips(const Output<true>& out, int row, int column, int m, int n,
                                             Sum (&d)[kStrips][kCount]) {
  constexpr int kBlocks = kCount / kSumsPerBlock<Sum>;
  const int lane = threadIdx.x % 32;
  const bool reads = out.beta != 0, pairs = out.whole(kSwap ? m : n, 2);
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    // Of the product: a column, or with kSwap, where a row of C is one.
    int across = column + 8 * j + (kSwap ? lane / 4 : 2 * (lane % 4));
    compute_here(across);  // or all columns' addresses are computed ahead, and spilled
#pragma unroll
    for (int i = 0; i < 2 * kStrips; ++i) {
      const int strip = i / 2, half = i % 2;
      const int along = row + 64 * strip + 8 * half + (kSwap ? 2 * (lane % 4) : lane / 4);
      u32 word = kSwap ? load_pair(out.row(across), reads && across < n, along, m, pairs)
                       : load_pair(out.row(along), reads && along < m, across, n, pairs);
      if constexpr (kSwap) word = transpose_matrix(word);
      const FloatPair old = unpack<kElement>(word), sum = sum_pair(d[strip], j, half);
      set_sum_pair(d[strip], j, half, {out.beta * old.x + out.alpha * sum.x, out.beta * old.y + out.alpha * sum.y});
    }
  }
}

// The same for one strip; nothing for a problem without factors.
template <Element kElement, bool kSwap, bool kScaled, class Sum, int kCount>
__device__ __forceinline__ void scale_sums(const Output<kScaled>& out, int row, int column, int m, int n,
                                           Sum (&d)[kCount]) {
  if constexpr (kScaled) {
    scale_strips<kElement, kSwap>(out, row, column, m, n, reinterpret_cast<Sum(&)[1][kCount]>(d));
  }
}

}  // namespace warpsmith::device
