// A two-dimensional tile in XOR-swizzled shared memory, filled by cp.async with zeros outside the matrix and read by
// ldmatrix without bank conflicts.
#pragma once

#include "device/ptx/convert.cuh"
#include "device/ptx/cp_async.cuh"

namespace warpsmith::device {

// kRows x kColumns elements as the operand stores them. kGranule: bytes that every row's alignment allows to copy at
// once, 16, 8, 4 or 2; a granule of 2 is copied through registers. kFetch: as of cp_async().
template <int kTileRows, int kTileColumns, int kGranule, int kFetch>
struct SharedTile {
  static constexpr int kRows = kTileRows;
  static constexpr int kPieces = kTileColumns / 8;  // of 16 bytes, in a row
  static constexpr int kBytes = kRows * kPieces * 16;
  static_assert(kPieces % 4 == 0, "the swizzle exchanges pieces within 64 or 128 bytes");

  // Eight consecutive rows of one column of pieces fall into different groups of four banks.
  static __device__ __forceinline__ u32 address(u32 base, int row, int piece) {
    const int swizzled = kPieces % 8 == 0 ? piece ^ row % 8 : piece ^ row / 2 % 4;
    return base + (row * kPieces + swizzled) * 16;
  }

  // Eight elements, of which the first `left` exist; nothing unless `wanted`.
  static __device__ __forceinline__ void copy_piece(u32 target, const u16* source, int left, bool wanted) {
    if constexpr (kGranule == 2) {
      if (!wanted) return;
      u32 e[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) e[i] = i < left ? source[i] : 0;
      store_shared(target, {e[0] | e[1] << 16, e[2] | e[3] << 16, e[4] | e[5] << 16, e[6] | e[7] << 16});
    } else {
      constexpr int kElements = kGranule / 2;
#pragma unroll
      for (int i = 0; i < 8; i += kElements) {
        cp_async<kGranule, kFetch>(target + 2 * i, source + i, 2 * min(max(left - i, 0), kElements), wanted);
      }
    }
  }
};

// A thread's share of the copies of one operand's tiles, stage after stage along K. Threads side by side copy pieces
// side by side: lines of kWide pieces, the whole row where their number is a power of two, else a group of them.
template <class Tile, bool kKMajor, int kDepth, int kThreads>
class TileCopy {
 public:
  // The tile at (row, column) of a rows x columns matrix with `ld` elements from row to row.
  __device__ __forceinline__ TileCopy(const u16* matrix, int ld, int rows, int columns, int row, int column)
      : ld_(ld), line_(threadIdx.x / kWide), piece_(threadIdx.x % kWide) {
    const int own = kWalks ? line_ : 0;
    source_ = matrix + static_cast<long long>(row + own) * ld + column + 8 * piece_;
    rows_left_ = rows - row - own;
    columns_left_ = columns - column - 8 * piece_;
  }

  // Starts part kPart of kParts of a stage's copies into the slot at `slot`, if `wanted`. What lies outside the matrix
  // becomes zero.
  template <int kPart, int kParts>
  __device__ __forceinline__ void start(u32 slot, bool wanted) {
#pragma unroll
    for (int round = kPart * kRounds / kParts; round < (kPart + 1) * kRounds / kParts; ++round) {
      if constexpr (kWalks) {
        walk(slot, round, wanted);
      } else {
        jump(slot, round, wanted);
      }
    }
  }

  // Moves on to the next stage, after all parts of this one.
  __device__ __forceinline__ void advance() {
    if constexpr (kWalks) source_ -= 8 * kWide * kGroups;
    if constexpr (kKMajor) {
      source_ += kDepth;
      columns_left_ -= kDepth;
    } else {
      source_ += static_cast<long long>(kDepth) * ld_;
      rows_left_ -= kDepth;
    }
  }

 private:
  static constexpr int kWide = Tile::kPieces & -Tile::kPieces;
  static constexpr int kGroups = Tile::kPieces / kWide;  // lines side by side in a row
  static constexpr int kItems = Tile::kRows * kGroups;
  static constexpr int kLines = kThreads / kWide;  // copied at once
  static constexpr int kRounds = ceil_div(kItems, kLines);
  static constexpr bool kEven = kItems % kLines == 0;
  // Whole rounds make a group, so that a thread can walk from line to line and from group to group.
  static constexpr bool kWalks = kGroups == 1 || Tile::kRows % kLines == 0;
  static constexpr int kPerGroup = kRounds / kGroups;
  static_assert(kThreads % kWide == 0);

  // The source moves on from copy to copy: products of lines and distances would take a register pair each.
  __device__ __forceinline__ void walk(u32 slot, int round, bool wanted) {
    const int below = round % kPerGroup * kLines, skip = round / kPerGroup * kWide;  // lines, pieces
    const int inside = below < rows_left_ ? min(max(columns_left_ - 8 * skip, 0), 8) : 0;
    Tile::copy_piece(Tile::address(slot, line_ + below, piece_ + skip), source_, inside,
                     wanted && (kEven || line_ + below < Tile::kRows));
    source_ += static_cast<long long>(kLines) * ld_;
    if (round % kPerGroup == kPerGroup - 1) source_ += 8 * kWide - static_cast<long long>(kPerGroup * kLines) * ld_;
  }
  __device__ __forceinline__ void jump(u32 slot, int round, bool wanted) const {
    const int line = line_ + round * kLines;
    const int row = line % Tile::kRows, skip = line / Tile::kRows * kWide;
    const int inside = row < rows_left_ ? min(max(columns_left_ - 8 * skip, 0), 8) : 0;
    Tile::copy_piece(Tile::address(slot, row, piece_ + skip), source_ + static_cast<long long>(row) * ld_ + 8 * skip,
                     inside, wanted && (kEven || line < kItems));
  }

  const u16* source_;  // this thread's piece: of the line to copy next, or of the tile's first row
  int ld_, line_, piece_;
  int rows_left_, columns_left_;  // of the matrix, from this thread's first row and column on
};

}  // namespace warpsmith::device
