// The main loop of an sm80 kernel: carries out its loop program, step by step at compile time.
#pragma once

#include "device/copy/shared_tile.cuh"
#include "device/kernels/sm80_config.cuh"
#include "device/mma/sums.cuh"
#include "device/mma/warp_fragments.cuh"
#include "device/ptx/matrix.cuh"

namespace warpsmith::device {

template <Sm80Config kConfig>
struct Sm80Tiles {
  using A = SharedTile<kConfig.a_k_major ? kConfig.tile_m : kConfig.tile_k,
                       kConfig.a_k_major ? kConfig.tile_k : kConfig.tile_m, kConfig.a_granule, kConfig.fetch>;
  using B = SharedTile<kConfig.b_k_major ? kConfig.tile_n : kConfig.tile_k,
                       kConfig.b_k_major ? kConfig.tile_k : kConfig.tile_n, kConfig.b_granule, kConfig.fetch>;
  static_assert(A::kBytes + B::kBytes == Sm80Plan<kConfig>::kStageBytes);
};

// The operands of a launch as stored.
struct Sm80Operands {
  const u16 *a, *b;
  int lda, ldb;
  int m, n, k;
};

// What a block works on: a tile of C, and of K the stages [first, first + count).
struct Sm80Work {
  TileCoordinate origin;
  int first, count;
};

template <Sm80Config kConfig>
class Sm80Loop {
  using Plan = Sm80Plan<kConfig>;
  using Tiles = Sm80Tiles<kConfig>;
  // Of a load or multiplication of k-step kStep in stage number kTurn of the loop's body.
  template <int kTurn, int kStep>
  static constexpr int kBuffer = Plan::kLoop.buffer(kTurn, kStep);

 public:
  using Sum = typename SumOf<kConfig.half_sums>::Type;
  static constexpr int kRowSums = Plan::kBlocksN * kSumsPerBlock<Sum>;

  Sum sums[Plan::kBlocksM][kRowSums] = {};

  // row, column, depth: the warp's first within the tile, and within a stage.
  __device__ __forceinline__ Sm80Loop(u32 memory, const Sm80Operands& in, const Sm80Work& work, int row, int column,
                                      int depth)
      : from_a_(row, depth),
        from_b_(column, depth),
        to_copy_(work.count),
        to_multiply_(work.count),
        ring_(memory),
        slot_(memory),
        copy_a_(in.a, in.lda, kConfig.a_k_major ? in.m : in.k, kConfig.a_k_major ? in.k : in.m,
                kConfig.a_k_major ? work.origin.m : work.first * kConfig.tile_k,
                kConfig.a_k_major ? work.first * kConfig.tile_k : work.origin.m),
        copy_b_(in.b, in.ldb, kConfig.b_k_major ? in.n : in.k, kConfig.b_k_major ? in.k : in.n,
                kConfig.b_k_major ? work.origin.n : work.first * kConfig.tile_k,
                kConfig.b_k_major ? work.first * kConfig.tile_k : work.origin.n) {}

  // Multiplies all stages; afterwards no copy is under way, and no warp reads the shared memory.
  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (int stage = 0; stage < Plan::kLoop.lead; ++stage) {  // short code: cold instructions cost more than a branch
      if (to_copy_ > 0) {
        start_a<0, 1>(ring_ + stage * Plan::kStageBytes);
        start_b<0, 1>(ring_ + stage * Plan::kStageBytes);
      }
      commit();
    }
    if constexpr (Plan::kLoop.ahead > 0) {
      cp_async_wait<Plan::kLoop.lead - 1>();
      __syncthreads();
      load_ahead<0>();
    }
    while (to_multiply_ > 0) multiply_stages<0>();
    cp_async_wait<0>();
    __syncthreads();
  }

 private:
  template <int kStep>
  __device__ __forceinline__ void load_ahead() {
    if constexpr (kStep < Plan::kLoop.ahead) {
      load_a<kStep, 0>();
      load_b<kStep, 0>();
      load_ahead<kStep + 1>();
    }
  }

  // Stage number kTurn of the loop's body, and those after it.
  template <int kTurn>
  __device__ __forceinline__ void multiply_stages() {
    take_steps<0, kTurn>();
    --to_multiply_;
    slot_ = slot_after<1>();
    if constexpr (kTurn + 1 < Plan::kLoop.unroll) {
      if (to_multiply_ > 0) multiply_stages<kTurn + 1>();
    }
  }

  template <int kIndex, int kTurn>
  __device__ __forceinline__ void take_steps() {
    if constexpr (kIndex < Plan::kLoop.count) {
      take<Plan::kLoop.steps[kIndex], kTurn>();
      take_steps<kIndex + 1, kTurn>();
    }
  }

  template <LoopStep kStep, int kTurn>
  __device__ __forceinline__ void take() {
    if constexpr (kStep.op == LoopOp::copy_a) {
      start_a<kStep.at, kStep.of>(slot_after<Plan::kLoop.lead>());
    } else if constexpr (kStep.op == LoopOp::copy_b) {
      start_b<kStep.at, kStep.of>(slot_after<Plan::kLoop.lead>());
    } else if constexpr (kStep.op == LoopOp::commit) {
      commit();
    } else if constexpr (kStep.op == LoopOp::wait) {
      cp_async_wait<kStep.at>();
    } else if constexpr (kStep.op == LoopOp::barrier) {
      __syncthreads();
    } else if constexpr (kStep.op == LoopOp::load_a) {
      load_a<kStep.at, kTurn>();
    } else if constexpr (kStep.op == LoopOp::load_b) {
      load_b<kStep.at, kTurn>();
    } else {
      multiply<kBuffer<kTurn, kStep.at>>();
    }
  }

  // The slot of the stage that is kStages after the current one.
  template <int kStages>
  __device__ __forceinline__ u32 slot_after() const {
    if constexpr (kStages % kConfig.stages == 0) {
      return slot_;
    } else {
      constexpr u32 kRingBytes = kConfig.stages * Plan::kStageBytes;
      const u32 slot = slot_ + kStages * Plan::kStageBytes;
      return slot < ring_ + kRingBytes ? slot : slot - kRingBytes;
    }
  }

  template <int kPart, int kParts>
  __device__ __forceinline__ void start_a(u32 slot) {
    copy_a_.template start<kPart, kParts>(slot, to_copy_ > 0);
    if constexpr (kPart + 1 == kParts) copy_a_.advance();
  }
  template <int kPart, int kParts>
  __device__ __forceinline__ void start_b(u32 slot) {
    copy_b_.template start<kPart, kParts>(slot + Tiles::A::kBytes, to_copy_ > 0);
    if constexpr (kPart + 1 == kParts) copy_b_.advance();
  }
  // After the last stage the group is empty, so that the number in flight stays the same.
  __device__ __forceinline__ void commit() {
    cp_async_commit();
    --to_copy_;
  }

  template <int kStep, int kTurn>
  __device__ __forceinline__ void load_a() {
    const u32 tile = slot_after<kStep / Plan::kSteps>();
#pragma unroll
    for (int i = 0; i < Plan::kBlocksM; ++i) from_a_.load(tile, i, kStep % Plan::kSteps, a_[kBuffer<kTurn, kStep>][i]);
  }
  template <int kStep, int kTurn>
  __device__ __forceinline__ void load_b() {
    const u32 tile = slot_after<kStep / Plan::kSteps>() + Tiles::A::kBytes;
    constexpr int kPairs = Plan::kBlocksN / 2;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) from_b_.load(tile, j, kStep % Plan::kSteps, b_[kBuffer<kTurn, kStep>][j]);
    if constexpr (Plan::kBlocksN % 2 == 1) {
      from_b_.load_half(tile, kPairs, kStep % Plan::kSteps, b_[kBuffer<kTurn, kStep>][kPairs]);
    }
  }
  // Back and forth along N, so that neighbouring instructions share an operand.
  template <int kFrom>
  __device__ __forceinline__ void multiply() {
#pragma unroll
    for (int i = 0; i < Plan::kBlocksM; ++i) {
#pragma unroll
      for (int at = 0; at < Plan::kBlocksN; ++at) {
        const int j = i % 2 == 0 ? at : Plan::kBlocksN - 1 - at;
        constexpr int kSums = kSumsPerBlock<Sum>;
        Sum(&block)[kSums] = *reinterpret_cast<Sum(*)[kSums]>(&sums[i][kSums * j]);
        const u32(&b)[4] = b_[kFrom][j / 2];
        mma_16x8x16<kConfig.element>(block, a_[kFrom][i], b[j % 2 * 2], b[j % 2 * 2 + 1]);
      }
    }
  }

  WarpFragments<typename Tiles::A, kConfig.a_k_major, true, Plan::kBlocksM> from_a_;
  // Half a block counts as no power of two: it is not side by side with as many others.
  WarpFragments<typename Tiles::B, kConfig.b_k_major, false, Plan::kBlocksN % 2 == 0 ? Plan::kBlocksN / 2 : 3> from_b_;
  int to_copy_, to_multiply_;  // stages
  u32 ring_, slot_;            // addresses of the ring, and of the slot that the current stage is in
  TileCopy<typename Tiles::A, kConfig.a_k_major, kConfig.tile_k, Plan::kThreads> copy_a_;
  TileCopy<typename Tiles::B, kConfig.b_k_major, kConfig.tile_k, Plan::kThreads> copy_b_;
  u32 a_[kConfig.loop.fragments][Plan::kBlocksM][4];
  u32 b_[kConfig.loop.fragments][(Plan::kBlocksN + 1) / 2][4];
};

}  // namespace warpsmith::device
