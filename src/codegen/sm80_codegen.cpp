// sm80 recipes -> a small source that names the configuration and its loop program, and the launch that runs it.
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "codegen/amalgamate.h"
#include "codegen/generate.h"
#include "recipe/sm80_plan.h"

namespace warpsmith {

namespace {

constexpr const char* kEntry = "warpsmith_sm80_gemm";

const char* boolean(bool value) { return value ? "true" : "false"; }

const char* order_name(device::LoadOrder order) {
  switch (order) {
    case device::LoadOrder::ab:
      return "ab";
    case device::LoadOrder::ba:
      return "ba";
    case device::LoadOrder::late:
      return "late";
    case device::LoadOrder::split:
      return "split";
  }
  return "";
}

const char* place_name(device::CopyPlace place) {
  switch (place) {
    case device::CopyPlace::top:
      return "top";
    case device::CopyPlace::step0:
      return "step0";
    case device::CopyPlace::step1:
      return "step1";
    case device::CopyPlace::step2:
      return "step2";
    case device::CopyPlace::step3:
      return "step3";
    case device::CopyPlace::last:
      return "last";
    case device::CopyPlace::spread:
      return "spread";
  }
  return "";
}

const char* epilogue_name(int epilogue) {
  return epilogue == kSm80Pairs ? "pairs" : epilogue == kSm80Lanes ? "lanes" : "staged";
}

std::string loop_text(const device::LoopPlan& loop) {
  return fmt::format(
      "{{.fragments = {}, .ahead = {}, .order = LoadOrder::{}, .copy_a = CopyPlace::{}, .copy_b = CopyPlace::{},\n"
      "             .sync = {}, .spare = {}, .fence = {}, .unroll = {}}}",
      loop.fragments, loop.ahead, order_name(loop.order), place_name(loop.copy_a), place_name(loop.copy_b),
      loop.sync == device::kSyncDue ? "kSyncDue" : std::to_string(loop.sync), loop.spare, boolean(loop.fence),
      loop.unroll);
}

std::string config_text(const Sm80Knobs& k, const Problem& problem) {
  std::string text = "constexpr Sm80Config kConfig = {\n";
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("    .{} = {},\n", name, value);
  };
  add("element", fmt::format("Element::{}", to_string(problem.element)));
  add("a_k_major", boolean(problem.a_is_k_major()));
  add("b_k_major", boolean(problem.b_is_k_major()));
  add("a_granule", std::to_string(sm80_granule(problem.a_ld())));
  add("b_granule", std::to_string(sm80_granule(problem.b_ld())));
  add("scaled", boolean(problem.scaled()));
  add("half_sums", boolean(problem.accumulator == AccumulatorType::f16));
  add("tile_m", std::to_string(k.tile_m));
  add("tile_n", std::to_string(k.tile_n));
  add("tile_k", std::to_string(k.tile_k));
  add("warps_m", std::to_string(k.warps_m));
  add("warps_n", std::to_string(k.warps_n));
  add("warps_k", std::to_string(k.warps_k));
  add("stages", std::to_string(k.stages));
  add("loop", loop_text(k.loop));
  add("split", std::to_string(k.split));
  add("meeting", k.reduce == kSm80Cluster ? "Sm80Meeting::cluster" : "Sm80Meeting::workspace");
  add("raster", k.raster == kSm80RasterM ? "Raster::m" : "Raster::n");
  add("group", std::to_string(k.group));
  add("fetch", std::to_string(k.fetch));
  add("epilogue", fmt::format("Sm80Epilogue::{}", epilogue_name(k.epilogue)));
  add("pdl", std::to_string(k.pdl));
  return text + "};\n";
}

bool needs_workspace(const Sm80Knobs& k) { return k.split > 1 && k.reduce == kSm80Workspace; }

std::string source_text(const Recipe& recipe, const Sm80Knobs& k, const Problem& problem) {
  return fmt::format(
      "// C[m,n] = {factors}A[m,k] * B[k,n]{addend}, {element} elements, {sums} accumulation, layout {layout}; any m, "
      "n, "
      "k whose\n"
      "// rows as stored are aligned to the granules below.\n"
      "// Recipe: {recipe}\n"
      "// Main loop, the steps of a stage: {program}\n"
      "#include \"device/kernels/sm80_gemm.cuh\"\n\n"
      "namespace {{\n\n"
      "using namespace warpsmith::device;\n\n"
      "{config}\n"
      "static_assert(Sm80Plan<kConfig>::kSharedBytes == {smem} && Sm80Plan<kConfig>::kThreads == {threads});\n\n"
      "}}  // namespace\n\n"
      "extern \"C\" __global__ void __launch_bounds__({threads}, 1)\n"
      "    {entry}(const u16* a, const u16* b, u16* c,{workspace_parameter} int m, int n, int k, int lda, int ldb,\n"
      "        int ldc{scaling_parameters}) {{\n"
      "  sm80_gemm<kConfig>({{a, b, lda, ldb, m, n, k}}, {{c, ldc{scaling_arguments}}}, {workspace_argument});\n"
      "}}\n",
      fmt::arg("factors", problem.scaled() ? "alpha * " : ""),
      fmt::arg("addend", problem.scaled() ? " + beta * C[m,n]" : ""), fmt::arg("element", to_string(problem.element)),
      fmt::arg("sums", problem.accumulator == AccumulatorType::f16 ? "FP16" : "FP32"),
      fmt::arg("layout", to_string(problem.layout)), fmt::arg("recipe", to_string(recipe)),
      fmt::arg("program", describe(k.program())), fmt::arg("config", config_text(k, problem)),
      fmt::arg("smem", k.smem_bytes()), fmt::arg("threads", k.threads()), fmt::arg("entry", kEntry),
      fmt::arg("workspace_parameter", needs_workspace(k) ? " unsigned char* workspace," : ""),
      fmt::arg("workspace_argument", needs_workspace(k) ? "workspace" : "nullptr"),
      fmt::arg("scaling_parameters", problem.scaled() ? ", float alpha, float beta" : ""),
      fmt::arg("scaling_arguments", problem.scaled() ? ", alpha, beta" : ""));
}

CudaLaunch launch_of(const Sm80Knobs& k, const Problem& problem) {
  KernelLaunch launch;
  launch.entry = kEntry;
  launch.grid = {static_cast<int>(sm80_blocks(k, problem)), 1, 1};
  launch.block = {k.threads(), 1, 1};
  if (k.reduce == kSm80Cluster) launch.cluster = {k.split, 1, 1};
  launch.dynamic_smem_bytes = k.smem_bytes();
  launch.programmatic_dependent_launch = k.pdl != kSm80PdlNone;
  launch.arguments = {KernelArgument::pointer_to(Operand::a), KernelArgument::pointer_to(Operand::b),
                      KernelArgument::pointer_to(Operand::c)};
  if (needs_workspace(k)) launch.arguments.push_back(KernelArgument::workspace_pointer());
  for (const std::int64_t size : {problem.m, problem.n, problem.k, problem.a_ld(), problem.b_ld(), problem.c_ld()}) {
    launch.arguments.push_back(KernelArgument::integer(static_cast<std::int32_t>(size)));
  }
  if (problem.scaled()) {
    launch.arguments.push_back(KernelArgument::alpha());
    launch.arguments.push_back(KernelArgument::beta());
  }
  return {{std::move(launch)}, sm80_workspace_bytes(k, problem), needs_workspace(k)};
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
