// Results through shared memory and out by TMA: boxes of the widest swizzle width that divides the columns.
#pragma once

#include "device/epilogue/staged.cuh"
#include "device/ptx/tma.cuh"

namespace warpsmith::device {

// kRows x kColumns elements of C.
template <int kRows, int kColumns>
struct StoreBoxes {
  // A box must not reach into the next tile, which it would overwrite.
  static constexpr int kWidth = kColumns % 64 == 0 ? 64 : kColumns % 32 == 0 ? 32 : kColumns % 16 == 0 ? 16 : 8;
  static constexpr int kPitch = 2 * kWidth;
  static constexpr int kBoxes = kColumns / kWidth;
  static constexpr int kBoxBytes = kRows * kPitch;
  static constexpr int kBytes = kBoxes * kBoxBytes;
  static constexpr u32 kSwizzleMask = kWidth / 8 - 1;
  static_assert(kBoxBytes % (8 * kPitch) == 0, "a box is whole swizzle periods");

  // Where the copy engine expects 16-byte piece `block` of a row: bits 4 and up are exchanged with bits 7 and up.
  static __device__ __forceinline__ u32 address(u32 base, int row, int block) {
    const u32 offset = block / (kWidth / 8) * kBoxBytes + row * kPitch + block % (kWidth / 8) * 16;
    return base + (offset ^ (offset >> 7 & kSwizzleMask) << 4);
  }

  // Issued by one thread, after a fence and a barrier over the writers.
  static __device__ __forceinline__ void store(const TensorMap* map, u32 base, int row, int column) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) tma_store(map, base + box * kBoxBytes, column + box * kWidth, row);
  }
};

}  // namespace warpsmith::device
