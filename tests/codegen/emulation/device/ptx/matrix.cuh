// Emulated mma.m16n8k16: lanes show one another their fragments, then each computes its own results.
#pragma once

#include "device/ptx/convert.cuh"

namespace warpsmith::device {

template <Element kElement>
void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  emulation::Warp& warp = emulation::warp();
  const int lane = threadIdx.x % 32;
  u32(&shown)[8] = warp.exchanged[lane];
  for (int i = 0; i < 4; ++i) shown[i] = a[i];
  shown[4] = b0;
  shown[5] = b1;
  __syncwarp();
  const auto element = [&](int owner, int word, int k) {
    return to_float<kElement>(static_cast<u16>(warp.exchanged[owner][word] >> (16 * (k % 2))));
  };
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4 + 8 * (e / 2), column = 2 * (lane % 4) + e % 2;
    for (int k = 0; k < 16; ++k) {
      const int pair = k % 8 / 2;
      d[e] += element(row % 8 * 4 + pair, row / 8 + 2 * (k / 8), k) * element(column * 4 + pair, 4 + k / 8, k);
    }
  }
  __syncwarp();
}

// Rounded once an instruction; in what steps the hardware sums is not told.
template <Element kElement>
void mma_16x8x16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
  const FloatPair upper = unpack<kElement>(d[0]), lower = unpack<kElement>(d[1]);
  float sums[4] = {upper.x, upper.y, lower.x, lower.y};
  mma_16x8x16<kElement>(sums, a, b0, b1);
  d[0] = pack<kElement>(sums[0], sums[1]);
  d[1] = pack<kElement>(sums[2], sums[3]);
}

}  // namespace warpsmith::device
