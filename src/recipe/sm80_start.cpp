// Starting points of the sm80 family: common tiles with fitting pipelines and splits of K, ranked by a rough estimate.
#include "recipe/sm80_start.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "recipe/sm80_plan.h"

namespace warpsmith {

namespace {

constexpr std::size_t kBest = 7;      // by estimate
constexpr std::size_t kVariants = 4;  // of the best one
constexpr int kOfOneTile = 3;         // the estimate is rough

struct Shape {
  int tile_m, tile_n, warps_m, warps_n;
};
constexpr Shape kShapes[] = {{32, 32, 1, 2},  {32, 64, 1, 4},   {64, 32, 2, 2},   {64, 64, 2, 2},
                             {64, 128, 2, 2}, {128, 64, 2, 2},  {128, 128, 2, 2}, {128, 128, 2, 4},
                             {96, 128, 2, 2}, {128, 256, 2, 4}, {256, 128, 4, 2}};

// Warps that one multiprocessor holds at the same time, by shared memory and registers.
int resident_warps(const Sm80Knobs& k, const Machine& machine) {
  const std::int64_t by_memory = machine.smem_bytes_per_block / (k.smem_bytes() + 1024);
  const std::int64_t by_registers = 65536 / (k.threads() * (k.accumulators() + k.fragment_registers() + 60));
  return static_cast<int>(std::max<std::int64_t>(1, std::min(by_memory, by_registers))) * k.threads() / 32;
}

// What adding up costs a block, in cycles: sums through shared memory, through a cluster, through the L2 cache.
double reduction_cycles(const Sm80Knobs& k) {
  if (!k.reduces()) return 0;
  const double tile_bytes = 4.0 * k.tile_m * k.tile_n;
  const double in_block = 150 + tile_bytes * (1 + k.warps_k) / 64;
  if (k.split == 1) return in_block;
  // Every block reads its share of all sums; or the last one reads and clears them all.
  return in_block + (k.reduce == kSm80Cluster ? 900 + tile_bytes * k.warps_k / 16 : 2500 + tile_bytes * k.split / 24);
}

// A rough time of a recipe, in clock cycles: rounds of blocks, each as long as its slower of multiplying and loading.
double estimated_cycles(const Sm80Knobs& k, const Problem& problem, const Machine& machine) {
  constexpr double kFlopsPerCycle = 2048;  // dense half precision through mma.sync, per multiprocessor
  constexpr double kBytesPerCycle = 40;    // from the L2 cache, per multiprocessor
  constexpr double kStartCycles = 1500;
  const auto blocks = sm80_blocks(k, problem);
  const auto per_unit = static_cast<double>((blocks + machine.units - 1) / machine.units);
  const auto depth = static_cast<double>((sm80_k_tiles(k, problem) + k.split - 1) / k.split * k.tile_k);
  const double hiding = std::min(1.0, 0.5 + resident_warps(k, machine) / 16.0);  // few warps hide little latency
  const double multiply = 2.0 * k.tile_m * k.tile_n * depth / (kFlopsPerCycle * hiding);
  const double load = 2.0 * (k.tile_m + k.tile_n) * depth / kBytesPerCycle;
  // Each stage costs a barrier, each of a warp's k-steps a round of ldmatrix, of which a second buffer hides half.
  const double steps = depth / k.tile_k * (30 + (k.loop.fragments > 1 ? 20.0 : 40.0) * k.k_steps());
  return kStartCycles + per_unit * (std::max(multiply, load) + 2.0 * k.tile_m * k.tile_n / 30.0 + reduction_cycles(k)) +
         steps;
}

// As many stages as there is something to load for, and as memory holds.
int useful_stages(const Sm80Knobs& knobs, const Problem& problem, const Machine& machine) {
  Sm80Knobs k = knobs;
  const std::int64_t steps = (sm80_k_tiles(k, problem) + k.split - 1) / k.split;
  k.stages = static_cast<int>(std::clamp<std::int64_t>(steps + 1, 3, 6));
  while (k.stages > 2 && k.smem_bytes() > machine.smem_bytes_per_block) --k.stages;
  return k.stages;
}

// One tile with a share of K for warps and blocks; nothing where that is illegal.
void add_candidate(const Shape& shape, std::array<int, 3> depth, const Problem& problem, const Machine& machine,
                   std::vector<std::pair<double, Recipe>>& found) {
  const auto [tile_k, warps_k, split] = depth;
  Recipe recipe(sm80_family());
  recipe.set("tile_m", shape.tile_m).set("tile_n", shape.tile_n).set("tile_k", tile_k);
  recipe.set("warps_m", shape.warps_m).set("warps_n", shape.warps_n).set("warps_k", warps_k).set("split", split);
  if (split > 1 && (machine.compute_capability < 90 || split > 8)) recipe.set("reduce", kSm80Workspace);
  if (warps_k > 1 || split > 1) recipe.set("epilogue", kSm80Staged);
  recipe.set("stages", useful_stages(sm80_knobs(recipe), problem, machine));
  // Copies spread over k-steps where a stage has several; a single buffer where two do not fit.
  for (const char* loop : {"spread", "pingpong", "refill"}) {
    set_sm80_loop(recipe, loop);
    if (loop == std::string("spread") && sm80_knobs(recipe).k_steps() < 4) continue;
    if (!is_legal(recipe, problem, machine)) continue;
    found.emplace_back(estimated_cycles(sm80_knobs(recipe), problem, machine), std::move(recipe));
    return;
  }
}

std::vector<std::pair<double, Recipe>> promising(const Problem& problem, const Machine& machine) {
  std::vector<std::pair<double, Recipe>> found;
  for (const Shape& shape : kShapes) {
    for (const int tile_k : {32, 64}) {
      for (const int warps_k : {1, 2, 4}) {
        for (const int split : {1, 2, 4, 8, 16}) {
          add_candidate(shape, {tile_k, warps_k, split}, problem, machine, found);
        }
      }
    }
  }
  return found;
}

// The best one with other main loops and another epilogue.
std::vector<Recipe> variants_of(const Recipe& best) {
  std::vector<Recipe> variants;
  for (const char* loop : {"late_barrier", "full_ring", "multistep", "naive"}) {
    Recipe variant = best;
    variants.push_back(set_sm80_loop(variant, loop));
  }
  Recipe staged = best;
  variants.push_back(staged.set("epilogue", kSm80Staged));
  return variants;
}

}  // namespace

std::vector<Recipe> sm80_starting_points(const Problem& problem, const Machine& machine) {
  auto ranked = promising(problem, machine);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Recipe> chosen;
  std::set<std::string> seen;
  std::map<std::pair<int, int>, int> of_tile;
  for (auto& [cycles, recipe] : ranked) {
    if (chosen.size() == kBest) break;
    if (++of_tile[{recipe.get("tile_m"), recipe.get("tile_n")}] > kOfOneTile) continue;
    if (seen.insert(to_string(recipe)).second) chosen.push_back(std::move(recipe));
  }
  if (chosen.empty()) return chosen;
  for (Recipe& variant : variants_of(chosen.front())) {
    if (chosen.size() == kBest + kVariants) break;
    if (is_legal(variant, problem, machine) && seen.insert(to_string(variant)).second) {
      chosen.push_back(std::move(variant));
    }
  }
  return chosen;
}

}  // namespace warpsmith
