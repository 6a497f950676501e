// Reading the shared memory of another block of the cluster (PTX ISA, "ld.shared::cluster").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// The address is one of the shared-cluster window.
__device__ __forceinline__ Vector4 load_remote(u32 address) {
  Vector4 v;
  asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace warpsmith::device
