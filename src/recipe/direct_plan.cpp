// Arithmetic of the tiny and skinny families: the mirror of device/kernels/direct_config.cuh.
#include "recipe/direct_plan.h"

#include <algorithm>

#include "recipe/sm80_plan.h"

namespace warpsmith {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::int64_t DirectKnobs::smem_bytes() const {
  const std::int64_t tiles = std::int64_t{4} * tile_m * tile_n * groups();  // FP32 sums
  // Of a warp: rows of B, and a gap after every eight.
  const std::int64_t staged = std::int64_t{tile_k} * 2 * tile_n + tile_k / 8 * (tile_n == 8 ? 32 : 16);
  return (warps_k > 1 ? tiles * warps_k : 0) + (split > 1 ? tiles : 0) + (shared_b ? staged * groups() * warps_k : 0);
}

DirectKnobs tiny_knobs(const Recipe& recipe) {
  DirectKnobs knobs;
  knobs.tile_m = recipe.get("tile_m");
  knobs.tile_n = recipe.get("tile_n");
  knobs.tile_k = recipe.get("tile_k");
  knobs.warps_m = recipe.get("warps_m");
  knobs.warps_n = recipe.get("warps_n");
  knobs.warps_k = recipe.get("warps_k");
  knobs.split = recipe.get("split");
  knobs.ahead = recipe.get("ahead");
  knobs.shared_b = recipe.get("b") != 0;
  knobs.transposed = knobs.tile_m == 8;
  knobs.fetch = recipe.get("fetch");
  knobs.pdl = recipe.get("pdl");
  return knobs;
}

bool skinny_transposed(const Problem& problem) { return problem.m <= problem.n; }
std::int64_t skinny_short_side(const Problem& problem) { return std::min(problem.m, problem.n); }

DirectKnobs skinny_knobs(const Recipe& recipe, const Problem& problem) {
  DirectKnobs knobs;
  knobs.transposed = skinny_transposed(problem);
  const std::int64_t side = skinny_short_side(problem);
  const int columns = side <= 8 ? 8 : side <= 16 ? 16 : 32, rows = recipe.get("tile_rows");
  knobs.tile_m = knobs.transposed ? columns : rows;
  knobs.tile_n = knobs.transposed ? rows : columns;
  knobs.tile_k = recipe.get("tile_k");
  (knobs.transposed ? knobs.warps_n : knobs.warps_m) = recipe.get("warps_rows");
  knobs.warps_k = recipe.get("warps_k");
  knobs.split = recipe.get("split");
  knobs.ahead = recipe.get("ahead");
  knobs.hint = recipe.get("hint");
  knobs.fetch = recipe.get("fetch");
  knobs.pdl = recipe.get("pdl");
  return knobs;
}

int direct_register_limit(int threads) { return std::min(255, 65536 / threads) - 56; }

bool direct_fits_registers(const DirectKnobs& knobs) {
  return knobs.operand_registers() + knobs.accumulators() <= direct_register_limit(knobs.threads());
}

int direct_operand_registers(const DirectKnobs& knobs, const Problem& problem) {
  const auto registers = [&](int tile, bool k_major, std::int64_t columns, std::int64_t ld) {
    const bool single = sm80_granule(columns | ld) == 2 || (!k_major && tile == 8);
    return tile * knobs.tile_k / (single ? 32 : 64);
  };
  return (knobs.ahead + 1) * (registers(knobs.tile_m, problem.a_is_k_major(), problem.a_cols(), problem.a_ld()) +
                              registers(knobs.tile_n, problem.b_is_k_major(), problem.b_cols(), problem.b_ld()));
}

bool direct_shares_depth(const DirectKnobs& knobs, const Problem& problem) {
  return std::int64_t{knobs.tile_k} * (knobs.warps_k * knobs.split - 1) < problem.k;
}

std::int64_t direct_blocks_m(const DirectKnobs& knobs, const Problem& problem) {
  return ceil_div(problem.m, std::int64_t{knobs.tile_m} * knobs.warps_m);
}
std::int64_t direct_blocks_n(const DirectKnobs& knobs, const Problem& problem) {
  return ceil_div(problem.n, std::int64_t{knobs.tile_n} * knobs.warps_n);
}
std::int64_t direct_rounds(const DirectKnobs& knobs, const Problem& problem) {
  return ceil_div(problem.k, knobs.round());
}

}  // namespace warpsmith
