// Shared memory of an sm90 block.
#pragma once

#include "device/copy/operand_tile.cuh"
#include "device/epilogue/cluster_reduce.cuh"
#include "device/epilogue/tma_boxes.cuh"
#include "device/epilogue/workspace_reduce.cuh"
#include "device/kernels/sm90_config.cuh"

namespace warpsmith::device {

inline constexpr int kMostReceiverBytes = 32 << 10;

// Stages of A, stages of B, the epilogue's buffer, then the barriers. Where a block handles one tile, the epilogue
// reuses the stages.
template <Sm90Config kConfig>
struct Sm90Memory {
  using Plan = Sm90Plan<kConfig>;
  using TileA = OperandTile<kConfig.tile_m, kConfig.tile_k, kConfig.a_k_major, kConfig.cluster_n, kConfig.evict_a>;
  using TileB = OperandTile<kConfig.tile_n, kConfig.tile_k, kConfig.b_k_major, kConfig.cluster_m, kConfig.evict_b>;

  // Rows and columns of C in a warpgroup's part of a tile.
  static constexpr int kPartRows = kConfig.swap ? kConfig.tile_n : Plan::kWarpgroupRows;
  static constexpr int kPartColumns = kConfig.swap ? Plan::kWarpgroupRows : kConfig.tile_n;
  using Pushed = PushedTile<kConfig.tile_m, kConfig.tile_n, kConfig.split>;
  using Shared = WorkspaceTile<kConfig.tile_m, kConfig.tile_n>;
  using Rows = StagedRows<kPartRows, kPartColumns>;
  // Of 64 rows of the product; with staging, of one slice of them.
  static constexpr int kBoxRows = kConfig.swap ? kConfig.tile_n : 64;
  static constexpr int kBoxColumns = kConfig.swap || kConfig.staging != 0 ? 64 : kConfig.tile_n;
  using Boxes = StoreBoxes<kBoxRows, kBoxColumns>;
  static constexpr int kBuffers = kConfig.staging > 0 ? kConfig.staging : 1;

  static constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr int kPipelineBytes = kConfig.stages * kStageBytes;
  static constexpr int kWarpgroupBytes = kConfig.epilogue == Epilogue::staged ? Rows::kBytes
                                         : kConfig.epilogue == Epilogue::tma
                                             ? kBuffers * Plan::kRowBlocks * Boxes::kBytes
                                             : 0;
  static constexpr int kEpilogueBytes = kConfig.split > 1 ? Pushed::kBytes : kConfig.consumers* kWarpgroupBytes;
  static constexpr int kA = 0;
  static constexpr int kB = kConfig.stages * TileA::kBytes;
  // A small receiver of partial sums has memory of its own: nobody waits until its stages are free.
  static constexpr bool kOwnReceiver = kConfig.split > 1 && Pushed::kBytes <= kMostReceiverBytes;
  static constexpr int kEpilogue = kConfig.persistent || kOwnReceiver ? round_up(kPipelineBytes, 1024) : 0;
  static constexpr int kFull = round_up(max(kPipelineBytes, kEpilogue + kEpilogueBytes), 16);
  static constexpr int kEmpty = kFull + 8 * kConfig.stages;
  static constexpr int kTurn = kEmpty + 8 * kConfig.stages;          // whose turn it is, with ping-pong
  static constexpr int kSums = kTurn + (kConfig.pingpong ? 16 : 0);  // counts partial sums, with split-K
  static constexpr int kBytes = kSums + (kConfig.split > 1 ? 8 : 0);
};

}  // namespace warpsmith::device
