// A two-dimensional tile in XOR-swizzled shared memory, filled by cp.async with zeros outside the matrix and read by
// ldmatrix without bank conflicts.
#pragma once

#include "device/ptx/convert.cuh"
#include "device/ptx/cp_async.cuh"

namespace warpsmith::device {

// kRows x kColumns elements as the operand stores them. kGranule: bytes that every row's alignment allows to copy at
// once, 16, 8, 4 or 2; a granule of 2 is copied through registers.
template <int kRows, int kColumns, int kGranule>
struct SharedTile {
  static constexpr int kPieces = kColumns / 8;  // of 16 bytes, in a row
  static constexpr int kBytes = kRows * kPieces * 16;
  static_assert(kPieces % 4 == 0, "the swizzle exchanges pieces within 64 or 128 bytes");

  // Eight consecutive rows of one column of pieces fall into different groups of four banks.
  static __device__ __forceinline__ u32 address(u32 base, int row, int piece) {
    const int swizzled = kPieces % 8 == 0 ? piece ^ row % 8 : piece ^ row / 2 % 4;
    return base + (row * kPieces + swizzled) * 16;
  }

  // kThreads threads copy the tile at (row, column) of a rows x columns matrix. Where the threads cover whole rows,
  // each keeps its column of pieces and walks down.
  template <int kThreads>
  static __device__ __forceinline__ void load(u32 base, const u16* matrix, int rows, int columns, int row, int column) {
    constexpr int kTotal = kRows * kPieces;
    if constexpr (kThreads % kPieces == 0) {
      const int piece = threadIdx.x % kPieces, first = threadIdx.x / kPieces;
      const int left = min(max(columns - (column + 8 * piece), 0), 8);
      const u16* source = matrix + static_cast<long long>(row + first) * columns + column + 8 * piece;
#pragma unroll
      for (int r = 0; r < kRows; r += kThreads / kPieces) {
        if (kTotal % kThreads != 0 && first + r >= kRows) break;
        const int inside = row + first + r < rows ? left : 0;
        load_piece(address(base, first + r, piece), inside > 0 ? source : matrix, inside);
        source += static_cast<long long>(kThreads / kPieces) * columns;
      }
    } else {
#pragma unroll 2
      for (int i = threadIdx.x; i < kTotal; i += kThreads) {
        const int r = i / kPieces, piece = i % kPieces;
        const int inside = row + r < rows ? min(max(columns - (column + 8 * piece), 0), 8) : 0;
        const u16* source = matrix + static_cast<long long>(row + r) * columns + column + 8 * piece;
        load_piece(address(base, r, piece), inside > 0 ? source : matrix, inside);
      }
    }
  }

  // Eight elements, of which the first `left` exist.
  static __device__ __forceinline__ void load_piece(u32 target, const u16* source, int left) {
    if constexpr (kGranule == 2) {
      u32 e[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) e[i] = i < left ? source[i] : 0;
      store_shared(target, {e[0] | e[1] << 16, e[2] | e[3] << 16, e[4] | e[5] << 16, e[6] | e[7] << 16});
    } else {
      constexpr int kElements = kGranule / 2;
#pragma unroll
      for (int i = 0; i < 8; i += kElements) {
        const int valid = min(max(left - i, 0), kElements);
        cp_async<kGranule>(target + 2 * i, valid > 0 ? source + i : source, 2 * valid);
      }
    }
  }
};

}  // namespace warpsmith::device
