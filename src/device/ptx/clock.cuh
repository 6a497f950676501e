// The multiprocessor's clock (PTX ISA, "%clock").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Passes at least so much time; the loop itself takes about 60 cycles.
__device__ __forceinline__ void spin_cycles(u32 cycles) {
  const u32 start = static_cast<u32>(clock());
  while (static_cast<u32>(clock()) - start < cycles) {
  }
}

}  // namespace warpsmith::device
