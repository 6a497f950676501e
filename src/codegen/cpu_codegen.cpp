// Candidates of the cpu family: one configuration value instantiating src/cpu, and the run-time parameters.
#include <fmt/format.h>

#include <stdexcept>

#include "codegen/amalgamate.h"
#include "codegen/generate.h"
#include "recipe/cpu_plan.h"

namespace warpsmith {

namespace {

std::string_view source_name(CpuSource source) {
  if (source == kCpuDirect) return "direct";
  return source == kCpuFused ? "fused" : "packed";
}

// Only what the compiler needs to know: recipes that differ elsewhere give the same text.
std::string configuration(const CpuPlan& plan, const Recipe& recipe, const Problem& problem) {
  return fmt::format(
      R"(constexpr CpuConfig kConfig = {{
    .element = Element::{},
    .a_k_major = {},
    .b_k_major = {},
    .form = Form::{},
    .lanes = {},
    .rows = {},
    .columns = {},
    .unroll = {},
    .a = Source::{},
    .b = Source::{},
    .prefetch = {},
    .prefetch_a = {},
    .uneven_rows = {},
    .uneven_columns = {},
    .ragged_columns = {},
    .a_stride = {},
}};
)",
      to_string(problem.element), problem.a_is_k_major(), problem.b_is_k_major(), plan.outer ? "outer" : "inner",
      plan.lanes, plan.rows, plan.columns, plan.outer ? recipe.get("unroll") : 1, source_name(plan.a),
      source_name(plan.b), recipe.get("prefetch") > 0, !plan.outer && plan.a == kCpuDirect && plan.prefetch_a > 0,
      plan.uneven_rows, plan.uneven_columns, plan.outer && problem.n % plan.lanes != 0, plan.a_stride);
}

std::string kernel_source(const CpuPlan& plan, const Recipe& recipe, const Problem& problem) {
  const std::string text = fmt::format(
      R"(#include "cpu/gemm.h"

namespace warpsmith::cpu {{

{}
}}  // namespace warpsmith::cpu

extern "C" void warpsmith_kernel(const WarpsmithCpuArguments* arguments, int thread) {{
  warpsmith::cpu::Gemm<warpsmith::cpu::kConfig>(*arguments, thread).run();
}}
)",
      configuration(plan, recipe, problem));
  Result<std::string> source = amalgamate(text);
  if (!source) throw std::logic_error(source.error().message);  // a building block is missing from the binary
  return std::move(source).value();
}

// In the order of warpsmith::cpu::Parameter (cpu/config.h).
std::vector<std::int64_t> parameters(const CpuPlan& plan, const Recipe& recipe) {
  return {plan.block_k,
          plan.block_rows,
          plan.block_columns,
          recipe.get("order") == kCpuRowsInner ? 1 : 0,
          plan.depth_inner ? 1 : 0,
          recipe.get("prefetch"),
          plan.prefetch_a,
          recipe.get("preload"),
          plan.row_tiles,
          plan.column_tiles,
          plan.threads_m,
          plan.threads_n,
          plan.threads_k,
          plan.packed_a_bytes,
          plan.packed_b_bytes,
          plan.thread_bytes};
}

}  // namespace

Candidate generate_cpu(const Recipe& recipe, const Problem& problem, const Machine&) {
  const CpuPlan plan = plan_cpu(recipe, problem);
  Candidate candidate;
  candidate.language = Language::cpp;
  candidate.source = kernel_source(plan, recipe, problem);
  candidate.arch = plan.avx512 ? "x86-64-v4" : "x86-64-v3";
  candidate.launch = CpuLaunch{"warpsmith_kernel", plan.threads(), plan.workspace_bytes(), parameters(plan, recipe)};
  return candidate;
}

}  // namespace warpsmith
