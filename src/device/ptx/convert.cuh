// FP32 to 16-bit elements, round to nearest even, and back (PTX ISA, "cvt"), and shared-memory vector accesses.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Two elements in one word, `low` at the lower address.
template <Element kElement>
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 word;
  if constexpr (kElement == Element::f16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}

struct FloatPair {
  float x, y;
};

template <Element kElement>
__device__ __forceinline__ FloatPair unpack(u32 word) {
  FloatPair v;
  if constexpr (kElement == Element::f16) {
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
        : "=f"(v.x), "=f"(v.y)
        : "r"(word));
  } else {
    v = {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
  return v;
}

__device__ __forceinline__ Vector4 load_shared(u32 address) {
  Vector4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_shared(u32 address, Vector4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

__device__ __forceinline__ void store_shared(u32 address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}

}  // namespace warpsmith::device
