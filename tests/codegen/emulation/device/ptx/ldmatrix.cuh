// Emulated ldmatrix: lanes show one another their rows' addresses, then each takes its elements.
#pragma once

#include <cstring>

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Matrix `which` of those whose rows' addresses the lanes show in word 0.
template <bool kTranspose>
u32 matrix_word(int which) {
  const int lane = threadIdx.x % 32;
  u32 word = 0;
  for (int half = 0; half < 2; ++half) {
    const int row = kTranspose ? 2 * (lane % 4) + half : lane / 4;
    const int column = kTranspose ? lane / 4 : 2 * (lane % 4) + half;
    const unsigned char* start =
        emulation::shared_bytes(*emulation::current().block, emulation::warp().exchanged[8 * which + row][0], 16);
    u16 element;
    std::memcpy(&element, start + 2 * column, 2);
    word |= static_cast<u32>(element) << (16 * half);
  }
  return word;
}

template <bool kTranspose>
void load_matrix_x4(u32 address, u32 (&r)[4]) {
  emulation::warp().exchanged[threadIdx.x % 32][0] = address;
  __syncwarp();
  for (int i = 0; i < 4; ++i) r[i] = matrix_word<kTranspose>(i);
  __syncwarp();
}

template <bool kTranspose>
void load_matrix_x2(u32 address, u32& r0, u32& r1) {
  emulation::warp().exchanged[threadIdx.x % 32][0] = address;
  __syncwarp();
  r0 = matrix_word<kTranspose>(0);
  r1 = matrix_word<kTranspose>(1);
  __syncwarp();
}

}  // namespace warpsmith::device
