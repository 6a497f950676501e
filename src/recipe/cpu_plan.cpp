// Balanced tiles, thread grid, blocks and workspace of a cpu recipe.
#include "recipe/cpu_plan.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace warpsmith {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// As few tiles of at most `tile` as cover `size`, but a multiple of `threads` so that every thread gets as many.
std::int64_t tile_count(std::int64_t size, std::int64_t tile, int threads) {
  const std::int64_t least = ceil_div(size, tile);
  const std::int64_t even = round_up(least, threads);
  return even <= size ? even : least;
}

// Zero stands for "all".
std::int64_t block_or_all(int block, std::int64_t all) { return block == 0 ? all : std::min<std::int64_t>(block, all); }

void set_thread_grid(CpuPlan& plan, CpuSplit split, int threads, const Problem& problem) {
  if (split == kCpuSplitM) plan.threads_m = threads;
  if (split == kCpuSplitN) plan.threads_n = threads;
  if (split == kCpuSplitK) plan.threads_k = threads;
  if (split != kCpuSplitMn) return;
  // The grid whose shares read the fewest rows of A and columns of B.
  double least = std::numeric_limits<double>::infinity();
  for (int along_m = 1; along_m <= threads; ++along_m) {
    if (threads % along_m != 0) continue;
    const int along_n = threads / along_m;
    const double share = static_cast<double>(problem.m) / along_m + static_cast<double>(problem.n) / along_n;
    if (share < least) {
      least = share;
      plan.threads_m = along_m;
      plan.threads_n = along_n;
    }
  }
}

void set_workspace(CpuPlan& plan, const Problem& problem) {
  constexpr std::int64_t kFloat = sizeof(float), kLine = 64, kPage = 4096;
  constexpr std::int64_t kSlack = 64;  // floats: whole-vector reads of sums pass the last one
  const std::int64_t depth = round_up(plan.block_k, plan.lanes);
  if (plan.a == kCpuPacked) {
    std::int64_t tile = depth * (plan.outer ? round_up(plan.rows, plan.lanes) : plan.rows);
    if (plan.a_stride > 0) tile = std::int64_t{plan.rows} * plan.a_stride;
    plan.packed_a_bytes = round_up(plan.block_rows * tile * kFloat, kLine);
  }
  if (plan.b != kCpuDirect) {
    const std::int64_t tile = depth * plan.columns * (plan.outer ? plan.lanes : 1);
    const bool all_depths = plan.depth_inner && plan.b == kCpuPacked;
    const std::int64_t depths = all_depths ? ceil_div(ceil_div(problem.k, plan.threads_k), plan.block_k) : 1;
    plan.packed_b_bytes = round_up((plan.b == kCpuFused ? 1 : plan.block_columns) * tile * kFloat * depths, kLine);
  }
  if (plan.block_k < problem.k) {
    const std::int64_t width = round_up(plan.block_columns * plan.columns * (plan.outer ? plan.lanes : 1), 16) | 16;
    const bool one_block = plan.depth_inner && plan.threads_k == 1;
    const std::int64_t tiles = one_block ? plan.block_rows : ceil_div(plan.row_tiles, plan.threads_m);
    const std::int64_t height = tiles * plan.rows;
    plan.sums_bytes = (width * height + kSlack) * kFloat;
  }
  plan.thread_bytes = round_up(plan.packed_a_bytes + plan.packed_b_bytes + plan.sums_bytes, kPage);
}

}  // namespace

CpuPlan plan_cpu(const Recipe& recipe, const Problem& problem) {
  CpuPlan plan;
  const int simd = recipe.get("simd");
  plan.avx512 = simd != kCpuAvx2;
  plan.lanes = simd == kCpuAvx512 ? 16 : 8;
  plan.outer = recipe.get("form") == kCpuOuter;
  plan.a = static_cast<CpuSource>(recipe.get("a"));
  plan.b = static_cast<CpuSource>(recipe.get("b"));
  set_thread_grid(plan, static_cast<CpuSplit>(recipe.get("split")), recipe.get("threads"), problem);

  const std::int64_t column_units = plan.outer ? ceil_div(problem.n, plan.lanes) : problem.n;
  plan.row_tiles = tile_count(problem.m, recipe.get("tile_rows"), plan.threads_m);
  plan.column_tiles = tile_count(column_units, recipe.get("tile_columns"), plan.threads_n);
  plan.rows = static_cast<int>(ceil_div(problem.m, plan.row_tiles));
  plan.columns = static_cast<int>(ceil_div(column_units, plan.column_tiles));

  plan.uneven_rows = problem.m % plan.row_tiles != 0;
  plan.uneven_columns = column_units % plan.column_tiles != 0;

  const std::int64_t thread_k = ceil_div(problem.k, plan.threads_k);
  const std::int64_t blocks_k = ceil_div(thread_k, block_or_all(recipe.get("block_k"), thread_k));
  plan.block_k = blocks_k == 1 ? thread_k : round_up(ceil_div(thread_k, blocks_k), 16);
  plan.block_rows = block_or_all(recipe.get("block_m"), ceil_div(plan.row_tiles, plan.threads_m));
  plan.block_columns = block_or_all(recipe.get("block_n"), ceil_div(plan.column_tiles, plan.threads_n));

  plan.depth_inner = recipe.get("nest") == kCpuNestDepth;
  if (recipe.get("prefetch_a") == kCpuPrefetchANextDepth) plan.prefetch_a = plan.outer ? plan.block_k : 256;
  if (recipe.get("prefetch_a") == kCpuPrefetchANextRows) plan.prefetch_a = plan.rows * problem.a_cols();

  if (plan.outer && problem.a_is_k_major()) {
    // Powers of two, so that blocks of about one size share a compiled kernel; the extra line keeps rows out of one
    // set.
    constexpr std::uint64_t kLeast = 64;
    plan.a_stride = static_cast<int>(std::bit_ceil(std::max(kLeast, static_cast<std::uint64_t>(plan.block_k)))) + 16;
  }
  set_workspace(plan, problem);
  return plan;
}

}  // namespace warpsmith
