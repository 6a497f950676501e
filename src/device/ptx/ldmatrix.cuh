// Warp-wide loads of 8x8 matrices of 16-bit elements from shared memory (PTX ISA, "ldmatrix").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Lane i gives the address of row i % 8 of matrix i / 8. kTranspose: each matrix arrives transposed.
template <bool kTranspose>
__device__ __forceinline__ void load_matrix_x4(u32 address, u32 (&r)[4]) {
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
}

// Two matrices: lanes 0 to 15 give addresses.
template <bool kTranspose>
__device__ __forceinline__ void load_matrix_x2(u32 address, u32& r0, u32& r1) {
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(address)
                 : "memory");
  }
}

}  // namespace warpsmith::device
