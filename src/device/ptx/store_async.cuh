// Stores to the shared memory of another block of the cluster that count themselves at a barrier there (PTX ISA,
// "st.async").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// address, barrier: shared-cluster addresses in the same block; the barrier receives 16 bytes.
__device__ __forceinline__ void store_async(u32 address, u32 barrier, float x, float y, float z, float w) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(x), "f"(y), "f"(z), "f"(w), "r"(barrier)
      : "memory");
}

}  // namespace warpsmith::device
