// Which pieces of which tiles an sm90 block works on, and its place in the cluster.
#pragma once

#include "device/kernels/sm90_config.cuh"
#include "device/ptx/barrier.cuh"
#include "device/ptx/matrix.cuh"
#include "device/schedule/stream.cuh"

namespace warpsmith::device {

// Where the tiles of a grid lie whose blocks do not loop: clusters come in rows of `fast`, rows in planes of `slow`.
// The host divides ahead, since a block's first load would wait for it. A row runs along the raster direction. A plane
// is a band of tiles, or all of them, for one part of K.
struct Sm90Places {
  int fast, slow;
  u32 fast_inverse, slow_inverse;  // 2^31 over each, rounded up; clusters times either stay below 2^31
  int parts, part_depth;           // of K, and the fewest stages of one
  int turns;                       // of a grid that loops: 1: every other tile is taken from the end of K

  static __device__ __forceinline__ int divide(int index, u32 inverse) {
    return static_cast<int>(static_cast<u64>(index) * inverse >> 31);
  }
};

// Ranks count along M, then N, then K. "Tiles" are those of a whole cluster.
template <Sm90Config kConfig>
struct Sm90Schedule {
  using Plan = Sm90Plan<kConfig>;
  static constexpr int kClusterSize = Plan::kClusterSize;
  static constexpr bool kLoops = Plan::kLoops;
  int clusters_m, clusters_n;  // tiles along M and N; of a grid that loops
  int depth;                   // stages along K
  int rank = 0, rank_m = 0, rank_n = 0, rank_k = 0;
  int cluster, clusters;   // this cluster among all of the grid
  int part, parts, plane;  // of the tile's K; how many; clusters from one to the next
  // The current piece: a tile, the first row and column of this block's part of it, and its range of stages.
  int tile, first_k, last_k;
  TileCoordinate origin;
  // The stages of this tile are taken from the last to the first: there the operand that it shares with the one before
  // is in the cache. turns: as Sm90Places.
  bool turned = false;
  int turns = 0;
  // Stream-K: the tiles that do not fill a wave are dealt first, then whole ones follow.
  StreamDeal deal;
  int left;       // stages of this cluster's current stretch, which is a dealt one or a whole tile
  int next_tile;  // that is worked on whole

  __device__ __forceinline__ Sm90Schedule(int m, int n, int k, const Sm90Places& places) {
    if constexpr (kClusterSize > 1) {
      rank = warp_uniform(cluster_rank());
      rank_m = rank % kConfig.cluster_m;
      rank_n = rank / kConfig.cluster_m % kConfig.cluster_n;
      rank_k = rank / (kConfig.cluster_m * kConfig.cluster_n);
    }
    cluster = blockIdx.x / kClusterSize;
    clusters = gridDim.x / kClusterSize;
    depth = ceil_div(k, kConfig.tile_k);
    if constexpr (!kLoops) {
      place_alone(m, n, places);
      return;
    }
    clusters_m = ceil_div(ceil_div(m, kConfig.tile_m), kConfig.cluster_m);
    clusters_n = ceil_div(ceil_div(n, kConfig.tile_n), kConfig.cluster_n);
    if constexpr (kConfig.streamk) {
      const int tiles = clusters_m * clusters_n;
      const int dealt = tiles - quick_divide(tiles, clusters) * clusters;
      deal.depth = depth;
      deal.total = dealt * depth;
      deal.workers = min(clusters, dealt * depth);
      next_tile = dealt + cluster;
      if (cluster < deal.workers) {
        const int first = deal.first_stage(cluster);
        left = deal.first_stage(cluster + 1) - first;
        tile = deal.tile_of(first);
        first_k = first - tile * depth;
        take();
      } else {
        take_whole();
      }
    } else {
      tile = cluster;
      turns = places.turns;
      first_k = 0;
      last_k = depth;
      origin = origin_of(tile);
    }
  }

  // The only piece of this cluster. tile: 0 while there is one to work on.
  __device__ __forceinline__ void place_alone(int m, int n, const Sm90Places& places) {
    const int row = Sm90Places::divide(cluster, places.fast_inverse);
    const int beyond = Sm90Places::divide(row, places.slow_inverse);  // planes
    int along = cluster - row * places.fast;
    const int across = row - beyond * places.slow;
    if constexpr (kConfig.parts) {
      part = beyond;
      parts = places.parts;
      plane = places.fast * places.slow;
      const int longer = depth - places.part_depth * parts;  // the first parts have a stage more
      first_k = places.part_depth * part + min(part, longer);
      last_k = first_k + places.part_depth + (part < longer ? 1 : 0);
    } else {
      along += beyond * places.fast;
      first_k = depth * rank_k / kConfig.split;
      last_k = depth * (rank_k + 1) / kConfig.split;
    }
    const TileCoordinate at =
        kConfig.raster == Raster::m ? TileCoordinate{along, across} : TileCoordinate{across, along};
    origin = origin_of(at);
    // The last band may have fewer tiles than the others. The whole cluster is outside, or has a block that is not.
    const bool outside = !kConfig.parts && (at.m * (kConfig.cluster_m * kConfig.tile_m) >= m ||
                                            at.n * (kConfig.cluster_n * kConfig.tile_n) >= n);
    tile = outside ? 1 : 0;
  }

  __device__ __forceinline__ bool valid() const {
    if constexpr (!kLoops) return tile == 0;
    return tile < clusters_m * clusters_n;
  }
  __device__ __forceinline__ void advance() {
    if constexpr (!kLoops) {
      tile = 1;
      // A loop for all that the compiler knows: so it computes what the epilogue needs before the main loop, where
      // there is time, and keeps what scaling takes behind it, where there are registers.
      compute_here(tile);
    } else if constexpr (kConfig.streamk) {
      left -= last_k - first_k;
      if (left == 0) {
        take_whole();
      } else {
        ++tile;
        first_k = 0;
        take();
      }
    } else {
      tile += clusters;
      turned = turns != 0 && !turned;
      if (valid()) origin = origin_of(tile);  // there is no place past the last tile
    }
  }
  // As much of the tile as the stretch has, from first_k on.
  __device__ __forceinline__ void take() {
    last_k = min(depth, first_k + left);
    if (valid()) origin = origin_of(tile);
  }
  __device__ __forceinline__ void take_whole() {
    tile = next_tile;
    next_tile += clusters;
    first_k = 0;
    left = depth;
    take();
  }
  // Only stream-K has pieces that are not whole tiles.
  __device__ __forceinline__ bool whole() const { return last_k - first_k == depth; }

  __device__ __forceinline__ TileCoordinate origin_of(TileCoordinate at) const {
    return {(at.m * kConfig.cluster_m + rank_m) * kConfig.tile_m, (at.n * kConfig.cluster_n + rank_n) * kConfig.tile_n};
  }
  __device__ __forceinline__ TileCoordinate origin_of(int of_tile) const {
    return origin_of(raster_tile<kConfig.raster, kConfig.group>(of_tile, clusters_m, clusters_n));
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

}  // namespace warpsmith::device
