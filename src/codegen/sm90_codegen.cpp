// sm90 recipes -> a small source that names the configuration, and the launch that runs it.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "codegen/amalgamate.h"
#include "codegen/generate.h"
#include "codegen/output_text.h"
#include "recipe/sm90_plan.h"

namespace warpsmith {

namespace {

constexpr const char* kEntry = "warpsmith_sm90_gemm";

const char* boolean(bool value) { return value ? "true" : "false"; }

const char* epilogue_name(int epilogue) {
  return epilogue == kSm90Direct ? "direct" : epilogue == kSm90Staged ? "staged" : "tma";
}

const char* evict_name(int evict) {
  return evict == kSm90EvictNormal ? "normal" : evict == kSm90EvictFirst ? "first" : "last";
}

std::string config_text(const Sm90Knobs& k, const Problem& problem) {
  const Sm90Product product = sm90_product(k, problem);
  std::string text = "constexpr Sm90Config kConfig = {\n";
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("    .{} = {},\n", name, value);
  };
  add("element", fmt::format("Element::{}", to_string(problem.element)));
  add("a_k_major", boolean(product.a_k_major));
  add("b_k_major", boolean(product.b_k_major));
  add("f16_sums", boolean(problem.accumulator == AccumulatorType::f16));
  add("scaled", boolean(problem.scaled()));
  add("tile_m", std::to_string(k.tile_m));
  add("tile_n", std::to_string(k.tile_n));
  add("tile_k", std::to_string(k.tile_k));
  add("cluster_m", std::to_string(k.cluster_m));
  add("cluster_n", std::to_string(k.cluster_n));
  add("split", std::to_string(k.cluster_split()));
  add("stages", std::to_string(k.stages));
  add("consumers", std::to_string(k.consumers));
  add("pace", std::to_string(k.pace));
  add("raster", k.raster == kSm90RasterM ? "Raster::m" : "Raster::n");
  if (k.loops()) add("group", std::to_string(k.group));
  add("persistent", boolean(k.persistent));
  add("streamk", boolean(k.streamk));
  add("parts", boolean(k.parts()));
  add("pingpong", boolean(k.pingpong));
  add("swap", boolean(k.swap));
  add("pdl", boolean(k.pdl));
  add("epilogue", fmt::format("Epilogue::{}", epilogue_name(k.epilogue)));
  add("staging", std::to_string(k.staging));
  add("evict_a", fmt::format("Evict::{}", evict_name(k.evict_a)));
  add("evict_b", fmt::format("Evict::{}", evict_name(k.evict_b)));
  return text + "};\n";
}

std::string source_text(const Recipe& recipe, const Sm90Knobs& k, const Problem& problem, std::int64_t smem_bytes) {
  const bool maps_c = k.epilogue == kSm90Tma;
  return fmt::format(
      "// {product}, {element} elements, {accumulator} accumulation, layout {layout}; any m, n, k and leading\n"
      "// dimensions that TMA takes.\n"
      "// Recipe: {recipe}\n{swapped}{f16_instruction}"
      "#include \"device/kernels/sm90_gemm.cuh\"\n\n"
      "namespace {{\n\n"
      "using namespace warpsmith::device;\n\n"
      "{config}\n"
      "static_assert(Sm90Memory<kConfig>::kBytes == {smem} && "
      "Sm90Plan<kConfig>::kThreads == {threads});\n\n"
      "}}  // namespace\n\n"
      "extern \"C\" __global__ void __launch_bounds__({threads}, 1)\n"
      "    {entry}(const __grid_constant__ TensorMap map_a, const "
      "__grid_constant__ TensorMap map_b,{map_parameter}\n"
      "        u16* c,{workspace_parameter} int m, int n, int k, int ldc{place_parameters}{factors}) {{\n"
      "  sm90_gemm<kConfig>(&map_a, &map_b, {map_argument}, {output}, "
      "{workspace_argument}, m, n, k, {places});\n"
      "}}\n",
      fmt::arg("element", to_string(problem.element)), fmt::arg("layout", to_string(problem.layout)),
      fmt::arg("recipe", to_string(recipe)), fmt::arg("config", config_text(k, problem)), fmt::arg("smem", smem_bytes),
      fmt::arg("product", product_text(problem)), fmt::arg("accumulator", accumulator_text(problem)),
      fmt::arg("factors", factor_parameters(problem)), fmt::arg("output", output_argument(problem)),
      fmt::arg("f16_instruction",
               problem.accumulator == AccumulatorType::f16 ? "#include \"device/ptx/wgmma_f16.cuh\"\n" : ""),
      fmt::arg("threads", sm90_threads(k)), fmt::arg("entry", kEntry),
      fmt::arg("map_parameter", maps_c ? " const __grid_constant__ TensorMap map_c," : ""),
      fmt::arg("map_argument", maps_c ? "&map_c" : "nullptr"),
      fmt::arg("swapped", k.swap ? "// Computes C^T = B^T A^T: map_a is over "
                                   "B, map_b over A, m is n and n is m.\n"
                                 : ""),
      fmt::arg("workspace_parameter", k.streamk ? " unsigned char* workspace," : ""),
      fmt::arg("workspace_argument", k.streamk ? "workspace" : "nullptr"),
      fmt::arg("place_parameters", k.loops() ? ", int turns"
                                             : ",\n        int fast, int slow, u32 fast_inverse, u32 slow_inverse, int "
                                               "parts, int part_depth"),
      fmt::arg("places", k.loops() ? "{0, 0, 0, 0, 0, 0, turns}"
                                   : "{fast, slow, fast_inverse, slow_inverse, parts, part_depth, 0}"));
}

TensorMap tensor_map(Operand operand, std::int64_t columns, std::int64_t rows, std::int64_t ld, const Sm90Boxes& boxes,
                     int shares) {
  TensorMap map;
  map.operand = operand;
  map.dims = {columns, rows};
  map.ld = ld;
  map.box = {boxes.columns, boxes.rows / shares};
  map.swizzle_bytes = boxes.columns == 8 ? 0 : boxes.swizzle_bytes();
  return map;
}

TensorMap operand_map(Operand operand, const Problem& problem, const Sm90Boxes& boxes, int shares) {
  if (operand == Operand::a)
    return tensor_map(operand, problem.a_cols(), problem.a_rows(), problem.a_ld(), boxes, shares);
  return tensor_map(operand, problem.b_cols(), problem.b_rows(), problem.b_ld(), boxes, shares);
}

CudaLaunch launch_of(const Sm90Knobs& k, const Problem& problem, const Machine& machine, std::int64_t smem_bytes) {
  KernelLaunch launch;
  launch.entry = kEntry;
  launch.block = {sm90_threads(k), 1, 1};
  launch.cluster = {k.cluster_size(), 1, 1};
  const Sm90Grid grid = sm90_grid(k, problem, machine);
  launch.grid = {static_cast<int>(grid.clusters() * k.cluster_size()), 1, 1};
  launch.dynamic_smem_bytes = static_cast<int>(smem_bytes);
  launch.programmatic_dependent_launch = k.pdl != 0;

  const Sm90Product product = sm90_product(k, problem);
  const Sm90Boxes boxes_a = sm90_operand_boxes(k.tile_m, k.tile_k, product.a_k_major);
  const Sm90Boxes boxes_b = sm90_operand_boxes(k.tile_n, k.tile_k, product.b_k_major);
  const Operand left = k.swap ? Operand::b : Operand::a, right = k.swap ? Operand::a : Operand::b;
  launch.arguments.push_back(KernelArgument::tensor(operand_map(left, problem, boxes_a, k.cluster_n)));
  launch.arguments.push_back(KernelArgument::tensor(operand_map(right, problem, boxes_b, k.cluster_m)));
  if (k.epilogue == kSm90Tma) {
    launch.arguments.push_back(
        KernelArgument::tensor(tensor_map(Operand::c, problem.n, problem.m, problem.c_ld(), sm90_store_boxes(k), 1)));
  }
  launch.arguments.push_back(KernelArgument::pointer_to(Operand::c));
  if (k.streamk) launch.arguments.push_back(KernelArgument::workspace_pointer());
  for (const std::int64_t size : {product.m, product.n, product.k, problem.c_ld()}) {
    launch.arguments.push_back(KernelArgument::integer(static_cast<std::int32_t>(size)));
  }
  if (k.loops()) {
    // Where the cache holds both operands, it does not matter which end of one comes first.
    const bool turns = problem.bytes() > machine.l2_bytes / 2;
    launch.arguments.push_back(KernelArgument::integer(turns ? 1 : 0));
  } else {
    const auto inverse = [](std::int64_t of) { return ((std::int64_t{1} << 31) + of - 1) / of; };
    const std::int64_t parts = k.parts() ? k.split : 1;
    for (const std::int64_t value :
         {grid.fast, grid.slow, inverse(grid.fast), inverse(grid.slow), parts, sm90_k_tiles(k, problem) / parts}) {
      // An unsigned one as an int of the same bits.
      launch.arguments.push_back(KernelArgument::integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(value))));
    }
  }
  add_factors(launch, problem);
  return {{std::move(launch)}, sm90_workspace_bytes(k, problem, machine), k.streamk != 0};
}

}  // namespace

Candidate generate_sm90(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  const Sm90Knobs knobs = sm90_knobs(recipe);
  const std::int64_t smem_bytes = sm90_smem_bytes(knobs, problem);
  Result<std::string> source = amalgamate(source_text(recipe, knobs, problem, smem_bytes));
  if (!source) throw std::logic_error(source.error().message);  // an embedded building block is missing
  Candidate candidate;
  candidate.language = Language::cuda;
  candidate.source = std::move(*source);
  candidate.arch = "sm_90a";
  candidate.launch = launch_of(knobs, problem, machine, smem_bytes);
  return candidate;
}

}  // namespace warpsmith
