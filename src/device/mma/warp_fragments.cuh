// mma.m16n8k16 operand fragments of a warp, from tiles as stored: a transposing ldmatrix serves the MN-major ones.
#pragma once

#include "device/copy/shared_tile.cuh"
#include "device/ptx/matrix.cuh"

namespace warpsmith::device {

// Rows `row`..+15 and k `depth`..+15 of A. Matrices in order: (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15,
// 8-15).
template <class Tile, bool kKMajor>
__device__ __forceinline__ void load_fragment_a(u32 base, int row, int depth, u32 (&a)[4]) {
  const int lane = threadIdx.x % 32;
  if constexpr (kKMajor) {
    load_matrix_x4<false>(Tile::address(base, row + lane % 16, depth / 8 + lane / 16), a);
  } else {
    load_matrix_x4<true>(Tile::address(base, depth + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2), a);
  }
}

// Columns `column`..+15 and k `depth`..+15 of B: b[0], b[1] for the first eight columns, b[2], b[3] for the others.
template <class Tile, bool kKMajor>
__device__ __forceinline__ void load_fragment_b(u32 base, int column, int depth, u32 (&b)[4]) {
  const int lane = threadIdx.x % 32;
  if constexpr (kKMajor) {
    load_matrix_x4<false>(Tile::address(base, column + lane / 16 * 8 + lane % 8, depth / 8 + lane / 8 % 2), b);
  } else {
    load_matrix_x4<true>(Tile::address(base, depth + lane % 16, column / 8 + lane / 16), b);
  }
}

}  // namespace warpsmith::device
