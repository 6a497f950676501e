// tiny and skinny recipes -> a small source that names the configuration, and the launch that runs it.
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "codegen/amalgamate.h"
#include "codegen/generate.h"
#include "codegen/output_text.h"
#include "recipe/direct_plan.h"
#include "recipe/sm80_plan.h"

namespace warpsmith {

namespace {

const char* boolean(bool value) { return value ? "true" : "false"; }

const char* hint_name(int hint) {
  return hint == kDirectKeep ? "keep" : hint == kDirectStream ? "stream" : "evict_first";
}

const char* dependents_name(int pdl) {
  return pdl == kDirectPdlNone ? "none" : pdl == kDirectPdlLate ? "late" : "early";
}

std::string config_text(const DirectKnobs& k, const Problem& problem) {
  std::string text = "constexpr DirectConfig kConfig = {\n";
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("    .{} = {},\n", name, value);
  };
  add("element", fmt::format("Element::{}", to_string(problem.element)));
  add("a_k_major", boolean(problem.a_is_k_major()));
  add("b_k_major", boolean(problem.b_is_k_major()));
  add("a_granule", std::to_string(sm80_granule(problem.a_cols() | problem.a_ld())));
  add("b_granule", std::to_string(sm80_granule(problem.b_cols() | problem.b_ld())));
  add("c_granule", std::to_string(sm80_granule(problem.n | problem.c_ld())));
  add("whole_m", boolean(problem.m % (k.tile_m * k.warps_m) == 0));
  add("whole_n", boolean(problem.n % (k.tile_n * k.warps_n) == 0));
  add("whole_k", boolean(problem.k % k.tile_k == 0));
  add("once", boolean(direct_rounds(k, problem) == 1));
  add("f16_sums", boolean(problem.accumulator == AccumulatorType::f16));
  add("scaled", boolean(problem.scaled()));
  add("tile_m", std::to_string(k.tile_m));
  add("tile_n", std::to_string(k.tile_n));
  add("depth", std::to_string(k.tile_k));
  add("warps_m", std::to_string(k.warps_m));
  add("warps_n", std::to_string(k.warps_n));
  add("warps_k", std::to_string(k.warps_k));
  add("split", std::to_string(k.split));
  add("ahead", std::to_string(k.ahead));
  add("shared_b", boolean(k.shared_b));
  add("transposed", boolean(k.transposed));
  add("hint", fmt::format("LoadHint::{}", hint_name(k.hint)));
  add("fetch", std::to_string(k.fetch));
  add("dependents", fmt::format("Dependents::{}", dependents_name(k.pdl)));
  return text + "};\n";
}

std::string source_text(const Recipe& recipe, const DirectKnobs& k, const Problem& problem, const std::string& entry) {
  return fmt::format(
      "// {product}, {element} elements, {accumulator} accumulation, layout {layout}; any m, n, k and leading\n"
      "// dimensions of the class that the configuration begins with.\n"
      "// Recipe: {recipe}\n"
      "#include \"device/kernels/direct_gemm.cuh\"\n\n"
      "namespace {{\n\n"
      "using namespace warpsmith::device;\n\n"
      "{config}\n"
      "static_assert(DirectPlan<kConfig>::kSharedBytes == {smem} && DirectPlan<kConfig>::kThreads == {threads});\n\n"
      "}}  // namespace\n\n"
      "extern \"C\" __global__ void __launch_bounds__({threads}, 1)\n"
      "    {entry}(const u16* a, const u16* b, u16* c, int m, int n, int k, int lda, int ldb, int ldc{factors}) {{\n"
      "  direct_gemm<kConfig>(a, b, {output}, m, n, k, lda, ldb);\n"
      "}}\n",
      fmt::arg("element", to_string(problem.element)), fmt::arg("layout", to_string(problem.layout)),
      fmt::arg("recipe", to_string(recipe)), fmt::arg("config", config_text(k, problem)),
      fmt::arg("product", product_text(problem)), fmt::arg("accumulator", accumulator_text(problem)),
      fmt::arg("factors", factor_parameters(problem)), fmt::arg("output", output_argument(problem)),
      fmt::arg("smem", k.smem_bytes()), fmt::arg("threads", k.threads()), fmt::arg("entry", entry));
}

CudaLaunch launch_of(const DirectKnobs& k, const Problem& problem, const std::string& entry) {
  KernelLaunch launch;
  launch.entry = entry;
  const auto blocks_m = static_cast<int>(direct_blocks_m(k, problem));
  const auto blocks_n = static_cast<int>(direct_blocks_n(k, problem));
  // x counts along mma's side of 16: a grid is limited along y.
  launch.grid = k.transposed ? std::array{blocks_n, blocks_m, k.split} : std::array{blocks_m, blocks_n, k.split};
  launch.block = {k.threads(), 1, 1};
  launch.cluster = {1, 1, k.split};
  launch.dynamic_smem_bytes = static_cast<int>(k.smem_bytes());
  launch.programmatic_dependent_launch = k.pdl != kDirectPdlNone;
  launch.arguments = {KernelArgument::pointer_to(Operand::a), KernelArgument::pointer_to(Operand::b),
                      KernelArgument::pointer_to(Operand::c)};
  for (const std::int64_t size : {problem.m, problem.n, problem.k, problem.a_ld(), problem.b_ld(), problem.c_ld()}) {
    launch.arguments.push_back(KernelArgument::integer(static_cast<std::int32_t>(size)));
  }
  add_factors(launch, problem);
  return {{std::move(launch)}, 0, false};
}

Candidate generate_direct(const Recipe& recipe, const DirectKnobs& knobs, const Problem& problem,
                          const Machine& machine) {
  const std::string entry = fmt::format("warpsmith_{}_gemm", recipe.family().name);
  Result<std::string> source = amalgamate(source_text(recipe, knobs, problem, entry));
  if (!source) throw std::logic_error(source.error().message);  // an embedded building block is missing
  Candidate candidate;
  candidate.language = Language::cuda;
  candidate.source = std::move(*source);
  candidate.arch = fmt::format("sm_{}", machine.compute_capability);  // machine code runs on its own architecture only
  candidate.launch = launch_of(knobs, problem, entry);
  return candidate;
}

}  // namespace

Candidate generate_tiny(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  return generate_direct(recipe, tiny_knobs(recipe), problem, machine);
}

Candidate generate_skinny(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  return generate_direct(recipe, skinny_knobs(recipe, problem), problem, machine);
}

}  // namespace warpsmith
