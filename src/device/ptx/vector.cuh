// Vectors of two or four words: FP32 in shared and distributed shared memory, 16-bit elements to global memory.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

template <int kCount>
__device__ __forceinline__ void store_shared_floats(u32 address, const float* v) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                 : "memory");
  } else {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(v[0]), "f"(v[1]) : "memory");
  }
}

// The address is one of the shared-cluster window.
template <int kCount>
__device__ __forceinline__ void store_cluster_floats(u32 address, const float* v) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                 "f"(v[3])
                 : "memory");
  } else {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(v[0]), "f"(v[1]) : "memory");
  }
}

template <int kCount>
__device__ __forceinline__ void load_shared_floats(u32 address, float* v) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "r"(address) : "memory");
  }
}

// kBytes of elements, from words of two; 2 bytes are the low half of the first word.
template <int kBytes>
__device__ __forceinline__ void store_global(void* target, const u32* words) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4 || kBytes == 2);
  if constexpr (kBytes == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(target), "r"(words[0]), "r"(words[1]) : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(target), "r"(words[0]) : "memory");
  } else {
    asm volatile("{\n.reg .b16 h;\ncvt.u16.u32 h, %1;\nst.global.b16 [%0], h;\n}" ::"l"(target), "r"(words[0])
                 : "memory");
  }
}

}  // namespace warpsmith::device
