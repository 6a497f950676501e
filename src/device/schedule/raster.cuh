// The order in which tiles are visited, and the ring position of the load pipeline.
#pragma once

#include "device/schedule/divide.cuh"

namespace warpsmith::device {

enum class Raster { m, n };

struct TileCoordinate {
  int m, n;
};

// Tile number `index` of a tiles_m x tiles_n grid, visited in bands of kGroup tiles along the raster direction; inside
// a band that direction runs fastest, so that the tiles in flight share operand rows and columns in the L2 cache.
template <Raster kRaster, int kGroup>
__device__ __forceinline__ TileCoordinate raster_tile(int index, int tiles_m, int tiles_n) {
  const int along = kRaster == Raster::m ? tiles_m : tiles_n;
  const int across = kRaster == Raster::m ? tiles_n : tiles_m;
  int fast, slow;
  if constexpr (kGroup == 1) {
    fast = quick_divide(index, across);
    slow = index - fast * across;
  } else {
    const int band = quick_divide(index, kGroup * across);
    const int within = index - band * kGroup * across;
    const int width = min(kGroup, along - band * kGroup);
    slow = quick_divide(within, width);
    fast = band * kGroup + within - slow * width;
  }
  return kRaster == Raster::m ? TileCoordinate{fast, slow} : TileCoordinate{slow, fast};
}

// Position in a ring of kStages slots; `phase` is the parity of the slot's barriers.
template <int kStages>
struct RingPosition {
  int slot = 0;
  u32 phase = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1;
    }
  }
  __device__ __forceinline__ void skip(u32 positions) {
    const u32 at = slot + positions;
    phase ^= at / kStages & 1;
    slot = at % kStages;
  }
};

}  // namespace warpsmith::device
