// Stream-K: the pipeline stages of some tiles, tile after tile in one row, dealt evenly to workers. A worker's stretch
// may begin and end inside a tile; the workers of a tile follow one another.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

struct StreamDeal {
  u32 depth;    // stages along K of one tile
  u32 total;    // stages of all dealt tiles; products with `workers` stay below
                // 2^31
  u32 workers;  // at most `total`, so that every stretch has a stage

  __device__ __forceinline__ u32 first_stage(u32 worker) const { return worker * total / workers; }
  __device__ __forceinline__ u32 worker_of(u32 stage) const { return ((stage + 1) * workers - 1) / total; }
};

}  // namespace warpsmith::device
