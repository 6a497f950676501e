// The knobs of the families without shared-memory stages, tiny and skinny, as numbers, and what follows from them.
// The device code (device/kernels/direct_config.cuh) derives the same figures; generated sources assert that both
// agree.
#pragma once

#include <cstdint>

#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

enum DirectHintValue { kDirectKeep, kDirectStream, kDirectEvictFirst };
enum DirectPdlValue { kDirectPdlNone, kDirectPdlLate, kDirectPdlEarly };

inline constexpr int kDirectMostThreads = 512;  // of a block: a thread then has 128 registers

struct DirectKnobs {
  int tile_m = 0, tile_n = 0, tile_k = 0;  // of one warp
  int warps_m = 1, warps_n = 1, warps_k = 1;
  int split = 1;
  int ahead = 0;
  bool shared_b = false;    // B, stored k x n, comes through shared memory
  bool transposed = false;  // N on mma's side of 16
  int hint = kDirectKeep;
  int fetch = 0;
  int pdl = kDirectPdlNone;

  int groups() const { return warps_m * warps_n; }  // of warps that share a tile
  int threads() const { return 32 * groups() * warps_k; }
  int rows() const { return transposed ? tile_n : tile_m; }  // on mma's side of 16
  int columns() const { return transposed ? tile_m : tile_n; }
  int operand_registers() const { return (ahead + 1) * tile_k * (tile_m + tile_n) / 64; }  // of a thread, at least
  int accumulators() const { return tile_m * tile_n / 32; }
  int round() const { return tile_k * warps_k * split; }  // k that all warps of a tile load at once
  std::int64_t smem_bytes() const;
};

DirectKnobs tiny_knobs(const Recipe& recipe);
// The short side of the problem is one tile of 8, 16 or 32.
DirectKnobs skinny_knobs(const Recipe& recipe, const Problem& problem);
bool skinny_transposed(const Problem& problem);  // M is the short side
std::int64_t skinny_short_side(const Problem& problem);

// Registers that operands in flight and accumulators may take: a thread's, less those for addresses and all else.
int direct_register_limit(int threads);
bool direct_fits_registers(const DirectKnobs& knobs);
// Of the problem's class: operands that are loaded by single elements take a register for each until they are paired.
int direct_operand_registers(const DirectKnobs& knobs, const Problem& problem);
// Every warp of a tile has some k to work on.
bool direct_shares_depth(const DirectKnobs& knobs, const Problem& problem);
std::int64_t direct_blocks_m(const DirectKnobs& knobs, const Problem& problem);
std::int64_t direct_blocks_n(const DirectKnobs& knobs, const Problem& problem);
std::int64_t direct_rounds(const DirectKnobs& knobs, const Problem& problem);  // of loads, along k

}  // namespace warpsmith
