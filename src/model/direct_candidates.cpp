// What the tiny and skinny families offer: every combination that keeps registers and gives each warp some of K.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "model/candidates.h"

namespace warpsmith::model {

namespace {

bool possible(const DirectKnobs& k, const Setting& setting) {
  if (k.rows() % 16 != 0 || k.threads() > kDirectMostThreads) return false;
  if (k.split > 1 && setting.machine.compute_capability < 90) return false;
  if (!direct_shares_depth(k, setting.problem) || k.ahead >= direct_rounds(k, setting.problem)) return false;
  return direct_operand_registers(k, setting.problem) + k.accumulators() <= direct_register_limit(k.threads());
}

void add(const DirectKnobs& k, const Family& family, const Setting& setting, std::vector<Candidate>& found) {
  if (!possible(k, setting)) return;
  found.push_back({estimate_direct(k, setting).time_us,
                   &family,
                   k,
                   k.split > 1,
                   {k.tile_m * k.tile_n, k.groups(), k.warps_k, k.split},
                   nullptr});
}

}  // namespace

void add_tiny_candidates(const Setting& setting, std::vector<Candidate>& found) {
  const Problem& problem = setting.problem;
  // More blocks than the family takes, or more rounds of loads, whatever the tile.
  if (problem.m * problem.n > std::int64_t{16} * setting.machine.units * 256 * 256) return;
  DirectKnobs k;
  for (k.tile_m = 8; k.tile_m <= 64; k.tile_m *= 2) {
    for (k.tile_n = 8; k.tile_n <= 64; k.tile_n *= 2) {
      k.transposed = k.tile_m == 8;
      for (const auto& [warps_m, warps_n] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 2}, {2, 4}}) {
        k.warps_m = warps_m, k.warps_n = warps_n;
        const std::int64_t blocks = direct_blocks_m(k, problem) * direct_blocks_n(k, problem);
        if (blocks > std::int64_t{16} * setting.machine.units) continue;
        for (k.warps_k = 1; k.warps_k <= 16 / k.groups(); k.warps_k *= 2) {
          for (k.split = 1; k.split <= 16; k.split *= 2) {
            if (k.split > 1 && blocks * k.split > 2 * setting.machine.units) break;
            for (k.tile_k = 16; k.tile_k <= 256; k.tile_k *= 2) {
              if (direct_rounds(k, problem) > 16) continue;
              for (k.ahead = 0; k.ahead <= 1; ++k.ahead) add(k, tiny_family(), setting, found);
              k.ahead = 0;
              k.shared_b = !problem.b_is_k_major() && !k.transposed && k.tile_k % 32 == 0;
              if (k.shared_b) add(k, tiny_family(), setting, found);
              k.shared_b = false;
            }
          }
        }
      }
    }
  }
}

void add_skinny_candidates(const Setting& setting, std::vector<Candidate>& found) {
  const std::int64_t side = skinny_short_side(setting.problem);
  if (side > 32) return;
  DirectKnobs k;
  k.transposed = skinny_transposed(setting.problem);
  k.hint = kDirectStream;
  const int columns = side <= 8 ? 8 : side <= 16 ? 16 : 32;
  for (const int rows : {16, 32, 64}) {
    k.tile_m = k.transposed ? columns : rows;
    k.tile_n = k.transposed ? rows : columns;
    for (const auto& [warps_rows, warps_k] :
         {std::pair{1, 1}, {1, 2}, {1, 4}, {1, 8}, {1, 16}, {2, 2}, {2, 4}, {2, 8}, {4, 1}, {4, 2}, {4, 4}, {8, 1}}) {
      (k.transposed ? k.warps_n : k.warps_m) = warps_rows;
      k.warps_k = warps_k;
      for (k.tile_k = 32; k.tile_k <= 128; k.tile_k *= 2) {
        for (k.split = 1; k.split <= 16; k.split *= 2) {
          for (k.ahead = 0; k.ahead <= 3; ++k.ahead) add(k, skinny_family(), setting, found);
        }
      }
    }
  }
}

}  // namespace warpsmith::model
