// Asynchronous global-to-shared copies (PTX ISA, "cp.async").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

#define WARPSMITH_CP_ASYNC(modifiers)                                              \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n@p cp.async." modifiers   \
               " [%0], [%1], %2, %3;\n}" ::"r"(target),                            \
               "l"(source), "n"(kBytes), "r"(valid), "r"(static_cast<int>(wanted)) \
               : "memory")

// Copies `valid` of kBytes (4, 8 or 16) bytes and zero-fills the rest; nothing unless `wanted`. Both addresses are
// aligned to kBytes; with no valid byte the source is not looked at. kFetch: bytes that the second-level cache fetches
// at least, 0 for its own choice. No branch: the copies of a stage stand among the multiplications of another.
template <int kBytes, int kFetch>
__device__ __forceinline__ void cp_async(u32 target, const void* source, int valid, bool wanted) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  static_assert(kFetch == 0 || kFetch == 128 || kFetch == 256);
  if constexpr (kBytes == 16) {
    if constexpr (kFetch == 0) WARPSMITH_CP_ASYNC("cg.shared.global");
    if constexpr (kFetch == 128) WARPSMITH_CP_ASYNC("cg.shared.global.L2::128B");
    if constexpr (kFetch == 256) WARPSMITH_CP_ASYNC("cg.shared.global.L2::256B");
  } else {
    if constexpr (kFetch == 0) WARPSMITH_CP_ASYNC("ca.shared.global");
    if constexpr (kFetch == 128) WARPSMITH_CP_ASYNC("ca.shared.global.L2::128B");
    if constexpr (kFetch == 256) WARPSMITH_CP_ASYNC("ca.shared.global.L2::256B");
  }
}

#undef WARPSMITH_CP_ASYNC

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kPending of the thread's latest groups are in flight.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace warpsmith::device
