// Counting the blocks of a grid that have come to a point (PTX ISA, "atom", "fence").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Adds one and returns what was there. What this thread, and threads that met it at a barrier, wrote before is seen by
// those that find a later count, and by whoever meets them.
__device__ __forceinline__ u32 count_arrival(u32* counter) {
  u32 before;
  asm volatile("fence.acq_rel.gpu;\natom.add.acq_rel.gpu.global.u32 %0, [%1], 1;\nfence.acq_rel.gpu;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

__device__ __forceinline__ void clear_counter(u32* counter) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(counter) : "memory");
}

}  // namespace warpsmith::device
