// C = A * B on Hopper: TMA loads into a ring of shared-memory stages, warpgroup matrix multiply, one producer and up to
// three consumer warpgroups, clusters with multicast or with split-K, persistent or one tile per block.
#pragma once

#include "device/copy/operand_tile.cuh"
#include "device/epilogue/cluster_reduce.cuh"
#include "device/epilogue/tma_boxes.cuh"
#include "device/kernels/sm90_config.cuh"
#include "device/mma/warpgroup_tile.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"

namespace warpsmith::device {

// Shared memory of a block: stages of A, stages of B, the epilogue's buffer, then the barriers. Where a block handles
// one tile, the epilogue reuses the stages.
template <Sm90Config kConfig>
struct Sm90Memory {
  using TileA = OperandTile<kConfig.tile_m, kConfig.tile_k, kConfig.a_k_major, kConfig.cluster_n>;
  using TileB = OperandTile<kConfig.tile_n, kConfig.tile_k, kConfig.b_k_major, kConfig.cluster_m>;
  using Partial = PartialTile<kConfig.tile_m, kConfig.tile_n, kConfig.split>;
  using Rows = StagedRows<Sm90Plan<kConfig>::kWarpgroupRows, kConfig.tile_n>;
  using Boxes = StoreBoxes<kConfig.tile_n>;

  static constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr int kPipelineBytes = kConfig.stages * kStageBytes;
  static constexpr int kEpilogueBytes = kConfig.split > 1                      ? Partial::kBytes
                                        : kConfig.epilogue == Epilogue::staged ? kConfig.consumers* Rows::kBytes
                                        : kConfig.epilogue == Epilogue::tma    ? kConfig.tile_m / 64 * Boxes::kBytes
                                                                               : 0;
  static constexpr int kA = 0;
  static constexpr int kB = kConfig.stages * TileA::kBytes;
  static constexpr int kEpilogue = kConfig.persistent ? round_up(kPipelineBytes, 1024) : 0;
  static constexpr int kFull = round_up(max(kPipelineBytes, kEpilogue + kEpilogueBytes), 16);
  static constexpr int kEmpty = kFull + 8 * kConfig.stages;
  static constexpr int kBytes = kEmpty + 8 * kConfig.stages;
};

// Which tiles a block works on, and its place in the cluster. Ranks count along M, then N, then K.
template <Sm90Config kConfig>
struct Sm90Schedule {
  static constexpr int kClusterSize = Sm90Plan<kConfig>::kClusterSize;
  int clusters_m, clusters_n;  // of tiles
  int rank = 0, rank_m = 0, rank_n = 0, rank_k = 0;
  int index, stride;    // this cluster's first group of tiles, and the distance to its next
  int first_k, last_k;  // range of stages along K

  __device__ __forceinline__ Sm90Schedule(int m, int n, int k) {
    clusters_m = ceil_div(ceil_div(m, kConfig.tile_m), kConfig.cluster_m);
    clusters_n = ceil_div(ceil_div(n, kConfig.tile_n), kConfig.cluster_n);
    if constexpr (kClusterSize > 1) {
      rank = cluster_rank();
      rank_m = rank % kConfig.cluster_m;
      rank_n = rank / kConfig.cluster_m % kConfig.cluster_n;
      rank_k = rank / (kConfig.cluster_m * kConfig.cluster_n);
    }
    index = blockIdx.x / kClusterSize;
    stride = gridDim.x / kClusterSize;
    const int stages_k = ceil_div(k, kConfig.tile_k);
    first_k = stages_k * rank_k / kConfig.split;
    last_k = stages_k * (rank_k + 1) / kConfig.split;
  }

  __device__ __forceinline__ bool valid() const { return index < clusters_m * clusters_n; }
  __device__ __forceinline__ void advance() { index += kConfig.persistent ? stride : clusters_m * clusters_n; }

  // First row and column of this block's tile.
  __device__ __forceinline__ TileCoordinate origin() const {
    const TileCoordinate tile = raster_tile<kConfig.raster, kConfig.group>(index, clusters_m, clusters_n);
    return {(tile.m * kConfig.cluster_m + rank_m) * kConfig.tile_m,
            (tile.n * kConfig.cluster_n + rank_n) * kConfig.tile_n};
  }

  // Blocks that use the same rows of A, the same columns of B, or either.
  __device__ __forceinline__ u16 sharers_of_a() const {
    int row = 0;
#pragma unroll
    for (int i = 0; i < kConfig.cluster_n; ++i) row |= 1 << i * kConfig.cluster_m;
    return static_cast<u16>(row << (rank_m + rank_k * kConfig.cluster_m * kConfig.cluster_n));
  }
  __device__ __forceinline__ u16 sharers_of_b() const {
    constexpr int kColumn = (1 << kConfig.cluster_m) - 1;
    return static_cast<u16>(kColumn << (rank - rank_m));
  }
};

template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_produce(u32 memory, Sm90Schedule<kConfig> schedule, const TensorMap* map_a,
                                             const TensorMap* map_b) {
  using Memory = Sm90Memory<kConfig>;
  const u16 mask_a = schedule.sharers_of_a(), mask_b = schedule.sharers_of_b();
  RingPosition<kConfig.stages> ring;
  for (; schedule.valid(); schedule.advance()) {
    const TileCoordinate origin = schedule.origin();
    for (int stage = schedule.first_k; stage < schedule.last_k; ++stage) {
      const u32 full = memory + Memory::kFull + 8 * ring.slot;
      mbarrier_wait(memory + Memory::kEmpty + 8 * ring.slot, ring.phase ^ 1);
      mbarrier_arrive_expect(full, Memory::kStageBytes);
      const int depth = stage * kConfig.tile_k;
      Memory::TileA::load(memory + Memory::kA + ring.slot * Memory::TileA::kBytes, map_a, full, origin.m, depth,
                          schedule.rank_n, mask_a);
      Memory::TileB::load(memory + Memory::kB + ring.slot * Memory::TileB::kBytes, map_b, full, origin.n, depth,
                          schedule.rank_m, mask_b);
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
    if (thread < 16 && (peers >> thread & 1)) mbarrier_arrive_remote(empty, thread);
  }
}

// Multiplies the stages of one tile into the accumulators. A slot is released once the next stage's group has been
// issued and its own has completed; slots that will not be filled again need no release.
template <Sm90Config kConfig, int kRowBlocks>
__device__ __forceinline__ void sm90_multiply(u32 memory, int warpgroup, const Sm90Schedule<kConfig>& schedule,
                                              RingPosition<kConfig.stages>& ring, u32 peers,
                                              float (&accumulators)[kRowBlocks][kConfig.tile_n / 2]) {
  using Memory = Sm90Memory<kConfig>;
  using TileA = typename Memory::TileA;
  using TileB = typename Memory::TileB;
  const u64 a = TileA::descriptor(memory + Memory::kA) + TileA::row_offset(warpgroup * 64 * kRowBlocks);
  const u64 b = TileB::descriptor(memory + Memory::kB);
  const int count = schedule.last_k - schedule.first_k;
  const int releases = kConfig.persistent ? count : count - kConfig.stages;
  u32 previous = 0;
  for (int i = 0; i < count; ++i) {
    mbarrier_wait(memory + Memory::kFull + 8 * ring.slot, ring.phase);
    multiply_stage<TileA, TileB, kConfig.element, kConfig.a_k_major, kConfig.b_k_major, kConfig.tile_k, kConfig.tile_n>(
        accumulators, a + ring.slot * (TileA::kBytes / 16), b + ring.slot * (TileB::kBytes / 16), i > 0);
    wgmma_wait<1>();
    if (i > 0 && i - 1 < releases) sm90_release<kConfig>(previous, peers);
    previous = memory + Memory::kEmpty + 8 * ring.slot;
    ring.advance();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int block = 0; block < kRowBlocks; ++block) pin_registers(accumulators[block]);
  if (count - 1 < releases) sm90_release<kConfig>(previous, peers);
}

// Writes one warpgroup's part of the tile, whose first element is (row, column) of C.
template <Sm90Config kConfig, int kRowBlocks>
__device__ __forceinline__ void sm90_write(u32 memory, int warpgroup, const float (&d)[kRowBlocks][kConfig.tile_n / 2],
                                           const TensorMap* map_c, u16* c, int row, int column, int m, int n) {
  using Memory = Sm90Memory<kConfig>;
  const int thread = threadIdx.x % 128;
  const int warp_row = thread / 32 * 16;
  const int barrier = 1 + warpgroup;  // 0 is the block's own
  if constexpr (kConfig.epilogue == Epilogue::direct) {
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      store_fragment<kConfig.element>(c, row + 64 * block + warp_row, column, m, n, d[block]);
    }
  } else if constexpr (kConfig.epilogue == Epilogue::staged) {
    const u32 base = memory + Memory::kEpilogue + warpgroup * Memory::Rows::kBytes;
    if constexpr (kConfig.persistent) named_barrier_sync(barrier, 128);  // the last tile's rows have been read
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      stage_fragment<kConfig.element>(
          d[block], [&](int r, int piece) { return Memory::Rows::address(base, 64 * block + warp_row + r, piece); });
    }
    named_barrier_sync(barrier, 128);
    Memory::Rows::template store<128>(base, thread, c, row, column, m, n);
  } else {
    const u32 base = memory + Memory::kEpilogue + warpgroup * kRowBlocks * Memory::Boxes::kBytes;
    if constexpr (kConfig.persistent) {
      if (thread == 0) tma_store_wait_read();
      named_barrier_sync(barrier, 128);
    }
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      stage_fragment<kConfig.element>(d[block], [&](int r, int piece) {
        return Memory::Boxes::address(base + block * Memory::Boxes::kBytes, warp_row + r, piece);
      });
    }
    fence_async_shared();
    named_barrier_sync(barrier, 128);
    if (thread == 0) {
#pragma unroll
      for (int block = 0; block < kRowBlocks; ++block) {
        Memory::Boxes::store(map_c, base + block * Memory::Boxes::kBytes, row + 64 * block, column);
      }
      tma_store_commit();
    }
  }
}

template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_consume(u32 memory, Sm90Schedule<kConfig> schedule, const TensorMap* map_c, u16* c,
                                             int m, int n) {
  using Plan = Sm90Plan<kConfig>;
  using Memory = Sm90Memory<kConfig>;
  const int warpgroup = warp_uniform(threadIdx.x / 128);
  const u32 peers = schedule.sharers_of_a() | schedule.sharers_of_b();
  RingPosition<kConfig.stages> ring;
  float accumulators[Plan::kRowBlocks][kConfig.tile_n / 2];
  for (; schedule.valid(); schedule.advance()) {
    sm90_multiply<kConfig>(memory, warpgroup, schedule, ring, peers, accumulators);
    const TileCoordinate origin = schedule.origin();
    const int row = warpgroup * Plan::kWarpgroupRows;
    // The epilogue overwrites stages that other warps may still be reading.
    if constexpr (!kConfig.persistent && kConfig.epilogue != Epilogue::direct) {
      named_barrier_sync(8, Plan::kConsumerThreads);
    }
    if constexpr (kConfig.split > 1) {
#pragma unroll
      for (int block = 0; block < Plan::kRowBlocks; ++block) {
        Memory::Partial::put(memory, row + 64 * block + threadIdx.x % 128 / 32 * 16, accumulators[block]);
      }
      cluster_sync();
      constexpr int kStride = kConfig.cluster_m * kConfig.cluster_n;
      Memory::Partial::template reduce<kConfig.element, Plan::kConsumerThreads>(
          memory, threadIdx.x, schedule.rank_k, schedule.rank - schedule.rank_k * kStride, kStride, c, origin.m,
          origin.n, m, n);
      cluster_sync();  // the others may still be reading this block's partial sums
    } else {
      sm90_write<kConfig>(memory, warpgroup, accumulators, map_c, c, origin.m + row, origin.n, m, n);
    }
  }
  if constexpr (kConfig.epilogue == Epilogue::tma) {
    if (threadIdx.x % 128 == 0) tma_store_wait_read();
  }
  // Releases may still be on their way to this block's barriers.
  if constexpr (kConfig.persistent && Plan::kClusterSize > 1) cluster_sync();
}

// map_a, map_b, map_c: tensor maps over the operands as stored, with the boxes of OperandTile and StoreBoxes.
template <Sm90Config kConfig>
__device__ __forceinline__ void sm90_gemm(const TensorMap* map_a, const TensorMap* map_b, const TensorMap* map_c,
                                          u16* c, int m, int n, int k) {
  using Plan = Sm90Plan<kConfig>;
  using Memory = Sm90Memory<kConfig>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 memory = shared_address(shared);
  const int warp = warp_uniform(threadIdx.x / 32);
  constexpr int kProducerWarp = 4 * kConfig.consumers;

  // Prologue.
  if (warp == kProducerWarp && is_first_lane()) {
    if (memory % 1024 != 0) __trap();  // swizzles are functions of the address
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if constexpr (kConfig.epilogue == Epilogue::tma) prefetch_tensor_map(map_c);
    constexpr int kReleases = kConfig.consumers * (kConfig.cluster_m + kConfig.cluster_n - 1);
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      mbarrier_init(memory + Memory::kFull + 8 * stage, 1);
      mbarrier_init(memory + Memory::kEmpty + 8 * stage, kReleases);
    }
    mbarrier_init_fence();
  }
  if constexpr (kConfig.cluster_m * kConfig.cluster_n > 1) {
    cluster_sync();
  } else {
    named_barrier_sync(0, Plan::kThreads);
  }
  if constexpr (kConfig.pdl) grid_dependency_wait();
  const Sm90Schedule<kConfig> schedule(m, n, k);

  if (warp >= kProducerWarp) {
    if constexpr (Plan::kReallocatesRegisters) release_registers_to<Plan::kProducerRegisters>();
    if (warp == kProducerWarp && is_first_lane()) sm90_produce<kConfig>(memory, schedule, map_a, map_b);
  } else {
    if constexpr (Plan::kReallocatesRegisters) claim_registers_up_to<Plan::kConsumerRegisters>();
    sm90_consume<kConfig>(memory, schedule, map_c, c, m, n);
  }
}

}  // namespace warpsmith::device
