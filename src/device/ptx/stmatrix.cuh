// Warp-wide 8x8 matrix stores (PTX ISA, "stmatrix"; sm_90).
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Lane i gives the address of row i % 8 of matrix i / 8 (x2: lanes 0 to 15 do). kTranspose: each matrix is stored
// transposed.
template <bool kTranspose>
__device__ __forceinline__ void store_matrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  if constexpr (kTranspose) {
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, "
        "%2, %3, %4};" ::"r"(address),
        "r"(r0), "r"(r1), "r"(r2), "r"(r3)
        : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
                 "r"(r2), "r"(r3)
                 : "memory");
  }
}
template <bool kTranspose>
__device__ __forceinline__ void store_matrix_x2(u32 address, u32 r0, u32 r1) {
  if constexpr (kTranspose) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r0), "r"(r1)
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r0), "r"(r1)
                 : "memory");
  }
}

}  // namespace warpsmith::device
