// Results from registers to global memory, without shared memory: rows of C in the fragment layout of mma and wgmma.
#pragma once

#include "device/ptx/convert.cuh"
#include "device/ptx/matrix.cuh"

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

// One pair of elements; n is the row length, which decides the width that alignment allows.
__device__ __forceinline__ void store_pair(u16* row, int column, int n, u32 word) {
  if (n % 2 == 0) {
    if (column < n) *reinterpret_cast<u32*>(row + column) = word;
  } else {
    if (column < n) row[column] = static_cast<u16>(word);
    if (column + 1 < n) row[column + 1] = static_cast<u16>(word >> 16);
  }
}

// One row of a fragment: words[j] holds columns `column` + 8 j + 2 (lane % 4) + {0, 1}. All lanes of a warp call it
// together; `valid` is false for a row outside C. 16-byte stores where n is a multiple of 8.
template <int kBlocks>
__device__ __forceinline__ void store_fragment_row(u16* c, int row, bool valid, int column, int n,
                                                   const u32 (&words)[kBlocks]) {
  u16* line = c + static_cast<long long>(row) * n;
  const int quad = threadIdx.x % 4;
  constexpr int kWide = kBlocks / 4 * 4;
  if (n % 8 == 0) {
#pragma unroll
    for (int j = 0; j < kWide; j += 4) {
      u32 piece[4] = {words[j], words[j + 1], words[j + 2], words[j + 3]};
      transpose_quad(piece);
      const int at = column + 8 * (j + quad);
      if (valid && at < n) *reinterpret_cast<Vector4*>(line + at) = {piece[0], piece[1], piece[2], piece[3]};
    }
  } else if (valid) {
#pragma unroll
    for (int j = 0; j < kWide; ++j) store_pair(line, column + 8 * j + 2 * quad, n, words[j]);
  }
  if (valid) {
#pragma unroll
    for (int j = kWide; j < kBlocks; ++j) store_pair(line, column + 8 * j + 2 * quad, n, words[j]);
  }
}

// A warp's 16 x 8 kBlocks part of an m x n wgmma or mma result, at (row, column): d[4 j + 2 h + i] is row + lane / 4 +
// 8 h. kSwap: C is the transposed result, n x m.
template <Element kElement, bool kSwap = false, int kCount>
__device__ __forceinline__ void store_fragment(u16* c, int row, int column, int m, int n, const float (&d)[kCount]) {
  constexpr int kBlocks = kCount / 4;
  const int lane = threadIdx.x % 32;
  if constexpr (kSwap) {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      const u32 words[2] = {transpose_matrix(pack<kElement>(d[4 * j], d[4 * j + 1])),
                            transpose_matrix(pack<kElement>(d[4 * j + 2], d[4 * j + 3]))};
      int line = column + 8 * j + lane / 4;
      compute_here(line);  // or all rows' addresses are computed ahead, and spilled
      store_fragment_row(c, line, line < n, row, m, words);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 words[kBlocks];
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) words[j] = pack<kElement>(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
      const int line = row + lane / 4 + 8 * half;
      store_fragment_row(c, line, line < m, column, n, words);
    }
  }
}

}  // namespace warpsmith::device
