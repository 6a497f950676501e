// A pack from wisdom, compiled without a GPU: what it holds, that the library's own look-up finds it.
#include "library/pack_builder.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "compile/cubin.h"

namespace warpsmith::library {
namespace {

namespace fs = std::filesystem;

// Two problems with recipes of the smallest family, which compile fast, and one whose recipe no program knows.
Wisdom small_wisdom() {
  WisdomHeader header;
  header.machine = "NVIDIA H200";
  header.compute_capability = 90;
  header.units = 132;
  header.target = Target::sm90;
  Wisdom wisdom(header);
  for (const char* text : {"64x64x64 tn f16 f32", "128x64x64 nn f16 f32", "64x128x64 tn f16 f32"}) {
    WisdomEntry entry;
    entry.problem = parse_problem(text).value();
    entry.cold_us = 1;
    const Machine machine = machine_of(header);
    for (const Recipe& recipe : tiny_family().starting_points(entry.problem, machine)) {
      if (entry.recipe.empty() && is_legal(recipe, entry.problem, machine)) entry.recipe = to_string(recipe);
    }
    if (entry.problem.n == 128) entry.recipe = "sm120 tile=1x1x1";
    EXPECT_FALSE(entry.recipe.empty());
    wisdom.merge(entry);
  }
  return wisdom;
}

TEST(PackPlan, HoldsEveryVariantOnce) {
  const Wisdom wisdom = small_wisdom();
  const Machine machine = machine_of(wisdom.header());
  PackVariants plain;
  plain.scaled = false;
  const PackPlan one = plan_pack(wisdom, machine, plain, {});
  EXPECT_EQ(one.entries, 3U);
  EXPECT_EQ(one.kernels.size(), 2U);
  ASSERT_EQ(one.left_out.size(), 1U);
  EXPECT_NE(one.left_out.front().find("64x128x64"), std::string::npos);
  PackVariants both = plain;
  both.elements = {ElementType::f16, ElementType::bf16};
  EXPECT_EQ(plan_pack(wisdom, machine, both, {}).kernels.size(), 4U);
  PackVariants other = plain;
  other.arch = "sm_70";
  EXPECT_TRUE(plan_pack(wisdom, machine, other, {}).kernels.empty());
  for (const auto& [key, candidate] : one.kernels) EXPECT_EQ(key, kernel_key(candidate.arch, candidate.source));
}

TEST(PackPlan, AsksForKernelsOfFurtherProblems) {
  const Wisdom wisdom = small_wisdom();
  PackVariants plain;
  plain.scaled = false;
  const Problem near = parse_problem("64x72x64 tn f16 f32").value();
  const PackPlan plan = plan_pack(wisdom, machine_of(wisdom.header()), plain, {near});
  EXPECT_GE(plan.kernels.size(), 2U);
}

// Other elements need other kernels than the entry's own, and an entry of the same sizes is taken as it is.
TEST(PackPlan, AsksForBothModesAndLaunches) {
  WisdomHeader header;
  header.machine = "NVIDIA H200";
  header.compute_capability = 90;
  header.units = 132;
  header.target = Target::sm90;
  const Machine machine = machine_of(header);
  WisdomEntry entry;
  entry.problem = parse_problem("64x64x64 tn f16 f32").value();
  entry.cold_us = 5;
  entry.server_us = entry.pdl_us = 4;
  std::vector<std::string> recipes;
  for (const Recipe& recipe : tiny_family().starting_points(entry.problem, machine)) {
    if (is_legal(recipe, entry.problem, machine)) recipes.push_back(to_string(recipe));
  }
  ASSERT_GE(recipes.size(), 3U);
  entry.recipe = recipes[0];
  entry.server_recipe = recipes[1];
  entry.pdl_recipe = recipes[2];
  Wisdom wisdom(header);
  ASSERT_TRUE(wisdom.merge(entry));
  PackVariants plain;
  plain.scaled = false;
  const Problem asked = parse_problem("64x64x64 tn bf16 f32").value();
  const PackPlan plan = plan_pack(wisdom, machine, plain, {asked});
  for (const std::string& recipe : {recipes[0], recipes[1], recipes[2]}) {
    const auto candidate = generate(*parse_recipe(recipe), asked, machine);
    ASSERT_TRUE(candidate);
    EXPECT_EQ(plan.kernels.count(kernel_key(candidate->arch, candidate->source)), 1U) << recipe;
  }
}

TEST(PackPlan, DescribesKnownMachinesAsTheyAre) {
  WisdomHeader header;
  header.machine = "NVIDIA H200";
  header.compute_capability = 90;
  header.units = 132;
  header.target = Target::sm90;
  EXPECT_EQ(machine_of(header).l2_bytes, 62'914'560);
  EXPECT_EQ(machine_of(header).resident_clusters, (std::array<int, 4>{66, 30, 15, 7}));
  header.units = 66;  // a part of one
  EXPECT_EQ(machine_of(header).l2_bytes, 0);
  header.machine = "NVIDIA H100";
  header.units = 132;
  EXPECT_EQ(machine_of(header).l2_bytes, 0);
}

TEST(PackBuilder, CompilesWithoutAGpuAndWritesAPack) {
  std::string name = (fs::temp_directory_path() / "warpsmith-packs-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path folder = name;
  const Wisdom wisdom = small_wisdom();
  PackVariants plain;
  plain.scaled = false;
  const PackPlan plan = plan_pack(wisdom, machine_of(wisdom.header()), plain, {});
  const Compiler compiler({.cache = folder / "cache", .nvrtc_helper = WARPSMITH_NVRTC_HELPER});
  const std::atomic<bool> stop{false};
  std::size_t reports = 0;
  const auto report = build_pack(plan, compiler, 2, {{"gpu", "NVIDIA H200"}}, folder / "h200.wspack", stop,
                                 [&](const PackProgress&) { ++reports; });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->progress.done, plan.kernels.size());
  EXPECT_EQ(report->progress.failed, 0U);
  EXPECT_EQ(reports, plan.kernels.size());
  const auto pack = Pack::open(folder / "h200.wspack");
  ASSERT_TRUE(pack) << pack.error().message;
  for (const auto& [key, candidate] : plan.kernels) {
    const auto cubin = pack->find(key);
    ASSERT_TRUE(cubin && cubin->has_value());
    const auto facts = read_cubin(**cubin);
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->entries.front(), std::get<CudaLaunch>(candidate.launch).kernels.front().entry);
  }
  // What was compiled is found again without a compile.
  for (const auto& [key, candidate] : plan.kernels) EXPECT_TRUE(compiler.find(candidate).has_value());
  fs::remove_all(folder);
}

TEST(PackBuilder, WithoutACompilerThereIsNoPack) {
  const PackPlan plan = [] {
    const Wisdom wisdom = small_wisdom();
    return plan_pack(wisdom, machine_of(wisdom.header()), {}, {});
  }();
  const fs::path folder = fs::temp_directory_path() / "warpsmith-no-compiler";
  const Compiler compiler({.cache = folder, .nvrtc_helper = "/nonexistent/warpsmith-nvrtc"});
  const std::atomic<bool> stop{false};
  const auto report =
      build_pack(plan, compiler, 1, nlohmann::json::object(), folder / "x.wspack", stop, [](const PackProgress&) {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::environment);
  EXPECT_FALSE(fs::exists(folder / "x.wspack"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace warpsmith::library
