// C = A * B on Hopper: TMA loads into a ring of shared-memory stages, warpgroup matrix multiply, one producer and up to
// three consumer warpgroups, clusters with multicast or with split-K, one tile per block or persistent, then also with
// stream-K or with consumers that take turns.
#pragma once

#include "device/kernels/sm90_epilogue.cuh"
#include "device/mma/warpgroup_tile.cuh"
#include "device/ptx/clock.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"

namespace warpsmith::device {

template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_produce(u32 memory, Sm90Schedule<kConfig> schedule, const TensorMap* map_a,
                                             const TensorMap* map_b) {
  using Memory = Sm90Memory<kConfig>;
  const u16 mask_a = schedule.sharers_of_a(), mask_b = schedule.sharers_of_b();
  RingPosition<kConfig.stages> ring;
  [[maybe_unused]] int unpaced = kConfig.stages;
  for (; schedule.valid(); schedule.advance()) {
    const TileCoordinate origin = schedule.origin;
    const int step = schedule.turned ? -kConfig.tile_k : kConfig.tile_k;
    int depth = (schedule.turned ? schedule.last_k - 1 : schedule.first_k) * kConfig.tile_k;
#pragma unroll 1
    for (int stage = schedule.first_k; stage < schedule.last_k; ++stage) {
      const u32 full = memory + Memory::kFull + 8 * ring.slot;
      mbarrier_wait(memory + Memory::kEmpty + 8 * ring.slot, ring.phase ^ 1);
      mbarrier_arrive_expect(full, Memory::kStageBytes);
      Memory::TileA::load(memory + Memory::kA + ring.slot * Memory::TileA::kBytes, map_a, full, origin.m, depth,
                          schedule.rank_n, mask_a);
      Memory::TileB::load(memory + Memory::kB + ring.slot * Memory::TileB::kBytes, map_b, full, origin.n, depth,
                          schedule.rank_m, mask_b);
      // Nothing waits for a free slot in the first round. With the loads of all its stages at once, from all blocks,
      // what everything waits for would come no sooner than what is needed last.
      if (kConfig.pace > 0 && --unpaced >= 0) spin_cycles(kConfig.pace);
      depth += step;
      ring.advance();
    }
  }
  if constexpr (kConfig.pdl) grid_launch_dependents();
}

// Tells every block that loads into this slot that this warpgroup is done with it.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_release(u32 empty, u32 peers) {
  const u32 thread = threadIdx.x % 128;
  if constexpr (kConfig.cluster_m * kConfig.cluster_n == 1) {
    if (thread == 0) mbarrier_arrive(empty);
  } else {
    constexpr u32 kBlocks = Sm90Plan<kConfig>::kClusterSize;
    mbarrier_arrive_remote(empty, thread % kBlocks, thread < kBlocks && (peers >> thread & 1) != 0);
  }
}

// Multiplies the stages of one piece into the accumulators; `row` is this warpgroup's first in the tile.
// A slot is released once the next stage's group has been issued and its own has completed; slots that will not be
// filled again need no release. With ping-pong the other warpgroup may begin when this one has seen its last stage
// arrive: before, it could take an earlier use of a slot for its own.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_multiply(u32 memory, int row, const Sm90Schedule<kConfig>& schedule,
                                              RingPosition<kConfig.stages>& ring, u32 peers, u32 other_turn,
                                              typename Sm90Plan<kConfig>::Sums& accumulators) {
  using Memory = Sm90Memory<kConfig>;
  using TileA = typename Memory::TileA;
  using TileB = typename Memory::TileB;
  const u64 a = TileA::descriptor(memory + Memory::kA) + TileA::row_offset(row);
  const u64 b = TileB::descriptor(memory + Memory::kB);
  const int count = schedule.last_k - schedule.first_k;
  const int releases = Sm90Plan<kConfig>::kLoops ? count : count - kConfig.stages;
  u32 previous = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    mbarrier_wait(memory + Memory::kFull + 8 * ring.slot, ring.phase);
    multiply_stage<TileA, TileB, kConfig.element, kConfig.a_k_major, kConfig.b_k_major, kConfig.tile_k, kConfig.tile_n>(
        accumulators, a + ring.slot * (TileA::kBytes / 16), b + ring.slot * (TileB::kBytes / 16), i > 0);
    wgmma_wait<1>();
    if (i > 0 && i - 1 < releases) sm90_release<kConfig>(previous, peers);
    previous = memory + Memory::kEmpty + 8 * ring.slot;
    ring.advance();
  }
  if constexpr (kConfig.pingpong) {
    if (threadIdx.x % 128 == 0) mbarrier_arrive(other_turn);
  }
  wgmma_wait<0>();
#pragma unroll
  for (int block = 0; block < Sm90Plan<kConfig>::kRowBlocks; ++block) pin_registers(accumulators[block]);
  if (count - 1 < releases) sm90_release<kConfig>(previous, peers);
}

template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_consume(u32 memory, Sm90Schedule<kConfig> schedule, const TensorMap* map_c,
                                             const Output<kConfig.scaled>& out, unsigned char* workspace, int m,
                                             int n) {
  using Plan = Sm90Plan<kConfig>;
  using Memory = Sm90Memory<kConfig>;
  const int warpgroup = warp_uniform(threadIdx.x / 128);
  const int row = kConfig.pingpong ? 0 : warpgroup * Plan::kWarpgroupRows;
  const u32 peers = schedule.sharers_of_a() | schedule.sharers_of_b();
  const u32 own_turn = memory + Memory::kTurn + 8 * warpgroup,
            other_turn = memory + Memory::kTurn + 8 * (warpgroup ^ 1);
  u32 turn = warpgroup ^ 1;  // parity; the first warpgroup's first turn needs no leave
  RingPosition<kConfig.stages> ring;
  if constexpr (kConfig.pingpong) {
    if (warpgroup == 1) {
      ring.skip(schedule.depth);
      schedule.advance();
    }
  }
  for (; schedule.valid(); schedule.advance()) {
    typename Plan::Sums accumulators;
    if constexpr (kConfig.pingpong) {
      mbarrier_wait(own_turn, turn);
      turn ^= 1;
    }
    sm90_multiply<kConfig>(memory, row, schedule, ring, peers, other_turn, accumulators);
    const TileCoordinate origin = schedule.origin;
    // The epilogue overwrites stages that other warps may still be reading.
    if constexpr (!kConfig.persistent && kConfig.split == 1 && kConfig.epilogue != Epilogue::direct) {
      named_barrier_sync(8, Plan::kConsumerThreads);
    }
    if constexpr (kConfig.split > 1) {
      sm90_reduce_in_cluster<kConfig>(memory, schedule, row, accumulators, out, origin, m, n);
    } else if (kConfig.parts || (kConfig.streamk && !schedule.whole())) {
      if constexpr (kConfig.streamk) sm90_leave<kConfig>(workspace, schedule, row, accumulators, origin, m, n);
    } else {
      sm90_finish<kConfig>(memory, warpgroup, accumulators, map_c, out, origin.m + row, origin.n, m, n);
    }
    if constexpr (Plan::kLoops) __syncwarp();  // or the compiler holds the next tile's loop for divergent
    if constexpr (kConfig.pingpong) {
      ring.skip(schedule.depth);  // the other warpgroup's tile
      schedule.advance();
    }
  }
  if constexpr (kConfig.streamk) sm90_reduce_shared_tiles<kConfig>(workspace, schedule, out, m, n);
  if constexpr (kConfig.epilogue == Epilogue::tma) {
    if (threadIdx.x % 128 == 0) tma_store_wait_read();
    __syncwarp();
  }
  // Releases may still be on their way to this block's barriers.
  if constexpr (Plan::kLoops && Plan::kClusterSize > 1) cluster_sync();
}

// map_a, map_b, map_c: tensor maps over the operands as stored, with the boxes of OperandTile and StoreBoxes. m, n: of
// the product; with swap, A and B have changed places and C is its transpose. workspace: stream-K's, zero before and
// after.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_gemm(const TensorMap* map_a, const TensorMap* map_b, const TensorMap* map_c,
                                          const Output<kConfig.scaled>& out, unsigned char* workspace, int m, int n,
                                          int k, const Sm90Places& places) {
  using Plan = Sm90Plan<kConfig>;
  using Memory = Sm90Memory<kConfig>;
  extern __shared__ __align__(1024) unsigned char shared[];
  // Known to be uniform, once: the loops would ask for it again and again.
  const u32 memory = warp_uniform(shared_address(shared));
  const int warp = warp_uniform(threadIdx.x / 32);
  constexpr int kProducerWarp = 4 * kConfig.consumers;
  constexpr bool kMulticast = kConfig.cluster_m * kConfig.cluster_n > 1;

  // Prologue. The first loads are what everything waits for: a consumer makes the barriers ready while the producer
  // finds out what to load.
  if (warp == 0) {
    if (is_elected_lane()) {
      constexpr int kReleases = Plan::kSharers * (kConfig.cluster_m + kConfig.cluster_n - 1);
      for (int stage = 0; stage < kConfig.stages; ++stage) {
        mbarrier_init(memory + Memory::kFull + 8 * stage, 1);
        mbarrier_init(memory + Memory::kEmpty + 8 * stage, kReleases);
      }
      if constexpr (kConfig.pingpong) {
        mbarrier_init(memory + Memory::kTurn, 1);
        mbarrier_init(memory + Memory::kTurn + 8, 1);
      }
      if constexpr (kConfig.split > 1) mbarrier_init(memory + Memory::kSums, 1);
      mbarrier_init_fence();
    }
    __syncwarp();
  } else if (warp == kProducerWarp) {
    if (is_elected_lane()) {
      if (memory % 1024 != 0) __trap();  // swizzles are functions of the address
      prefetch_tensor_map(map_a);
      prefetch_tensor_map(map_b);
      if constexpr (kConfig.epilogue == Epilogue::tma) prefetch_tensor_map(map_c);
    }
    __syncwarp();
  }
  // Only multicast needs the barriers of its peers too, which the fence above has published.
  if constexpr (kMulticast) cluster_arrive_relaxed();
  const Sm90Schedule<kConfig> schedule(m, n, k, places);
  if constexpr (kMulticast) {
    cluster_wait();
  } else if (warp <= kProducerWarp) {
    named_barrier_sync(0, Plan::kConsumerThreads + 32);
  }
  if constexpr (!Plan::kLoops && !kConfig.parts) {
    if (!schedule.valid()) return;
  }
  if constexpr (kConfig.split > 1) {
    // The fence above has published the barriers.
    if (Memory::kOwnReceiver || warp >= kProducerWarp) cluster_arrive_relaxed();
  }
  if constexpr (kConfig.pdl) grid_dependency_wait();

  if (warp < kProducerWarp) {
    if constexpr (Plan::kReallocatesRegisters) claim_registers_up_to<Plan::kConsumerRegisters>();
    sm90_consume<kConfig>(memory, schedule, map_c, out, workspace, m, n);
  } else {
    if constexpr (Plan::kReallocatesRegisters) release_registers_to<Plan::kProducerRegisters>();
    if (warp == kProducerWarp && is_elected_lane()) {
      // Sums may come, and be counted, before they are expected: the phase waits for this arrival.
      if constexpr (kConfig.split > 1) {
        mbarrier_arrive_expect(memory + Memory::kSums, Memory::Pushed::bytes_of(schedule.rank_k));
      }
      sm90_produce<kConfig>(memory, schedule, map_a, map_b);
    }
    if constexpr (kConfig.split > 1) {
      __syncwarp();
      cluster_wait();
    }
  }
}

}  // namespace warpsmith::device
