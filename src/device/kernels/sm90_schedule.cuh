// Which pieces of which tiles an sm90 block works on, and its place in the cluster.
#pragma once

#include "device/kernels/sm90_config.cuh"
#include "device/ptx/barrier.cuh"
#include "device/schedule/stream.cuh"

namespace warpsmith::device {

// Ranks count along M, then N, then K. "Tiles" are those of a whole cluster.
template <Sm90Config kConfig>
struct Sm90Schedule {
  static constexpr int kClusterSize = Sm90Plan<kConfig>::kClusterSize;
  int clusters_m, clusters_n;  // tiles along M and N
  int depth;                   // stages along K
  int rank = 0, rank_m = 0, rank_n = 0, rank_k = 0;
  int cluster, clusters;  // this cluster among all of the grid
  // The current piece: a tile, the first row and column of this block's part of it, and its range of stages.
  int tile, first_k, last_k;
  TileCoordinate origin;
  // Stream-K: the tiles that do not fill a wave are dealt first, then whole ones follow.
  StreamDeal deal;
  int left;       // stages of this cluster's current stretch, which is a dealt one or a whole tile
  int next_tile;  // that is worked on whole

  __device__ __forceinline__ Sm90Schedule(int m, int n, int k) {
    clusters_m = ceil_div(ceil_div(m, kConfig.tile_m), kConfig.cluster_m);
    clusters_n = ceil_div(ceil_div(n, kConfig.tile_n), kConfig.cluster_n);
    if constexpr (kClusterSize > 1) {
      rank = warp_uniform(cluster_rank());
      rank_m = rank % kConfig.cluster_m;
      rank_n = rank / kConfig.cluster_m % kConfig.cluster_n;
      rank_k = rank / (kConfig.cluster_m * kConfig.cluster_n);
    }
    cluster = blockIdx.x / kClusterSize;
    clusters = gridDim.x / kClusterSize;
    depth = ceil_div(k, kConfig.tile_k);
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
      first_k = depth * rank_k / kConfig.split;
      last_k = depth * (rank_k + 1) / kConfig.split;
      origin = origin_of(tile);
    }
  }

  __device__ __forceinline__ bool valid() const { return tile < clusters_m * clusters_n; }
  __device__ __forceinline__ void advance() {
    if constexpr (kConfig.streamk) {
      left -= last_k - first_k;
      if (left == 0) {
        take_whole();
      } else {
        ++tile;
        first_k = 0;
        take();
      }
    } else {
      tile += kConfig.persistent ? clusters : clusters_m * clusters_n;
      if (kConfig.persistent && valid()) origin = origin_of(tile);  // there is no place past the last tile
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

  __device__ __forceinline__ TileCoordinate origin_of(int of_tile) const {
    const TileCoordinate at = raster_tile<kConfig.raster, kConfig.group>(of_tile, clusters_m, clusters_n);
    return {(at.m * kConfig.cluster_m + rank_m) * kConfig.tile_m, (at.n * kConfig.cluster_n + rank_n) * kConfig.tile_n};
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
