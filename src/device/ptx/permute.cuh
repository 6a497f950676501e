// Bytes of two words put together as one (PTX ISA, "prmt").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Nibble i of the selector names the source of byte i: 0 to 3 are the bytes of `first`, 4 to 7 those of `second`.
template <u32 kSelector>
__device__ __forceinline__ u32 permute_bytes(u32 first, u32 second) {
  u32 word;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(first), "r"(second), "n"(kSelector));
  return word;
}

}  // namespace warpsmith::device
