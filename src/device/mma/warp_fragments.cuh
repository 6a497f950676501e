// mma.m16n8k16 operand fragments of a warp, from tiles as stored: a transposing ldmatrix serves the MN-major ones.
#pragma once

#include "device/copy/shared_tile.cuh"
#include "device/ptx/ldmatrix.cuh"

namespace warpsmith::device {

constexpr bool is_power_of_two(int value) { return (value & (value - 1)) == 0; }

// A warp's fragments of one operand: blocks of 16 rows of A (columns of B), of which it has kBlocks, by 16 of k.
//   A  matrices in order (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15)
//   B  words 0, 1 for the first eight columns, 2, 3 for the others
template <class Tile, bool kKMajor, bool kIsA, int kBlocks>
class WarpFragments {
 public:
  // The warp's first row or column of the tile, and its first k.
  __device__ __forceinline__ WarpFragments(int first, int depth)
      : first_(first), depth_(depth), lane_(Tile::address(0, line(first, depth), piece(first, depth))) {}

  // Block `block` and the step'th 16 of k, of the tile at `tile`.
  __device__ __forceinline__ void load(u32 tile, int block, int step, u32 (&r)[4]) const {
    load_matrix_x4<!kKMajor>(address(tile, block, step), r);
  }
  // Its first eight rows or columns alone.
  __device__ __forceinline__ void load_half(u32 tile, int block, int step, u32 (&r)[4]) const {
    load_matrix_x2<!kKMajor>(address(tile, block, step), r[0], r[1]);
  }

 private:
  // The swizzle exchanges pieces by XOR. Where blocks (or steps) side by side in a row of the tile are a power of two,
  // and so are rows, moving from one to another is an XOR too, and one register holds the lane's part of all addresses.
  static constexpr bool kSeparable = is_power_of_two(Tile::kPieces) && (kKMajor || is_power_of_two(kBlocks));
  static constexpr int kPitch = 16 * Tile::kPieces;

  __device__ __forceinline__ u32 address(u32 tile, int block, int step) const {
    if constexpr (kSeparable) {
      return ((tile + lane_) ^ (kKMajor ? step : block) * 32) + (kKMajor ? block : step) * 16 * kPitch;
    } else {
      const int first = first_ + 16 * block, depth = depth_ + 16 * step;
      return Tile::address(tile, line(first, depth), piece(first, depth));
    }
  }
  // Row of the tile as stored, and piece in it, that this lane gives the address of.
  static __device__ __forceinline__ int line(int first, int depth) {
    const int lane = threadIdx.x % 32;
    return (kKMajor ? first : depth) + (kKMajor == kIsA ? lane % 16 : lane / 16 * 8 + lane % 8);
  }
  static __device__ __forceinline__ int piece(int first, int depth) {
    const int lane = threadIdx.x % 32;
    return (kKMajor ? depth : first) / 8 + (kKMajor == kIsA ? lane / 16 : lane / 8 % 2);
  }

  int first_, depth_;
  u32 lane_;
};

}  // namespace warpsmith::device
