// Tensor memory accelerator: tiled copies through a tensor map (PTX ISA, "cp.async.bulk.tensor").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// The driver's opaque CUtensorMap; passed by value as a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  u64 opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

__device__ __forceinline__ void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// How readily the L2 cache gives up what a load brings in.
enum class Evict { normal, first, last };

template <Evict kEvict>
__device__ __forceinline__ u64 cache_policy() {
  u64 policy = 0;
  if constexpr (kEvict == Evict::first) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else if constexpr (kEvict == Evict::last) {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

// Copies the box at (column, row) to shared memory; `barrier` receives the box's bytes, zero-filled ones included.
template <Evict kEvict>
__device__ __forceinline__ void tma_load(u32 target, const TensorMap* map, u32 barrier, int column, int row) {
  if constexpr (kEvict == Evict::normal) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            target),
        "l"(map), "r"(barrier), "r"(column), "r"(row)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(target),
        "l"(map), "r"(barrier), "r"(column), "r"(row), "l"(cache_policy<kEvict>())
        : "memory");
  }
}

// The same into every block of the cluster whose bit is set in `mask`, at the same offsets of data and barrier.
template <Evict kEvict>
__device__ __forceinline__ void tma_load_multicast(u32 target, const TensorMap* map, u32 barrier, int column, int row,
                                                   u16 mask) {
  if constexpr (kEvict == Evict::normal) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(target),
        "l"(map), "r"(barrier), "r"(column), "r"(row), "h"(mask)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
        " [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(target),
        "l"(map), "r"(barrier), "r"(column), "r"(row), "h"(mask), "l"(cache_policy<kEvict>())
        : "memory");
  }
}

// Copies a box from shared memory; parts outside the tensor are dropped. Completes with the thread's bulk group.
__device__ __forceinline__ void tma_store(const TensorMap* map, u32 source, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(source),
               "r"(column), "r"(row)
               : "memory");
}
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the latest kPending groups of the thread's bulk stores have read their shared memory.
template <int kPending = 0>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Orders this thread's ordinary shared-memory writes before later accesses of the copy engine.
__device__ __forceinline__ void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace warpsmith::device
