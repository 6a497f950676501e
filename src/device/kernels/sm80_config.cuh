// What an sm80 kernel is built from: the recipe's knobs and the problem's class, as one structural value.
#pragma once

#include "device/ptx/types.cuh"
#include "device/schedule/raster.cuh"

namespace warpsmith::device {

struct Sm80Config {
  // Problem class.
  Element element = Element::f16;
  bool a_k_major = true;  // A stored m x k; otherwise k x m
  bool b_k_major = true;  // B stored n x k; otherwise k x n
  int a_granule = 16;     // bytes that the alignment of A's rows allows to copy at once
  int b_granule = 16;
  // Knobs.
  int tile_m = 128, tile_n = 128, tile_k = 32;  // of one block
  int warps_m = 2, warps_n = 2;                 // grid of warps over the tile
  int stages = 4;
  Raster raster = Raster::m;
  int group = 8;
};

template <Sm80Config kConfig>
struct Sm80Plan {
  static constexpr int kThreads = 32 * kConfig.warps_m * kConfig.warps_n;
  static constexpr int kWarpRows = kConfig.tile_m / kConfig.warps_m;
  static constexpr int kWarpColumns = kConfig.tile_n / kConfig.warps_n;
  static constexpr int kStageBytes = 2 * kConfig.tile_k * (kConfig.tile_m + kConfig.tile_n);
  static constexpr int kSharedBytes = kConfig.stages * kStageBytes;

  static_assert(kConfig.tile_m % (16 * kConfig.warps_m) == 0, "a warp takes a multiple of 16 rows");
  static_assert(kConfig.tile_n % (16 * kConfig.warps_n) == 0, "a warp takes a multiple of 16 columns");
  static_assert(kConfig.tile_m % 32 == 0 && kConfig.tile_n % 32 == 0 && kConfig.tile_k % 32 == 0);
  static_assert(kThreads <= 1024 && kConfig.stages >= 2);
  static_assert(kWarpRows * kWarpColumns / 32 <= 128, "the accumulators fit in the registers");
};

}  // namespace warpsmith::device
