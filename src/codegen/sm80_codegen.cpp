// sm80 recipes -> a small source that names the configuration, and the launch that runs it.
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "codegen/amalgamate.h"
#include "codegen/generate.h"
#include "recipe/sm80_plan.h"

namespace warpsmith {

namespace {

constexpr const char* kEntry = "warpsmith_sm80_gemm";

std::string config_text(const Sm80Knobs& k, const Problem& problem) {
  std::string text = "constexpr Sm80Config kConfig = {\n";
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("    .{} = {},\n", name, value);
  };
  add("element", fmt::format("Element::{}", to_string(problem.element)));
  add("a_k_major", problem.a_is_k_major() ? "true" : "false");
  add("b_k_major", problem.b_is_k_major() ? "true" : "false");
  add("a_granule", std::to_string(sm80_granule(problem.a_cols())));
  add("b_granule", std::to_string(sm80_granule(problem.b_cols())));
  add("tile_m", std::to_string(k.tile_m));
  add("tile_n", std::to_string(k.tile_n));
  add("tile_k", std::to_string(k.tile_k));
  add("warps_m", std::to_string(k.warps_m));
  add("warps_n", std::to_string(k.warps_n));
  add("stages", std::to_string(k.stages));
  add("raster", k.raster == kSm80RasterM ? "Raster::m" : "Raster::n");
  add("group", std::to_string(k.group));
  return text + "};\n";
}

std::string source_text(const Recipe& recipe, const Sm80Knobs& k, const Problem& problem) {
  return fmt::format(
      "// C[m,n] = A[m,k] * B[k,n], {element} elements, FP32 accumulation, layout {layout}; any m, n, k whose rows "
      "are\n"
      "// aligned to the granules below.\n"
      "// Recipe: {recipe}\n"
      "#include \"device/kernels/sm80_gemm.cuh\"\n\n"
      "namespace {{\n\n"
      "using namespace warpsmith::device;\n\n"
      "{config}\n"
      "static_assert(Sm80Plan<kConfig>::kSharedBytes == {smem} && Sm80Plan<kConfig>::kThreads == {threads});\n\n"
      "}}  // namespace\n\n"
      "extern \"C\" __global__ void __launch_bounds__({threads}, 1)\n"
      "    {entry}(const u16* a, const u16* b, u16* c, int m, int n, int k) {{\n"
      "  sm80_gemm<kConfig>(a, b, c, m, n, k);\n"
      "}}\n",
      fmt::arg("element", to_string(problem.element)), fmt::arg("layout", to_string(problem.layout)),
      fmt::arg("recipe", to_string(recipe)), fmt::arg("config", config_text(k, problem)),
      fmt::arg("smem", k.smem_bytes()), fmt::arg("threads", k.threads()), fmt::arg("entry", kEntry));
}

CudaLaunch launch_of(const Sm80Knobs& k, const Problem& problem) {
  KernelLaunch launch;
  launch.entry = kEntry;
  launch.grid = {static_cast<int>(sm80_blocks(k, problem)), 1, 1};
  launch.block = {k.threads(), 1, 1};
  launch.dynamic_smem_bytes = k.smem_bytes();
  launch.arguments = {KernelArgument::pointer_to(Operand::a), KernelArgument::pointer_to(Operand::b),
                      KernelArgument::pointer_to(Operand::c)};
  for (const std::int64_t size : {problem.m, problem.n, problem.k}) {
    launch.arguments.push_back(KernelArgument::integer(static_cast<std::int32_t>(size)));
  }
  return {{std::move(launch)}, 0, false};
}

}  // namespace

Candidate generate_sm80(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  const Sm80Knobs knobs = sm80_knobs(recipe);
  Result<std::string> source = amalgamate(source_text(recipe, knobs, problem));
  if (!source) throw std::logic_error(source.error().message);  // an embedded building block is missing
  Candidate candidate;
  candidate.language = Language::cuda;
  candidate.source = std::move(*source);
  candidate.arch = fmt::format("sm_{}", machine.compute_capability);  // machine code runs on its own architecture only
  candidate.launch = launch_of(knobs, problem);
  return candidate;
}

}  // namespace warpsmith
