// Results through shared memory: fragments in with stmatrix, rows out with 16-byte stores.
#pragma once

#include "device/epilogue/direct.cuh"
#include "device/ptx/stmatrix.cuh"

namespace warpsmith::device {

// A warp writes its 16 rows of 8 kBlocks columns; `address(row, piece)` places 16-byte piece `piece` of row 0..15, or
// with kSwap of the transpose: 8 kBlocks rows of two pieces.
template <Element kElement, bool kSwap, int kCount, class Address>
__device__ __forceinline__ void stage_fragment(const float (&d)[kCount], Address address) {
  constexpr int kBlocks = kCount / 4;
  const int lane = threadIdx.x % 32;
  const auto target = [&](int j) {
    return kSwap ? address(8 * j + lane / 16 * 8 + lane % 8, lane / 8 % 2) : address(lane % 16, j + lane / 16);
  };
#pragma unroll
  for (int j = 0; j + 1 < kBlocks; j += 2) {
    store_matrix_x4<kSwap>(target(j), pack<kElement>(d[4 * j], d[4 * j + 1]),
                           pack<kElement>(d[4 * j + 2], d[4 * j + 3]), pack<kElement>(d[4 * j + 4], d[4 * j + 5]),
                           pack<kElement>(d[4 * j + 6], d[4 * j + 7]));
  }
  if constexpr (kBlocks % 2 == 1) {
    constexpr int j = kBlocks - 1;
    store_matrix_x2<kSwap>(target(j), pack<kElement>(d[4 * j], d[4 * j + 1]),
                           pack<kElement>(d[4 * j + 2], d[4 * j + 3]));
  }
}

// Eight elements of a row of C, as far as they lie inside it.
__device__ __forceinline__ void store_eight(u16* c, int row, int column, int m, int n, Vector4 v) {
  if (row >= m || column >= n) return;
  u16* line = c + static_cast<long long>(row) * n;
  if (n % 8 == 0) {
    *reinterpret_cast<Vector4*>(line + column) = v;
  } else {
    store_pair(line, column, n, v.x);
    store_pair(line, column + 2, n, v.y);
    store_pair(line, column + 4, n, v.z);
    store_pair(line, column + 6, n, v.w);
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
  template <int kThreads>
  static __device__ __forceinline__ void store(u32 base, int thread, u16* c, int row, int column, int m, int n) {
    constexpr int kPieces = kColumns / 8;
#pragma unroll 4
    for (int i = thread; i < kRows * kPieces; i += kThreads) {
      const int r = i / kPieces, block = i % kPieces;
      store_eight(c, row + r, column + 8 * block, m, n, load_shared(address(base, r, block)));
    }
  }
};

}  // namespace warpsmith::device
