// Results from registers to global memory, without shared memory: rows of C in the fragment layout of mma and wgmma.
#pragma once

#include "device/epilogue/scale.cuh"

namespace warpsmith::device {

// Transposes a 4 x 4 block of words over four neighbouring lanes: lane q's words[j] becomes lane j's words[q].
__device__ __forceinline__ void transpose_quad(u32 (&words)[4]) {
  const u32 lane = threadIdx.x;
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const bool upper = lane & step;
      const u32 received = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + step], step);
      if (upper) {
        words[i] = received;
      } else {
        words[i + step] = received;
      }
    }
  }
}

// One pair of elements of a row of n; `pairs`: one store may write both.
__device__ __forceinline__ void store_pair(u16* row, int column, int n, bool pairs, u32 word) {
  if (pairs) {
    if (column < n) *reinterpret_cast<u32*>(row + column) = word;
  } else {
    if (column < n) row[column] = static_cast<u16>(word);
    if (column + 1 < n) row[column + 1] = static_cast<u16>(word >> 16);
  }
}

// One row of a fragment: words[j] holds columns `column` + 8 j + 2 (lane % 4) + {0, 1} of n. All lanes of a warp call
// it together; `valid` is false for a row outside C. 16-byte stores where rows are whole units of them.
template <bool kScaled, int kBlocks>
__device__ __forceinline__ void store_fragment_row(const Output<kScaled>& out, int row, bool valid, int column, int n,
                                                   const u32 (&words)[kBlocks]) {
  u16* line = out.row(row);
  const int quad = threadIdx.x % 4;
  const bool pairs = out.whole(n, 2);
  constexpr int kWide = kBlocks / 4 * 4;
  if (out.whole(n, 8)) {
#pragma unroll
    for (int j = 0; j < kWide; j += 4) {
      u32 piece[4] = {words[j], words[j + 1], words[j + 2], words[j + 3]};
      transpose_quad(piece);
      const int at = column + 8 * (j + quad);
      if (valid && at < n) *reinterpret_cast<Vector4*>(line + at) = {piece[0], piece[1], piece[2], piece[3]};
    }
  } else if (valid) {
#pragma unroll
    for (int j = 0; j < kWide; ++j) store_pair(line, column + 8 * j + 2 * quad, n, pairs, words[j]);
  }
  if (valid) {
#pragma unroll
    for (int j = kWide; j < kBlocks; ++j) store_pair(line, column + 8 * j + 2 * quad, n, pairs, words[j]);
  }
}

// A warp's sums, those of the m x n product at (row, column). kSwap: C is the transposed product, n x m.
template <Element kElement, bool kSwap = false, bool kScaled, class Sum, int kCount>
__device__ __forceinline__ void store_fragment(const Output<kScaled>& out, int row, int column, int m, int n,
                                               const Sum (&d)[kCount]) {
  constexpr int kBlocks = kCount / kSumsPerBlock<Sum>;
  const int lane = threadIdx.x % 32;
  if constexpr (kSwap) {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      const u32 words[2] = {transpose_matrix(sum_word<kElement>(d, j, 0)),
                            transpose_matrix(sum_word<kElement>(d, j, 1))};
      int line = column + 8 * j + lane / 4;
      compute_here(line);  // or all rows' addresses are computed ahead, and spilled
      store_fragment_row(out, line, line < n, row, m, words);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 words[kBlocks];
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) words[j] = sum_word<kElement>(d, j, half);
      const int line = row + lane / 4 + 8 * half;
      store_fragment_row(out, line, line < m, column, n, words);
    }
  }
}

// Scales and stores a warp's sums, 32 columns after the other: C is read just before it is written, so that few
// registers are needed beside those of the sums.
template <Element kElement, bool kSwap, int kFirst = 0, class Sum, int kCount>
__device__ __forceinline__ void store_scaled_fragment(const Output<true>& out, int row, int column, int m, int n,
                                                      const Sum (&d)[kCount]) {
  constexpr int kPerBlock = kSumsPerBlock<Sum>, kLeft = kCount / kPerBlock - kFirst, kBlocks = min(kLeft, 4);
  Sum part[kBlocks * kPerBlock];
#pragma unroll
  for (int i = 0; i < kBlocks * kPerBlock; ++i) part[i] = d[kFirst * kPerBlock + i];
  scale_sums<kElement, kSwap>(out, row, column + 8 * kFirst, m, n, part);
  store_fragment<kElement, kSwap>(out, row, column + 8 * kFirst, m, n, part);
  if constexpr (kLeft > kBlocks) {
    store_scaled_fragment<kElement, kSwap, kFirst + kBlocks>(out, row, column, m, n, d);
  }
}

}  // namespace warpsmith::device
