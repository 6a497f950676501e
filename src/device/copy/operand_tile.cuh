// How one operand's tile lies in shared memory: written by TMA boxes, read by wgmma through a descriptor.
#pragma once

#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"

namespace warpsmith::device {

// A tile of kRows (of M or N) by kDepth (of K) elements, as boxes whose rows span one swizzle width:
//   K-major   kDepth / 64 boxes of kRows rows by 64 elements of K (32 when kDepth is 32)
//   MN-major  boxes of kDepth rows by kAtom elements of M or N; the last may reach past kRows, unused
// kShares blocks of the cluster load kBoxRows / kShares rows of every box each and multicast them.
template <int kRows, int kDepth, bool kKMajor, int kShares, Evict kEvict>
struct OperandTile {
  // The narrowest of 16, 32, 64 that covers a small tile; for a wide one 64, or 32 where that loads less past the end.
  static constexpr int kMnAtom = kRows <= 16 ? 16 : round_up(kRows, 64) - kRows < 32 ? 64 : 32;
  static constexpr int kAtom = kKMajor ? min(kDepth, 64) : kMnAtom;
  static constexpr int kSwizzleBytes = 2 * kAtom;
  static constexpr int kBoxes = kKMajor ? kDepth / kAtom : ceil_div(kRows, kAtom);
  static constexpr int kBoxRows = kKMajor ? kRows : kDepth;
  static constexpr int kBoxBytes = kBoxRows * kSwizzleBytes;
  static constexpr int kBytes = kBoxes * kBoxBytes;
  static constexpr int kShareRows = kBoxRows / kShares;
  static constexpr int kShareBytes = kShareRows * kSwizzleBytes;
  // Eight rows make one swizzle period; every box and share starts on one.
  static constexpr int kPeriodBytes = 8 * kSwizzleBytes;
  static_assert(kBoxRows % (8 * kShares) == 0, "a share is a multiple of 8 rows");

  // Issued by one thread: this block's share of the tile whose first row is `row` and first depth `depth`.
  static __device__ __forceinline__ void load(u32 target, const TensorMap* map, u32 barrier, int row, int depth,
                                              int share, u16 mask) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int column = kKMajor ? depth + box * kAtom : row + box * kAtom;
      const int line = (kKMajor ? row : depth) + share * kShareRows;
      const u32 address = target + box * kBoxBytes + share * kShareBytes;
      if constexpr (kShares == 1) {
        tma_load<kEvict>(address, map, barrier, column, line);
      } else {
        tma_load_multicast<kEvict>(address, map, barrier, column, line, mask);
      }
    }
  }

  // Descriptor of the tile at `address`. MN-major: leading offset between atoms along M or N, stride between groups of
  // eight k. K-major: stride between groups of eight rows; the leading offset has no meaning under a swizzle.
  static __device__ __forceinline__ u64 descriptor(u32 address) {
    return matrix_descriptor(address, kKMajor ? 16 : kBoxBytes, kPeriodBytes, kSwizzleBytes);
  }

  // What to add to the descriptor to move to step `step` of 16 along K, and to a row that is a multiple of 64.
  static __host__ __device__ constexpr int step_offset(int step) {
    if (!kKMajor) return 2 * kPeriodBytes * step / 16;
    const int steps_per_box = kAtom / 16;
    return (step / steps_per_box * kBoxBytes + step % steps_per_box * 32) / 16;
  }
  static __device__ __forceinline__ int row_offset(int row) {
    return kKMajor ? row * kSwizzleBytes / 16 : row / kAtom * (kBoxBytes / 16);
  }
};

}  // namespace warpsmith::device
