// The transposition of an 8x8 matrix in registers and the mma instruction (PTX ISA, "movmatrix", "mma.m16n8k16").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// An 8x8 matrix of which lane i holds row i / 4, columns 2 (i % 4) + {0, 1}: its transpose, held the same way.
__device__ __forceinline__ u32 transpose_matrix(u32 word) {
  u32 transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
  return transposed;
}

// Keeps what follows from `value` from being computed earlier than here, among the instructions above and below.
__device__ __forceinline__ void compute_here(int& value) { asm volatile("" : "+r"(value)); }

// d (16x8, FP32) += a (16x16, row-major fragments) * b (16x8, column-major fragments).
template <Element kElement>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (kElement == Element::f16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// The same with FP16 sums, two in a word.
template <Element kElement>
__device__ __forceinline__ void mma_16x8x16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
  static_assert(kElement == Element::f16);
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace warpsmith::device
