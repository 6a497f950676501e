// What the sm80 family offers: tiles, grids of warps that suit them, shares of K, stages.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "model/candidates.h"

namespace warpsmith::model {

namespace {

constexpr std::array<const char*, 3> kLoops = {"spread", "pingpong", "refill"};

device::LoopPlan loop_plan(const char* name) {
  Recipe recipe(sm80_family());
  return sm80_loop_plan(set_sm80_loop(recipe, name));
}

// Warps whose part of the tile is neither a sliver nor more than their registers hold.
bool suits(const Sm80Knobs& k) {
  if (k.tile_m % (16 * k.warps_m) != 0 || k.tile_n % (16 * k.warps_n) != 0 || k.threads() > 512) return false;
  const int rows = k.tile_m / k.warps_m, columns = k.tile_n / k.warps_n;
  return rows <= 4 * columns && columns <= 4 * rows && k.accumulators() <= sm80_accumulator_limit(k.threads());
}

class Sm80Candidates {
 public:
  Sm80Candidates(const Setting& setting, std::vector<Candidate>& found) : setting_(setting), found_(found) {
    for (std::size_t i = 0; i < kLoops.size(); ++i) loops_[i] = loop_plan(kLoops[i]);
  }

  // A tile and its warps: all ways to share K.
  void add(Sm80Knobs k) {
    const std::int64_t tiles = sm80_tiles(k, setting_.problem), units = setting_.machine.units;
    for (const int tile_k : {32, 64}) {
      k.tile_k = tile_k;
      if (tile_k == 64 && setting_.problem.k <= 32) continue;
      for (const int warps_k : {1, 2, 4}) {
        k.warps_k = warps_k;
        // Many tiles have warps enough without.
        if (tile_k % (16 * warps_k) != 0 || (warps_k > 1 && (tiles > 2 * units || !suits(k)))) continue;
        for (const int split : {1, 2, 4, 8, 16}) {
          k.split = split;
          if (split > 1 && (tiles * split > 2 * units || sm80_k_tiles(k, setting_.problem) < 2 * split)) break;
          add_stages(k);
        }
      }
    }
  }

 private:
  void add_stages(Sm80Knobs k) {
    // Copies spread over k-steps where a stage has several; a single buffer where two do not fit.
    std::size_t loop = k.k_steps() >= 4 ? 0 : 1;
    k.loop = loops_[loop];
    if (k.accumulators() + k.fragment_registers() > sm80_register_limit(k.threads())) k.loop = loops_[loop = 2];
    k.reduce = k.split > 1 && (setting_.machine.compute_capability < 90 || k.split > 8) ? kSm80Workspace : kSm80Cluster;
    if (k.reduces()) k.epilogue = kSm80Staged;
    const std::int64_t steps = (sm80_k_tiles(k, setting_.problem) + k.split - 1) / k.split;
    for (const int stages : {3, 4, 6}) {
      if (stages > 3 && stages > steps + 1) break;
      k.stages = stages;
      if (k.smem_bytes() > setting_.machine.smem_bytes_per_block) break;
      found_.push_back({.time_us = estimate_sm80(k, setting_).time_us,
                        .family = &sm80_family(),
                        .knobs = k,
                        .mode = k.split > 1,
                        .shape = {k.tile_m, k.tile_n, k.split, k.warps_k},
                        .loop = kLoops[loop]});
    }
  }

  const Setting& setting_;
  std::vector<Candidate>& found_;
  std::array<device::LoopPlan, kLoops.size()> loops_;
};

}  // namespace

void add_sm80_candidates(const Setting& setting, std::vector<Candidate>& found) {
  const Problem& problem = setting.problem;
  Sm80Candidates candidates(setting, found);
  Sm80Knobs k = sm80_knobs(Recipe(sm80_family()));
  for (const int tile_m : {32, 64, 96, 128, 160, 192, 256}) {
    if (tile_m > 32 && tile_m >= 2 * problem.m) continue;
    for (const int tile_n : {32, 64, 96, 128, 160, 192, 256}) {
      if (tile_n > 32 && tile_n >= 2 * problem.n) continue;
      k.tile_m = tile_m, k.tile_n = tile_n;
      for (const auto& [warps_m, warps_n] :
           {std::pair{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 4}, {4, 1}, {2, 4}, {4, 2}, {4, 4}}) {
        k.warps_m = warps_m, k.warps_n = warps_n;
        if (suits(k)) candidates.add(k);
      }
    }
  }
}

}  // namespace warpsmith::model
