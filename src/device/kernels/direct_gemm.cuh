// C = A * B without a shared-memory pipeline: each warp loads its share of k of both operands straight into registers,
// as much at once as they hold, multiplies with mma.m16n8k16, and the sums meet in shared memory. For problems whose
// time is that of a round trip to memory (few tiles, short k), or of streaming one operand (the other has few rows).
#pragma once

#include "device/epilogue/output.cuh"
#include "device/epilogue/patch.cuh"
#include "device/kernels/direct_config.cuh"
#include "device/mma/direct_fragment.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/matrix.cuh"

namespace warpsmith::device {

// A warp's place in C and in K.
template <DirectConfig kConfig>
struct DirectPlace {
  int lane, warp_k, group;
  int row, column;          // of C: the warp's tile
  int depth, stride, rank;  // first k, distance to the next, block within the cluster

  __device__ __forceinline__ DirectPlace() {
    using Plan = DirectPlan<kConfig>;
    const int warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    warp_k = Plan::kGroups == 1 ? warp : warp % kConfig.warps_k;
    group = Plan::kGroups == 1 ? 0 : warp / kConfig.warps_k;
    // x counts tiles along the side of 16, which may be long.
    const int block_m = kConfig.transposed ? blockIdx.y : blockIdx.x;
    const int block_n = kConfig.transposed ? blockIdx.x : blockIdx.y;
    row = block_m * Plan::kBlockM + group % kConfig.warps_m * kConfig.tile_m;
    column = block_n * Plan::kBlockN + group / kConfig.warps_m * kConfig.tile_n;
    rank = kConfig.split > 1 ? blockIdx.z : 0;
    depth = kConfig.depth * (kConfig.split > 1 ? rank * kConfig.warps_k + warp_k : warp_k);
    stride = kConfig.depth * kConfig.warps_k * kConfig.split;
  }
};

// What one load brings: the operand on mma's side of 16, called rows, and the one on its side of 8, called columns.
template <DirectConfig kConfig>
struct DirectOperands {
  using Plan = DirectPlan<kConfig>;
  template <bool kIsA, int kGroups, LoadHint kHint>
  using Fragment = DirectFragment<kIsA ? kConfig.a_k_major : kConfig.b_k_major, kGroups, kConfig.depth,
                                  kIsA ? kConfig.a_granule : kConfig.b_granule,
                                  kIsA ? kConfig.whole_m : kConfig.whole_n, kConfig.whole_k, kHint, kConfig.fetch>;
  template <bool kShared, class Own>
  struct Columns {
    using Type = Own;
  };
  template <class Own>
  struct Columns<true, Own> {
    using Type = typename Plan::SharedB;
  };
  Fragment<!kConfig.transposed, Plan::kRows / 8, kConfig.hint> rows;
  typename Columns<kConfig.shared_b, Fragment<kConfig.transposed, Plan::kColumns / 8, LoadHint::keep>>::Type columns;
};

// Sums over k, in as many accumulators as keep mma instructions independent of one another.
template <DirectConfig kConfig>
struct DirectSums {
  using Plan = DirectPlan<kConfig>;
  static constexpr int kBlocksM = Plan::kRows / 16, kBlocksN = Plan::kColumns / 8, kSteps = kConfig.depth / 16;
  static constexpr int kChains = kBlocksM * kBlocksN <= 2 && kSteps >= 2 ? 2 : 1;
  using Sum = typename SumOf<kConfig.f16_sums>::Type;
  Sum d[kChains][kBlocksM][kBlocksN][kSumsPerBlock<Sum>] = {};

  __device__ __forceinline__ void add(const DirectOperands<kConfig>& operands) {
    if constexpr (kConfig.shared_b) {
      cp_async_wait<0>();
      __syncwarp();
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      u32 b[kBlocksN][2];
      if constexpr (kConfig.shared_b) {
        operands.columns.step_fragments(step, b);
      } else {
#pragma unroll
        for (int j = 0; j < kBlocksN; ++j) {
          b[j][0] = operands.columns.pair(j, 2 * step);
          b[j][1] = operands.columns.pair(j, 2 * step + 1);
        }
      }
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
        const u32 a[4] = {operands.rows.pair(2 * i, 2 * step), operands.rows.pair(2 * i + 1, 2 * step),
                          operands.rows.pair(2 * i, 2 * step + 1), operands.rows.pair(2 * i + 1, 2 * step + 1)};
#pragma unroll
        for (int j = 0; j < kBlocksN; ++j) mma_16x8x16<kConfig.element>(d[step % kChains][i][j], a, b[j][0], b[j][1]);
      }
    }
  }

  // Element (y, x) of the lane's patch of C.
  __device__ __forceinline__ float at(int y, int x) const {
    const int row = kConfig.transposed ? x : y, column = kConfig.transposed ? y : x;
    // Neighbouring columns are the same one of all blocks, or those of one block.
    const int i = row / 2, j = kConfig.shared_b ? column / 2 : column % kBlocksN;
    const int odd = kConfig.shared_b ? column % 2 : column / kBlocksN;
    const auto of = [&](int chain) {
      const FloatPair pair = sum_pair(d[chain][i][j], 0, row % 2);
      return odd == 0 ? pair.x : pair.y;
    };
    return kChains == 1 ? of(0) : of(0) + of(kChains - 1);
  }
  __device__ __forceinline__ void unit(int index, float (&v)[Plan::kUnit]) const {
    constexpr int kPerRow = Plan::kPatchN / Plan::kUnit;
#pragma unroll
    for (int i = 0; i < Plan::kUnit; ++i) v[i] = at(index / kPerRow, index % kPerRow * Plan::kUnit + i);
  }
};

// Writes one unit of a lane's patch, in the tile whose first element is (row, column).
template <DirectConfig kConfig>
__device__ __forceinline__ void direct_store(const Output<kConfig.scaled>& out, int row, int column, int lane, int unit,
                                             int m, int n, const float (&v)[DirectPlan<kConfig>::kUnit]) {
  using Plan = DirectPlan<kConfig>;
  constexpr int kPerRow = Plan::kPatchN / Plan::kUnit;
  const int patch_m = kConfig.transposed ? lane % 4 : lane / 4, patch_n = kConfig.transposed ? lane / 4 : lane % 4;
  const int line = row + patch_m * Plan::kPatchM + unit / kPerRow;
  const int first = column + (kConfig.shared_b ? unit % kPerRow * 8 + patch_n * 2
                                               : patch_n * Plan::kPatchN + unit % kPerRow * Plan::kUnit);
  if constexpr (kConfig.scaled) {
    float w[Plan::kUnit];
#pragma unroll
    for (int i = 0; i < Plan::kUnit; ++i) w[i] = v[i];
    scale_unit<kConfig.element, kConfig.c_granule, kConfig.whole_m, kConfig.whole_n>(out.c, out.ld, out.alpha, out.beta,
                                                                                     line, first, m, n, w);
    store_unit<kConfig.element, kConfig.c_granule, kConfig.whole_m, kConfig.whole_n>(out.c, out.ld, line, first, m, n,
                                                                                     w);
  } else {
    store_unit<kConfig.element, kConfig.c_granule, kConfig.whole_m, kConfig.whole_n>(out.c, out.ld, line, first, m, n,
                                                                                     v);
  }
}

// Adds up the warps' and blocks' sums and writes them.
template <DirectConfig kConfig>
__device__ __forceinline__ void direct_finish(const DirectSums<kConfig>& sums, const DirectPlace<kConfig>& place,
                                              u32 memory, const Output<kConfig.scaled>& out, int m, int n) {
  using Plan = DirectPlan<kConfig>;
  using Buffer = UnitBuffer<Plan::kUnit>;
  const u32 exchange = memory + Plan::kPartialBytes;
  constexpr int kAllUnits = Plan::kUnits * Plan::kGroups;
  if constexpr (kConfig.split > 1) {
    __syncwarp();
    cluster_wait();  // the other blocks run, so their memory may be written
  }
  const auto finish = [&](int unit, const float(&v)[Plan::kUnit]) {
    if constexpr (kConfig.split > 1) {
      using Exchange = UnitExchange<Plan::kUnit, kConfig.split>;
      Exchange::send(exchange, kAllUnits, place.rank, place.group * Plan::kUnits + unit, place.lane, v);
    } else {
      direct_store<kConfig>(out, place.row, place.column, place.lane, unit, m, n, v);
    }
  };

  if constexpr (kConfig.warps_k > 1) {
    const u32 tile = memory + place.group * kConfig.warps_k * Plan::kTileBytes;
#pragma unroll
    for (int unit = 0; unit < Plan::kUnits; ++unit) {
      float v[Plan::kUnit];
      sums.unit(unit, v);
      Buffer::put(Buffer::address(tile + place.warp_k * Plan::kTileBytes, unit, place.lane), v);
    }
    __syncthreads();
#pragma unroll
    for (int first = 0; first < Plan::kUnits; first += kConfig.warps_k) {
      const int unit = first + place.warp_k;
      if (Plan::kUnits % kConfig.warps_k != 0 && unit >= Plan::kUnits) break;
      float total[Plan::kUnit];
      Buffer::template sum<kConfig.warps_k>(Buffer::address(tile, unit, place.lane), Plan::kTileBytes, total);
      finish(unit, total);
    }
  } else {
#pragma unroll
    for (int unit = 0; unit < Plan::kUnits; ++unit) {
      float v[Plan::kUnit];
      sums.unit(unit, v);
      finish(unit, v);
    }
  }

  if constexpr (kConfig.split > 1) {
    using Exchange = UnitExchange<Plan::kUnit, kConfig.split>;
    __syncwarp();
    cluster_sync();
    for (int i = threadIdx.x; i < kAllUnits * Exchange::kShare; i += Plan::kThreads) {
      const int share_lane = i % Exchange::kShare, all = i / Exchange::kShare;
      const int unit = all % Plan::kUnits, group = all / Plan::kUnits;
      float total[Plan::kUnit];
      Exchange::sum(exchange, kAllUnits, all, share_lane, total);
      const int row = place.row + (group % kConfig.warps_m - place.group % kConfig.warps_m) * kConfig.tile_m;
      const int column = place.column + (group / kConfig.warps_m - place.group / kConfig.warps_m) * kConfig.tile_n;
      direct_store<kConfig>(out, row, column, place.rank * Exchange::kShare + share_lane, unit, m, n, total);
    }
  }
}

// lda, ldb: elements from row to row of the matrices as stored.
template <DirectConfig kConfig>
__device__ __forceinline__ void direct_gemm(const u16* a, const u16* b, const Output<kConfig.scaled>& out, int m, int n,
                                            int k, int lda, int ldb) {
  using Plan = DirectPlan<kConfig>;
  extern __shared__ __align__(16) unsigned char shared[];
  if constexpr (kConfig.split > 1) cluster_arrive_relaxed();
  const DirectPlace<kConfig> place;
  const u64 policy = load_policy<kConfig.hint>();
  const int lane_row = Plan::kRows / 8 * (place.lane / 4), lane_column = Plan::kColumns / 8 * (place.lane / 4);
  const auto load = [&](DirectOperands<kConfig>& operands, int depth) {
    if constexpr (kConfig.transposed) {
      operands.rows.load(b, ldb, place.column + lane_row, n, depth, k, policy);
      operands.columns.load(a, lda, place.row + lane_column, m, depth, k, 0);
    } else {
      if constexpr (kConfig.shared_b) {
        if constexpr (!kConfig.once) __syncwarp();  // the round before has been read
        operands.columns.memory =
            shared_address(shared) + Plan::kPartialBytes + Plan::kExchangeBytes + threadIdx.x / 32 * Plan::kStagedBytes;
        operands.columns.load(b, ldb, place.column, n, depth, k);
      } else {
        operands.columns.load(b, ldb, place.column + lane_column, n, depth, k, 0);
      }
      operands.rows.load(a, lda, place.row + lane_row, m, depth, k, policy);
    }
  };
  if constexpr (kConfig.dependents != Dependents::none) grid_dependency_wait();
  if constexpr (kConfig.dependents == Dependents::early) grid_launch_dependents();

  constexpr int kRing = kConfig.ahead + 1;
  DirectOperands<kConfig> ring[kRing];
  DirectSums<kConfig> sums;
#pragma unroll
  for (int i = 0; i < kConfig.ahead; ++i) {
    if (i == 0 || place.depth + i * place.stride < k) load(ring[i], place.depth + i * place.stride);
  }
  int depth = place.depth;
  do {  // every warp has something to load
#pragma unroll
    for (int i = 0; i < kRing; ++i) {
      const int next = depth + kConfig.ahead * place.stride;
      if ((i == 0 && kConfig.ahead == 0) || next < k) load(ring[(i + kConfig.ahead) % kRing], next);
      if (i == 0 || depth < k) sums.add(ring[i]);
      depth += place.stride;
    }
  } while (!kConfig.once && depth < k);
  if constexpr (kConfig.dependents == Dependents::late) grid_launch_dependents();
  direct_finish<kConfig>(sums, place, shared_address(shared), out, m, n);
}

}  // namespace warpsmith::device
