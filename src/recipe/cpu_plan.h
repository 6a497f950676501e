// What a cpu recipe means for one problem: balanced tiles, thread grid, blocks and workspace, all in numbers.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

// Values of the fields "simd", "form", "a", "b", "order", "nest", "prefetch_a" and "split".
enum CpuSimd { kCpuAvx2, kCpuAvx512Vl, kCpuAvx512 };
enum CpuForm { kCpuOuter, kCpuInner };
enum CpuSource { kCpuDirect, kCpuFused, kCpuPacked };
enum CpuOrder { kCpuColumnsInner, kCpuRowsInner };
enum CpuNest { kCpuNestRows, kCpuNestDepth };
enum CpuPrefetchA { kCpuPrefetchANone, kCpuPrefetchANextDepth, kCpuPrefetchANextRows };
enum CpuSplit { kCpuSplitM, kCpuSplitN, kCpuSplitMn, kCpuSplitK };

struct CpuPlan {
  int lanes = 16;       // floats per vector
  bool avx512 = false;  // compiled for x86-64-v4
  bool outer = true;
  CpuSource a = kCpuPacked, b = kCpuPacked;
  int rows = 1;     // of the larger register tiles; the others have one less
  int columns = 1;  // likewise: vectors (outer) or elements (inner)
  std::int64_t row_tiles = 1, column_tiles = 1;
  bool uneven_rows = false, uneven_columns = false;  // whether such smaller tiles occur
  std::int64_t block_k = 1;                          // elements
  std::int64_t block_rows = 1, block_columns = 1;    // tiles
  bool depth_inner = false;                          // all blocks of k of a row block before the next row block
  std::int64_t prefetch_a = 0;                       // elements ahead; 0: none
  int threads_m = 1, threads_n = 1, threads_k = 1;
  int a_stride = 0;  // floats between rows of packed A (outer, A K-major), else 0
  // Workspace of one thread, in this order: packed A, packed B, float sums.
  std::int64_t packed_a_bytes = 0, packed_b_bytes = 0, sums_bytes = 0, thread_bytes = 0;

  int threads() const { return threads_m * threads_n * threads_k; }
  std::int64_t workspace_bytes() const { return thread_bytes * threads(); }
};

// Precondition: the recipe is of the cpu family. Also defined for illegal recipes, whose rules read it.
CpuPlan plan_cpu(const Recipe& recipe, const Problem& problem);

}  // namespace warpsmith
