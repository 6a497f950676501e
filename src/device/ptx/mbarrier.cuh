// mbarrier: asynchronous barriers in shared memory (PTX ISA, "Parallel Synchronization: mbarrier").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the cluster and to the copy engine; a thread or cluster barrier must follow.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Where `wanted`, arrives at the barrier at the same offset in the shared memory of block `rank` of the cluster.
// Releases at block scope only, which is cheap: it publishes no ordinary writes to the other block, just that a slot
// has been read. A condition around it would be a branch, after which the compiler takes nothing in the loop for
// uniform.
__device__ __forceinline__ void mbarrier_arrive_remote(u32 barrier, u32 rank, bool wanted) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      ".reg .pred wanted;\n"
      "setp.ne.u32 wanted, %2, 0;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "@wanted mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(rank), "r"(static_cast<u32>(wanted))
      : "memory");
}

// One arrival that also makes the phase wait for `bytes` of asynchronous copies.
__device__ __forceinline__ void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Blocks until the phase of the given parity has completed. kScope: whose writes are seen then.
enum class WaitScope { block, cluster };
template <WaitScope kScope = WaitScope::block>
__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
  if constexpr (kScope == WaitScope::block) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "wait:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra wait;\n"
        "finished:\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "wait:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra wait;\n"
        "finished:\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
  }
}

}  // namespace warpsmith::device
