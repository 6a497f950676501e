// The sm90 family's knobs as numbers, and what follows from them for a problem: boxes, shared memory, threads, grid.
// The device code derives the same figures; generated sources assert that both agree.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

enum Sm90RasterValue { kSm90RasterM, kSm90RasterN };
enum Sm90EpilogueValue { kSm90Direct, kSm90Staged, kSm90Tma };

struct Sm90Knobs {
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int cluster_m = 1, cluster_n = 1, split = 1;
  int stages = 0, consumers = 0;
  int raster = kSm90RasterM, group = 1;
  int persistent = 0, pdl = 0;
  int epilogue = kSm90Direct;

  int cluster_size() const { return cluster_m * cluster_n * split; }
  int accumulators() const { return tile_m * tile_n / (128 * consumers); }  // registers per thread
};
Sm90Knobs sm90_knobs(const Recipe& recipe);

// TMA boxes of one operand's tile: `boxes` of `columns` x `rows` elements. With multicast each of the blocks that share
// the tile loads a share of the rows.
struct Sm90Boxes {
  int boxes = 0, columns = 0, rows = 0;
  int swizzle_bytes() const { return 2 * columns; }
  int bytes() const { return boxes * columns * rows * 2; }
};
Sm90Boxes sm90_operand_boxes(int tile_rows, int tile_k, bool k_major);
Sm90Boxes sm90_store_boxes(int tile_n);  // of 64 rows of C

int sm90_threads(const Sm90Knobs& knobs);
int sm90_accumulator_limit(int consumers);  // registers per thread that the accumulators may take
std::int64_t sm90_smem_bytes(const Sm90Knobs& knobs, bool a_k_major, bool b_k_major);
std::int64_t sm90_clusters(const Sm90Knobs& knobs, const Problem& problem);  // groups of tiles that cover C
// Clusters that run at the same time, one block per multiprocessor: an estimate on the low side, since a cluster lives
// inside one group of multiprocessors and the groups differ in size.
int sm90_resident_clusters(const Sm90Knobs& knobs, const Machine& machine);
std::int64_t sm90_k_tiles(const Sm90Knobs& knobs, const Problem& problem);

}  // namespace warpsmith
