// What an sm80 kernel is built from: the recipe's knobs and the problem's class, as one structural value.
#pragma once

#include "device/ptx/types.cuh"
#include "device/schedule/loop_program.cuh"
#include "device/schedule/raster.cuh"

namespace warpsmith::device {

enum class Sm80Epilogue {
  pairs,   // from registers, two elements a store
  lanes,   // from registers, 16 bytes a store after an exchange among four lanes
  staged,  // through shared memory, whole rows in 16-byte stores
};

// Where the sums of blocks that share K meet.
enum class Sm80Meeting {
  cluster,    // in distributed shared memory (compute capability 9.0)
  workspace,  // in global memory; the block that comes last adds them up
};

struct Sm80Config {
  // Problem class.
  Element element = Element::f16;
  bool a_k_major = true;  // A stored m x k; otherwise k x m
  bool b_k_major = true;  // B stored n x k; otherwise k x n
  int a_granule = 16;     // bytes that the alignment of A's rows allows to copy at once
  int b_granule = 16;
  bool scaled = false;     // C = alpha A B + beta C
  bool half_sums = false;  // FP16 accumulators
  // Knobs.
  int tile_m = 128, tile_n = 128, tile_k = 32;  // of one block
  int warps_m = 2, warps_n = 2;                 // grid of warps over the tile
  int warps_k = 1;                              // warps that share the tile's K
  int stages = 4;
  LoopPlan loop;
  int split = 1;  // blocks that share K
  Sm80Meeting meeting = Sm80Meeting::cluster;
  Raster raster = Raster::m;
  int group = 8;
  int fetch = 0;  // bytes that the second-level cache fetches per copy at least, 0 for its own choice
  Sm80Epilogue epilogue = Sm80Epilogue::lanes;
  int pdl = 0;  // dependents may start: 0 at the end, 1 after the main loop, 2 at once
};

template <Sm80Config kConfig>
struct Sm80Plan {
  static constexpr int kGroup = kConfig.warps_m * kConfig.warps_n;  // warps that cover the tile once
  static constexpr int kThreads = 32 * kGroup * kConfig.warps_k;
  static constexpr int kWarpRows = kConfig.tile_m / kConfig.warps_m;
  static constexpr int kWarpColumns = kConfig.tile_n / kConfig.warps_n;
  static constexpr int kBlocksM = kWarpRows / 16, kBlocksN = kWarpColumns / 8;  // mma instructions
  static constexpr int kSteps = kConfig.tile_k / (16 * kConfig.warps_k);        // k-steps of a warp in a stage
  static constexpr LoopProgram kLoop = make_loop(kConfig.loop, kSteps, kConfig.stages);

  static constexpr int kStageBytes = 2 * kConfig.tile_k * (kConfig.tile_m + kConfig.tile_n);
  // FP32 sums of the warps that share K, and of the blocks that do, lie where the stages were.
  static constexpr bool kReduces = kConfig.warps_k > 1 || kConfig.split > 1;
  static constexpr int kSumsPitch = 4 * (kConfig.tile_n + 8);
  static constexpr int kSumsBytes = kReduces ? kConfig.warps_k * kConfig.tile_m * kSumsPitch : 0;
  static constexpr int kRowPitch = 2 * (kConfig.tile_n + 8);
  static constexpr int kRowBytes =
      !kReduces && kConfig.epilogue == Sm80Epilogue::staged ? kConfig.tile_m * kRowPitch : 0;
  static constexpr int kSharedBytes = max(kConfig.stages * kStageBytes, max(kSumsBytes, kRowBytes));

  // Registers of a thread: sums, fragments, and about 48 more.
  static constexpr int kSumRegisters = kWarpRows * kWarpColumns / (kConfig.half_sums ? 64 : 32);
  static constexpr int kFragmentRegisters = kConfig.loop.fragments * (kWarpRows + kWarpColumns) / 4;

  static_assert(kConfig.tile_m % (16 * kConfig.warps_m) == 0, "a warp takes a multiple of 16 rows");
  static_assert(kConfig.tile_n % (8 * kConfig.warps_n) == 0, "a warp takes a multiple of 8 columns");
  static_assert(kConfig.tile_k % (16 * kConfig.warps_k) == 0, "a warp takes a multiple of 16 of K");
  static_assert(kConfig.tile_m % 32 == 0 && kConfig.tile_n % 32 == 0 && kConfig.tile_k % 32 == 0);
  static_assert(kThreads <= 512 && kConfig.stages >= 2 && kConfig.stages <= 8);
  static_assert(kSumRegisters + kFragmentRegisters + 48 <= min(255, 65536 / kThreads),
                "sums and fragments fit in the registers");
  static_assert(is_whole(kConfig.loop, kSteps, kConfig.stages), "the loop names k-steps and stages that there are");
  static_assert(kLoop.unroll * kSteps <= 32, "the loop's body is short");
  static_assert(find_loop_fault(kLoop).error == LoopError::none, "the loop reads what is there and keeps what is read");
  static_assert(!kReduces || kConfig.epilogue == Sm80Epilogue::staged, "sums meet in shared memory");
};

}  // namespace warpsmith::device
