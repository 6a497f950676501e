// What the kernels without shared-memory stages (families tiny and skinny) are built from: a recipe's knobs and the
// problem's class, as one structural value.
#pragma once

#include "device/mma/shared_fragment.cuh"
#include "device/mma/sums.cuh"
#include "device/ptx/load_global.cuh"

namespace warpsmith::device {

enum class Dependents {
  none,   // an ordinary launch
  late,   // dependent grids may start once the operands have been multiplied
  early,  // as soon as the operands of this grid are there to be read
};

struct DirectConfig {
  // Problem class.
  Element element = Element::f16;
  bool a_k_major = true;  // A stored m x k; otherwise k x m
  bool b_k_major = true;  // B stored n x k; otherwise k x n
  int a_granule = 16;     // bytes that a matrix's rows as stored are aligned to and whole multiples of
  int b_granule = 16;
  int c_granule = 16;
  bool whole_m = true, whole_n = true;  // the block's tile divides the size
  bool whole_k = true;                  // depth divides k
  bool once = false;                    // k is no more than one round of loads by all warps
  bool f16_sums = false;                // accumulates in FP16 within a warp
  bool scaled = false;                  // C = alpha A B + beta C
  // Knobs.
  int tile_m = 16, tile_n = 16;    // of one warp
  int depth = 64;                  // k that a warp loads at once
  int warps_m = 1, warps_n = 1;    // of a block, side by side
  int warps_k = 4;                 // of a block, sharing k
  int split = 1;                   // blocks of a cluster that share k
  int ahead = 0;                   // loads of `depth` that are under way while another is multiplied
  bool shared_b = false;           // B, whose rows run along N, comes through shared memory
  bool transposed = false;         // N takes mma's side of 16, M that of 8; otherwise the other way round
  LoadHint hint = LoadHint::keep;  // for the operand on the side of 16
  int fetch = 0;                   // bytes that the second-level cache fetches per load, 0 for its own choice
  Dependents dependents = Dependents::none;
};

// What follows from a configuration. Rows and columns are those of the mma instruction, not of C.
template <DirectConfig kConfig>
struct DirectPlan {
  static constexpr int kBlockM = kConfig.tile_m * kConfig.warps_m, kBlockN = kConfig.tile_n * kConfig.warps_n;
  static constexpr int kGroups = kConfig.warps_m * kConfig.warps_n;  // of warps that share a tile
  static constexpr int kThreads = 32 * kGroups * kConfig.warps_k;
  static constexpr int kRows = kConfig.transposed ? kConfig.tile_n : kConfig.tile_m;
  static constexpr int kColumns = kConfig.transposed ? kConfig.tile_m : kConfig.tile_n;

  // A lane's results are a patch of C: kPatchM x kPatchN elements, handled in units of up to eight along N.
  static constexpr int kLaneRows = kRows / 8, kLaneColumns = kColumns / 4;
  static constexpr int kPatchM = kConfig.transposed ? kLaneColumns : kLaneRows;
  static constexpr int kPatchN = kConfig.transposed ? kLaneRows : kLaneColumns;
  static constexpr int kUnit = kConfig.shared_b ? 2 : min(kPatchN, 8);
  static constexpr int kUnits = kPatchM * kPatchN / kUnit;

  static constexpr int kTileBytes = 4 * kRows * kColumns;
  static constexpr int kPartialBytes = kConfig.warps_k > 1 ? kTileBytes* kGroups* kConfig.warps_k : 0;
  static constexpr int kExchangeBytes = kConfig.split > 1 ? kTileBytes* kGroups : 0;
  using SharedB = SharedFragment<kColumns / 8, kConfig.depth, kConfig.whole_n, kConfig.whole_k, kConfig.fetch>;
  static constexpr int kStagedBytes =
      kConfig.shared_b ? shared_fragment_bytes(kColumns / 8, kConfig.depth) : 0;  // a warp
  static constexpr int kSharedBytes = kPartialBytes + kExchangeBytes + kThreads / 32 * kStagedBytes;

  // Registers per thread: operands in flight and accumulators. What is loaded by single elements takes a register each.
  static constexpr bool kSingleA = kConfig.a_granule == 2 || (!kConfig.a_k_major && kConfig.tile_m == 8);
  static constexpr bool kSingleB = kConfig.b_granule == 2 || (!kConfig.b_k_major && kConfig.tile_n == 8);
  static constexpr int kOperandRegisters =
      (kConfig.ahead + 1) *
      (kConfig.tile_m * kConfig.depth / (kSingleA ? 32 : 64) + kConfig.tile_n * kConfig.depth / (kSingleB ? 32 : 64));
  static constexpr int kAccumulators = kRows * kColumns / 32;

  static_assert(!kConfig.f16_sums || kConfig.element == Element::f16, "mma sums f16 products alone in FP16");
  static_assert(kRows % 16 == 0 && kColumns % 8 == 0, "mma takes 16 rows and 8 columns");
  static_assert(kConfig.depth % 16 == 0, "mma takes 16 of k");
  static_assert(kThreads <= 512, "a thread has 128 registers");
  static_assert(kOperandRegisters + kAccumulators + 56 <= min(255, 65536 / kThreads), "operands fit in the registers");
  static_assert(kConfig.split <= 16, "a cluster has at most 16 blocks");
  static_assert(!kConfig.shared_b || (!kConfig.b_k_major && !kConfig.transposed && kConfig.b_granule == 16 &&
                                      kConfig.ahead == 0 && kConfig.depth % 32 == 0),
                "whole rows of B along N are transposed on the side of 8, one round at a time");
};

}  // namespace warpsmith::device
