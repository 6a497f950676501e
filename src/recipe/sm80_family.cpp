// The sm80 family: cp.async, ldmatrix and mma kernels for Ampere and later, whose main loop is a program of the recipe;
// takes any sizes and alignments.
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

#include "recipe/knob.h"
#include "recipe/recipe.h"
#include "recipe/sm80_plan.h"
#include "recipe/sm80_start.h"

namespace warpsmith {

namespace {

using Reason = std::optional<std::string>;

constexpr int kMostThreads = 512;
constexpr int kMostBodySteps = 32;                                 // k-steps in the loop's body
constexpr std::int64_t kLargestWorkspace = std::int64_t{1} << 30;  // bytes

std::vector<Knob> knobs() {
  const std::vector<int> tile = {32, 64, 96, 128, 160, 192, 224, 256};
  const std::vector<int> warps = {1, 2, 3, 4, 5, 8};
  return {
      {"tile",
       "elements of M, N and K that a block multiplies per stage",
       {{"tile_m", tile, 128, {}}, {"tile_n", tile, 128, {}}, {"tile_k", {32, 64, 128}, 32, {}}}},
      {"warps",
       "grid of warps over the tile's rows and columns",
       {{"warps_m", warps, 2, {}}, {"warps_n", warps, 2, {}}}},
      {"warps_k",
       "warps that share the K of a stage; FP32 sums meet in shared memory",
       {{"warps_k", {1, 2, 4, 8}, 1, {}}}},
      {"stages", "depth of the load pipeline", {{"stages", {2, 3, 4, 5, 6, 7, 8}, 4, {}}}},
      sm80_loop_knob(),
      {"split", "blocks that share K; FP32 partial sums", {{"split", {1, 2, 3, 4, 6, 8, 12, 16}, 1, {}}}},
      {"reduce",
       "where the sums of split K meet: in a cluster's shared memory, or in the workspace, added up by the last block",
       {{"reduce", {kSm80Cluster, kSm80Workspace}, kSm80Cluster, {"cluster", "workspace"}}}},
      {"raster",
       "direction in which neighbouring tiles follow one another",
       {{"raster", {kSm80RasterM, kSm80RasterN}, kSm80RasterM, {"m", "n"}}}},
      {"group", "tiles along the raster direction before the other one advances", {{"group", {1, 2, 4, 8, 16}, 8, {}}}},
      {"fetch",
       "bytes that the second-level cache fetches per copy at least; 0: its own choice",
       {{"fetch", {0, 128, 256}, 0, {}}}},
      {"epilogue",
       "how C is written: from registers in pairs, in 16 bytes after an exchange among lanes, or through shared memory",
       {{"epilogue", {kSm80Pairs, kSm80Lanes, kSm80Staged}, kSm80Lanes, {"pairs", "lanes", "staged"}}}},
      {"pdl",
       "programmatic dependent launch: 0 none; dependents start 1 after the main loop, 2 before this kernel's loads",
       {{"pdl", {kSm80PdlNone, kSm80PdlLate, kSm80PdlEarly}, kSm80PdlNone, {}}}},
  };
}

Reason check_architecture(const Recipe&, const Problem*, const Machine& machine) {
  if (machine.compute_capability >= 80) return std::nullopt;
  return fmt::format("cp.async needs compute capability 8.0, and {} has {}.{}", machine.name,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_hopper(const Recipe& recipe, const Problem*, const Machine& machine) {
  if (machine.compute_capability >= 90) return std::nullopt;
  const Sm80Knobs k = sm80_knobs(recipe);
  const char* what = k.split > 1 && k.reduce == kSm80Cluster ? "reduce=cluster" : k.pdl != 0 ? "pdl" : nullptr;
  if (what == nullptr) return std::nullopt;
  return fmt::format("{} needs compute capability 9.0, and {} has {}.{}", what, machine.name,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_warps(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  if (k.tile_m % (16 * k.warps_m) != 0) {
    return fmt::format("{} warps share {} rows, and each takes a multiple of 16", k.warps_m, k.tile_m);
  }
  if (k.tile_n % (8 * k.warps_n) != 0) {
    return fmt::format("{} warps share {} columns, and each takes a multiple of 8", k.warps_n, k.tile_n);
  }
  if (k.tile_k % (16 * k.warps_k) != 0) {
    return fmt::format("{} warps share {} of K, and each takes a multiple of 16", k.warps_k, k.tile_k);
  }
  if (k.threads() <= kMostThreads) return std::nullopt;
  return fmt::format("{} threads; at most {} have the registers", k.threads(), kMostThreads);
}

Reason check_sums(const Recipe& recipe, AccumulatorType accumulator) {
  const Sm80Knobs k = sm80_knobs(recipe);
  const int sums = k.sum_registers(accumulator), fragments = k.fragment_registers();
  const int limit = sm80_register_limit(k.threads());
  if (sums + fragments <= limit) return std::nullopt;
  return fmt::format("each of {} threads needs {} registers for {} sums and {} for fragments; {} fit", k.threads(),
                     sums, to_string(accumulator), fragments, limit);
}

Reason check_registers(const Recipe& recipe, const Problem*, const Machine&) {
  return check_sums(recipe, AccumulatorType::f16);
}

Reason check_sum_registers(const Recipe& recipe, const Problem* problem, const Machine&) {
  return check_sums(recipe, problem->accumulator);
}

// Precondition of the rules about the loop: whole k-steps, which the rule `warps` asks for.
bool has_k_steps(const Sm80Knobs& k) { return k.tile_k % (16 * k.warps_k) == 0; }

Reason check_loop_places(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  if (!has_k_steps(k)) return std::nullopt;
  if (!device::is_whole(k.loop, k.k_steps(), k.stages)) {
    return fmt::format(
        "the loop names k-steps or slots that are not there: a warp has {} k-steps of a stage, the ring {} slots, and "
        "a "
        "fence stands ahead of copies in a k-step",
        k.k_steps(), k.stages);
  }
  const int body = k.program().unroll * k.k_steps();
  if (body <= kMostBodySteps) return std::nullopt;
  return fmt::format("{} stages of {} k-steps in the loop's body; at most {} k-steps are", k.program().unroll,
                     k.k_steps(), kMostBodySteps);
}

Reason check_loop(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  if (!has_k_steps(k) || !device::is_whole(k.loop, k.k_steps(), k.stages)) return std::nullopt;
  const device::LoopProgram program = k.program();
  const device::LoopFault fault = device::find_loop_fault(program);
  if (fault.error == device::LoopError::none) return std::nullopt;
  return describe(fault, program);
}

Reason check_shared_memory(const Recipe& recipe, const Problem*, const Machine& machine) {
  const int bytes = sm80_knobs(recipe).smem_bytes();
  if (bytes <= machine.smem_bytes_per_block) return std::nullopt;
  return fmt::format("needs {} bytes of shared memory per block; {} are there", bytes, machine.smem_bytes_per_block);
}

Reason check_reduction(const Recipe& recipe, const Problem*, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  if (k.reduces() && k.epilogue != kSm80Staged) {
    return "sums of warps or blocks that share K meet in shared memory: epilogue=staged";
  }
  if (k.split == 1 && k.reduce == kSm80Workspace) return "reduce=workspace is for split K";
  return std::nullopt;
}

Reason check_accumulator(const Recipe&, const Problem* problem, const Machine&) {
  if (problem->accumulator == AccumulatorType::f32 || problem->element == ElementType::f16) return std::nullopt;
  return "mma sums products of bf16 elements in f32 only";
}

Reason check_split_depth(const Recipe& recipe, const Problem* problem, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  const std::int64_t k_tiles = sm80_k_tiles(k, *problem);
  if (k_tiles >= k.split) return std::nullopt;
  return fmt::format("{} blocks share {} stages of K", k.split, k_tiles);
}

Reason check_grid(const Recipe& recipe, const Problem* problem, const Machine&) {
  const Sm80Knobs k = sm80_knobs(recipe);
  const std::int64_t blocks = sm80_blocks(k, *problem), workspace = sm80_workspace_bytes(k, *problem);
  if (blocks >= (std::int64_t{1} << 31)) return fmt::format("{} blocks; a grid has fewer than 2^31", blocks);
  if (workspace <= kLargestWorkspace) return std::nullopt;
  return fmt::format("partial sums of {} bytes; at most {} are kept", workspace, kLargestWorkspace);
}

std::vector<Rule> rules() {
  return {
      {"architecture", "cp.async exists from compute capability 8.0 on", false, check_architecture},
      {"hopper", "clusters and programmatic dependent launch need compute capability 9.0", false, check_hopper},
      {"warps", "each warp takes a multiple of 16 rows, 8 columns and 16 of K; a block has at most 16 warps", false,
       check_warps},
      {"registers", "a thread's sums and fragments fit in its registers, with f16 sums at least", false,
       check_registers},
      {"sum_registers", "the same with the problem's accumulator", true, check_sum_registers},
      {"loop_places", "the loop names k-steps and slots that there are, and its body is short", false,
       check_loop_places},
      {"loop", "the loop reads what is there already and overwrites nothing that is still to be read", false,
       check_loop},
      {"reduction", "sums that meet in shared memory leave from there", false, check_reduction},
      {"shared_memory", "stages and sums fit in a block's shared memory", false, check_shared_memory},
      {"accumulator", "bf16 elements are summed in f32", true, check_accumulator},
      {"split_depth", "every block has some of K", true, check_split_depth},
      {"grid", "the grid has fewer than 2^31 blocks, the workspace at most 1 GiB", true, check_grid},
  };
}

}  // namespace

const Family& sm80_family() {
  static const Family kFamily = {
      "sm80",       "Ampere and later: cp.async pipeline, ldmatrix, mma, the main loop a program",
      Target::sm80, knobs(),
      rules(),      sm80_starting_points};
  return kFamily;
}

}  // namespace warpsmith
