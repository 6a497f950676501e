// The sm90 family's knobs as numbers, and what follows from them for a problem:
// boxes, shared memory, threads, grid. The device code derives the same
// figures; generated sources assert that both agree.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

enum Sm90RasterValue { kSm90RasterM, kSm90RasterN };
enum Sm90EpilogueValue { kSm90Direct, kSm90Staged, kSm90Tma };
enum Sm90EvictValue { kSm90EvictNormal, kSm90EvictFirst, kSm90EvictLast };

// M, N, A and B are those of the product that is computed: with `swap`, of C^T
// = B^T A^T.
struct Sm90Knobs {
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int cluster_m = 1, cluster_n = 1, split = 1;
  int stages = 0, consumers = 0, pace = 0;
  int raster = kSm90RasterM, group = 1;
  int persistent = 0, streamk = 0, pingpong = 0, swap = 0, pdl = 0;
  int epilogue = kSm90Direct, staging = 0;
  int evict_a = kSm90EvictNormal, evict_b = kSm90EvictNormal;

  int cluster_split() const { return streamk ? 1 : split; }  // blocks of a cluster along K
  bool parts() const { return streamk && split > 1; }        // every tile in equal parts, a cluster each
  bool loops() const { return persistent && !parts(); }      // a block works on several tiles
  int cluster_size() const { return cluster_m * cluster_n * cluster_split(); }
  // Registers per thread; two FP16 sums share one.
  int accumulators(AccumulatorType type = AccumulatorType::f32) const {
    return tile_m * tile_n / ((type == AccumulatorType::f16 ? 256 : 128) * (pingpong ? 1 : consumers));
  }
};
Sm90Knobs sm90_knobs(const Recipe& recipe);

// The product that is computed.
struct Sm90Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_k_major = true, b_k_major = true;
};
Sm90Product sm90_product(const Sm90Knobs& knobs, const Problem& problem);

// TMA boxes of one operand's tile: `boxes` of `columns` x `rows` elements. With
// multicast each of the blocks that share the tile loads a share of the rows.
struct Sm90Boxes {
  int boxes = 0, columns = 0, rows = 0;
  int swizzle_bytes() const { return 2 * columns; }
  int bytes() const { return boxes * columns * rows * 2; }
};
Sm90Boxes sm90_operand_boxes(int tile_rows, int tile_k, bool k_major);
Sm90Boxes sm90_store_boxes(const Sm90Knobs& knobs);  // of C, for 64 rows of the product

int sm90_threads(const Sm90Knobs& knobs);
// Registers per thread that the accumulators may take; fewer where C is scaled.
int sm90_accumulator_limit(const Sm90Knobs& knobs);
int sm90_accumulator_limit(const Sm90Knobs& knobs, const Problem& problem);
std::int64_t sm90_smem_bytes(const Sm90Knobs& knobs, const Problem& problem);
std::int64_t sm90_tiles(const Sm90Knobs& knobs,
                        const Problem& problem);  // a cluster's, covering C
std::int64_t sm90_k_tiles(const Sm90Knobs& knobs, const Problem& problem);
// Clusters that run at the same time, one block per multiprocessor. Where the
// machine does not say, an estimate on the low side, since a cluster lives
// inside one group of multiprocessors and the groups differ in size.
int sm90_resident_clusters(const Sm90Knobs& knobs, const Machine& machine);
std::int64_t sm90_clusters(const Sm90Knobs& knobs, const Problem& problem,
                           const Machine& machine);  // launched
// The clusters of a grid: rows of `fast`, in planes of `slow` rows. Where blocks do not loop, a row runs along the
// raster direction, and a plane is a band of tiles, or all of them for one part of K.
struct Sm90Grid {
  std::int64_t fast = 1, slow = 1, planes = 1;
  std::int64_t clusters() const { return fast * slow * planes; }
};
Sm90Grid sm90_grid(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine);
// Stream-K: tiles that are dealt by stages, and the FP32 workspace, a tile or
// two of every block.
std::int64_t sm90_dealt_tiles(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine);
std::int64_t sm90_workspace_bytes(const Sm90Knobs& knobs, const Problem& problem, const Machine& machine);

}  // namespace warpsmith
