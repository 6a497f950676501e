// The sm80 family: cp.async, ldmatrix and mma kernels for Ampere and later; takes any sizes and alignments.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "recipe/knob.h"
#include "recipe/recipe.h"
#include "recipe/sm80_plan.h"

namespace warpsmith {

namespace {

using Reason = std::optional<std::string>;

std::vector<Knob> knobs() {
  const std::vector<int> tile = {32, 64, 96, 128, 160, 192, 256};
  const std::vector<int> warps = {1, 2, 4, 8};
  return {
      {"tile",
       "elements of M, N and K that a block multiplies per stage",
       {{"tile_m", tile, 128, {}}, {"tile_n", tile, 128, {}}, {"tile_k", {32, 64, 128}, 32, {}}}},
      {"warps",
       "grid of warps over the tile's rows and columns",
       {{"warps_m", warps, 2, {}}, {"warps_n", warps, 2, {}}}},
      {"stages", "depth of the load pipeline", {{"stages", {2, 3, 4, 5, 6, 7, 8}, 4, {}}}},
      {"raster",
       "direction in which neighbouring tiles follow one another",
       {{"raster", {kSm80RasterM, kSm80RasterN}, kSm80RasterM, {"m", "n"}}}},
      {"group", "tiles along the raster direction before the other one advances", {{"group", {1, 2, 4, 8, 16}, 8, {}}}},
  };
}

Reason check_architecture(const Recipe&, const Problem*, const Machine& machine) {
  if (machine.compute_capability >= 80) return std::nullopt;
  return fmt::format("cp.async needs compute capability 8.0, and {} has {}.{}", machine.name,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_warps(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  if (k.tile_m % (16 * k.warps_m) != 0) {
    return fmt::format("{} warps share {} rows, and each takes a multiple of 16", k.warps_m, k.tile_m);
  }
  if (k.tile_n % (16 * k.warps_n) != 0) {
    return fmt::format("{} warps share {} columns, and each takes a multiple of 16", k.warps_n, k.tile_n);
  }
  return std::nullopt;
}

Reason check_registers(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  const int limit = sm80_accumulator_limit(k.threads());
  if (k.accumulators() <= limit) return std::nullopt;
  return fmt::format("a {}x{} tile takes {} accumulator registers per thread of {}; {} fit", k.tile_m, k.tile_n,
                     k.accumulators(), k.threads(), limit);
}

Reason check_shared_memory(const Recipe& recipe, const Problem*, const Machine& machine) {
  const int bytes = sm80_knobs(recipe).smem_bytes();
  if (bytes <= machine.smem_bytes_per_block) return std::nullopt;
  return fmt::format("needs {} bytes of shared memory per block; {} are there", bytes, machine.smem_bytes_per_block);
}

Reason check_accumulator(const Recipe&, const Problem* problem, const Machine&) {
  if (problem->accumulator == AccumulatorType::f32) return std::nullopt;
  return "the sm80 family accumulates in f32 only";
}

Reason check_grid(const Recipe& recipe, const Problem* problem, const Machine&) {
  const std::int64_t blocks = sm80_blocks(sm80_knobs(recipe), *problem);
  if (blocks < (std::int64_t{1} << 31)) return std::nullopt;
  return fmt::format("{} blocks; a grid has fewer than 2^31", blocks);
}

std::vector<Rule> rules() {
  return {
      {"architecture", "cp.async exists from compute capability 8.0 on", false, check_architecture},
      {"warps", "each warp takes a multiple of 16 rows and of 16 columns", false, check_warps},
      {"registers", "a thread's accumulators fit in its registers", false, check_registers},
      {"shared_memory", "the stages fit in a block's shared memory", false, check_shared_memory},
      {"accumulator", "FP32 accumulation", true, check_accumulator},
      {"grid", "the grid has fewer than 2^31 blocks", true, check_grid},
  };
}

// Warps that one multiprocessor holds at the same time, by shared memory and registers (accumulators and about 100
// more).
int resident_warps(const Sm80Knobs& k, const Machine& machine) {
  const std::int64_t by_memory = machine.smem_bytes_per_block / (k.smem_bytes() + 1024);
  const std::int64_t by_registers = 65536 / (k.threads() * (k.accumulators() + 100));
  return static_cast<int>(std::max<std::int64_t>(1, std::min(by_memory, by_registers))) * k.threads() / 32;
}

// A rough time of a recipe, in clock cycles: rounds of blocks, each as long as its slower of multiplying and loading.
double estimated_cycles(const Sm80Knobs& k, const Problem& problem, const Machine& machine) {
  constexpr double kFlopsPerCycle = 2048;  // dense half precision through mma.sync, per multiprocessor
  constexpr double kBytesPerCycle = 40;    // from the L2 cache, per multiprocessor
  constexpr double kStartCycles = 1500;
  const auto blocks = sm80_blocks(k, problem);
  const auto per_unit = static_cast<double>((blocks + machine.units - 1) / machine.units);
  const auto depth = static_cast<double>((problem.k + k.tile_k - 1) / k.tile_k * k.tile_k);
  const double hiding = std::min(1.0, 0.5 + resident_warps(k, machine) / 16.0);  // few warps hide little latency
  const double multiply = 2.0 * k.tile_m * k.tile_n * depth / (kFlopsPerCycle * hiding);
  const double load = 2.0 * (k.tile_m + k.tile_n) * depth / kBytesPerCycle;
  // Each step costs a barrier and a round of ldmatrix.
  const double steps = depth / k.tile_k * (30 + 40.0 * k.tile_k / 16);
  return kStartCycles + per_unit * (std::max(multiply, load) + 2.0 * k.tile_m * k.tile_n / 30.0) + steps;
}

int useful_stages(const Sm80Knobs& knobs, const Problem& problem, const Machine& machine) {
  Sm80Knobs k = knobs;
  const std::int64_t steps = (problem.k + k.tile_k - 1) / k.tile_k;
  k.stages = static_cast<int>(std::clamp<std::int64_t>(steps, 2, 5));
  while (k.stages > 2 && k.smem_bytes() > machine.smem_bytes_per_block) --k.stages;
  return k.stages;
}

std::vector<Recipe> promising(const Problem& problem, const Machine& machine) {
  struct Shape {
    int tile_m, tile_n, warps_m, warps_n;
  };
  constexpr Shape kShapes[] = {{32, 32, 1, 2},  {32, 64, 1, 4},   {64, 32, 2, 2},   {64, 64, 2, 2},
                               {64, 128, 2, 2}, {128, 64, 2, 2},  {128, 128, 2, 2}, {128, 128, 2, 4},
                               {96, 128, 2, 2}, {128, 256, 2, 4}, {256, 128, 4, 2}};
  std::vector<Recipe> recipes;
  for (const Shape& shape : kShapes) {
    for (const int tile_k : {32, 64}) {
      Recipe recipe(sm80_family());
      recipe.set("tile_m", shape.tile_m).set("tile_n", shape.tile_n).set("tile_k", tile_k);
      recipe.set("warps_m", shape.warps_m).set("warps_n", shape.warps_n);
      recipe.set("stages", useful_stages(sm80_knobs(recipe), problem, machine));
      if (is_legal(recipe, problem, machine)) recipes.push_back(recipe);
    }
  }
  return recipes;
}

// The best eight by estimate.
std::vector<Recipe> starting_points(const Problem& problem, const Machine& machine) {
  std::vector<std::pair<double, Recipe>> ranked;
  for (Recipe& recipe : promising(problem, machine)) {
    const double cycles = estimated_cycles(sm80_knobs(recipe), problem, machine);
    ranked.emplace_back(cycles, std::move(recipe));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Recipe> chosen;
  for (auto& [cycles, recipe] : ranked) {
    if (chosen.size() < 8) chosen.push_back(std::move(recipe));
  }
  return chosen;
}

}  // namespace

const Family& sm80_family() {
  static const Family kFamily = {
      "sm80", "Ampere and later: cp.async pipeline, ldmatrix, mma", Target::sm80, knobs(), rules(), starting_points};
  return kFamily;
}

}  // namespace warpsmith
