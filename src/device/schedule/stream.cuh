// Stream-K: the pipeline stages of some tiles, tile after tile in one row, dealt evenly to workers. A worker's stretch
// may begin and end inside a tile; the workers of a tile follow one another.
#pragma once

#include "device/schedule/divide.cuh"

namespace warpsmith::device {

// (total + 1) * workers is below 2^24.
struct StreamDeal {
  int depth;    // stages along K of one tile
  int total;    // stages of all dealt tiles
  int workers;  // at most `total`, so that every stretch has a stage; 0: nothing is dealt

  __device__ __forceinline__ int first_stage(int worker) const { return quick_divide(worker * total, workers); }
  __device__ __forceinline__ int worker_of(int stage) const { return quick_divide((stage + 1) * workers - 1, total); }
  __device__ __forceinline__ int tile_of(int stage) const { return quick_divide(stage, depth); }
};

}  // namespace warpsmith::device
