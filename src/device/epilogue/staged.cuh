// Results through shared memory: fragments in with stmatrix, rows out with 16-byte stores.
#pragma once

#include "device/epilogue/direct.cuh"
#include "device/ptx/stmatrix.cuh"

namespace warpsmith::device {

// A warp writes its 16 rows of 8 kBlocks columns; `address(row, piece)` places 16-byte piece `piece` of row 0..15, or
// with kSwap of the transpose: 8 kBlocks rows of two pieces.
template <Element kElement, bool kSwap, class Sum, int kCount, class Address>
__device__ __forceinline__ void stage_fragment(const Sum (&d)[kCount], Address address) {
  constexpr int kBlocks = kCount / kSumsPerBlock<Sum>;
  const int lane = threadIdx.x % 32;
  const auto target = [&](int j) {
    return kSwap ? address(8 * j + lane / 16 * 8 + lane % 8, lane / 8 % 2) : address(lane % 16, j + lane / 16);
  };
#pragma unroll
  for (int j = 0; j + 1 < kBlocks; j += 2) {
    store_matrix_x4<kSwap>(target(j), sum_word<kElement>(d, j, 0), sum_word<kElement>(d, j, 1),
                           sum_word<kElement>(d, j + 1, 0), sum_word<kElement>(d, j + 1, 1));
  }
  if constexpr (kBlocks % 2 == 1) {
    constexpr int j = kBlocks - 1;
    store_matrix_x2<kSwap>(target(j), sum_word<kElement>(d, j, 0), sum_word<kElement>(d, j, 1));
  }
}

// Eight elements of a row of C, as far as they lie inside it.
template <bool kScaled>
__device__ __forceinline__ void store_eight(const Output<kScaled>& out, int row, int column, int m, int n, Vector4 v) {
  if (row >= m || column >= n) return;
  u16* line = out.row(row);
  if (out.whole(n, 8)) {
    *reinterpret_cast<Vector4*>(line + column) = v;
  } else {
    const bool pairs = out.whole(n, 2);
    store_pair(line, column, n, pairs, v.x);
    store_pair(line, column + 2, n, pairs, v.y);
    store_pair(line, column + 4, n, pairs, v.z);
    store_pair(line, column + 6, n, pairs, v.w);
  }
}

// Scales the sums of eight elements of a row of C.
template <Element kElement, bool kScaled>
__device__ __forceinline__ void scale_eight(const Output<kScaled>& out, int row, int column, int m, int n,
                                            float (&sum)[8]) {
  if constexpr (kScaled) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] *= out.alpha;
    if (out.beta == 0 || row >= m || column >= n) return;
    const u16* line = out.row(row);
    u32 words[4];
    if (out.whole(n, 8)) {
      load_global<16, LoadHint::keep, 0>(line + column, true, 0, words);
    } else {
      const bool pairs = out.whole(n, 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = load_pair(line, true, column + 2 * i, n, pairs);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const FloatPair old = unpack<kElement>(words[i]);
      sum[2 * i] += out.beta * old.x;
      sum[2 * i + 1] += out.beta * old.y;
    }
  }
}

// Rows of kColumns elements in shared memory, padded to an odd number of 16-byte pieces: eight rows hit eight banks.
template <int kRows, int kColumns>
struct StagedRows {
  static constexpr int kPitch = 16 * (kColumns / 8 | 1);
  static constexpr int kBytes = kRows * kPitch;

  static __device__ __forceinline__ u32 address(u32 base, int row, int block) {
    return base + row * kPitch + block * 16;
  }

  // All kThreads threads copy the rows out to C at (row, column).
  template <int kThreads, bool kScaled>
  static __device__ __forceinline__ void store(u32 base, int thread, const Output<kScaled>& out, int row, int column,
                                               int m, int n) {
    constexpr int kPieces = kColumns / 8;
#pragma unroll 4
    for (int i = thread; i < kRows * kPieces; i += kThreads) {
      const int r = i / kPieces, block = i % kPieces;
      store_eight(out, row + r, column + 8 * block, m, n, load_shared(address(base, r, block)));
    }
  }
};

}  // namespace warpsmith::device
