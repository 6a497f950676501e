// Asynchronous global-to-shared copies (PTX ISA, "cp.async").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Copies `valid` of kBytes (4, 8 or 16) bytes and zero-fills the rest. Both addresses are aligned to kBytes.
template <int kBytes>
__device__ __forceinline__ void cp_async(u32 target, const void* source, int valid) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(source), "n"(kBytes), "r"(valid)
                 : "memory");
  }
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kPending of the thread's latest groups are in flight.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace warpsmith::device
