// Global-memory accesses that other blocks see while both run (PTX ISA, "ld.relaxed", "st.relaxed", gpu scope).
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Each of the four words by itself is read or written whole; nothing is promised about their order.
__device__ __forceinline__ Vector4 load_relaxed(const void* address) {
  Vector4 v;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(void* address, Vector4 v) {
  asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

// Zero becomes the smallest positive number, which no sum rounded to 16 bits shows.
__device__ __forceinline__ u32 nonzero_bits(float value) {
  u32 bits;
  // Not a cast that the compiler sees: it would keep the sums as integers, and move them around every wgmma.
  asm("mov.b32 %0, %1;\nmax.u32 %0, %0, 1;" : "=r"(bits) : "f"(value));
  return bits;
}

}  // namespace warpsmith::device
