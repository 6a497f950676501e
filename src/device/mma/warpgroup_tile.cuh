// One warpgroup's part of a tile product: 64-row blocks of A times the whole of B, one pipeline stage at a time.
#pragma once

#include "device/copy/operand_tile.cuh"
#include "device/mma/sums.cuh"

namespace warpsmith::device {

template <class Sum, int kColumns>
struct WgmmaOf {
  using Type = Wgmma<kColumns>;
};
template <int kColumns>
struct WgmmaOf<u32, kColumns> {
  using Type = WgmmaF16<kColumns>;
};

// Issues the stage's wgmma instructions as one group. a, b:
// descriptors of the stage's tiles, A's moved to this warpgroup's first row. accumulate is 0 for the first stage of a
// tile: the accumulators are overwritten.
template <class TileA, class TileB, Element kElement, bool kAKMajor, bool kBKMajor, int kDepth, int kColumns, class Sum,
          int kRowBlocks, int kCount>
__device__ __forceinline__ void multiply_stage(Sum (&accumulators)[kRowBlocks][kCount], u64 a, u64 b, u32 accumulate) {
  using Instruction = typename WgmmaOf<Sum, kColumns>::Type;
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      const u64 block_a = a + TileA::step_offset(step) + TileA::row_offset(64 * block);
      Instruction::template issue<kElement, !kAKMajor, !kBKMajor>(
          accumulators[block], block_a, b + TileB::step_offset(step), step == 0 ? accumulate : 1);
    }
  }
  wgmma_commit();
}

}  // namespace warpsmith::device
