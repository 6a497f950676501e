// The tiny and skinny families: rules, launches, and that what they generate compiles without spills. Needs NVRTC, no
// GPU; emulated_kernels_test runs the kernels.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "codegen/generate.h"
#include "kernel_compile.h"
#include "recipe/direct_plan.h"

namespace warpsmith {
namespace {

const std::vector<std::string> kTinyShapes = {
    "1x1x1 tn",           "1x8x8 nn",        "64x64x64 tn",    "64x64x4096 nn", "77x141x1001 tt",
    "512x512x64 tn bf16", "128x256x2048 nt", "16384x64x64 nn", "64x1024x64 tn", "33x65x7 nn"};
const std::vector<std::string> kSkinnyShapes = {
    "1x1x1 nn",       "16x4096x4096 tn",      "1x4096x4096 nn", "4096x16x4096 tt",  "8x12288x4096 nt",
    "7x1001x3001 tn", "32x512x16384 nn bf16", "8192x8x8192 nn", "1048576x8x1024 tn"};

template <class Check>
void for_every_start(const Machine& machine, Check check) {
  for (const auto& [family, shapes] : {std::pair{&tiny_family(), kTinyShapes}, {&skinny_family(), kSkinnyShapes}}) {
    for (const std::string& shape : shapes) {
      const Problem p = problem(shape);
      check(*family, p, family->starting_points(p, machine));
    }
  }
}

TEST(DirectFamilies, StartingPointsAreLegalAndDistinct) {
  for (const int compute_capability : {90, 80}) {
    const Machine machine = gpu(compute_capability);
    for_every_start(machine, [&](const Family& family, const Problem& p, const std::vector<Recipe>& points) {
      EXPECT_GE(points.size(), 2u) << to_string(p) << " " << family.name;
      EXPECT_LE(points.size(), 13u) << to_string(p) << " " << family.name;
      std::set<std::string> texts;
      for (const Recipe& point : points) {
        EXPECT_TRUE(is_legal(point, p, machine)) << to_string(p) << " " << to_string(point);
        EXPECT_TRUE(texts.insert(to_string(point)).second) << to_string(p) << " " << to_string(point);
      }
    });
  }
}

TEST(DirectFamilies, HaveNothingForProblemsOfAnotherKind) {
  EXPECT_TRUE(tiny_family().starting_points(problem("8192x8192x8192"), gpu(90)).empty());
  EXPECT_TRUE(skinny_family().starting_points(problem("64x4096x4096"), gpu(90)).empty());
}

TEST(DirectFamilies, EveryRuleRejects) {
  EXPECT_EQ(broken_rule("tiny", "64x64x256 tn", 75), "architecture");
  EXPECT_EQ(broken_rule("tiny split=2", "64x64x512 tn", 80), "cluster");
  EXPECT_EQ(broken_rule("tiny pdl=1", "64x64x256 tn", 80), "dependents");
  EXPECT_EQ(broken_rule("tiny tile=8x8x64", "64x64x256 tn"), "tile");
  EXPECT_EQ(broken_rule("tiny warps=4x4x2", "64x64x256 tn"), "threads");
  EXPECT_EQ(broken_rule("tiny tile=64x64x128", "64x64x512 tn"), "registers");
  EXPECT_EQ(broken_rule("tiny tile=32x64x64", "64x64x257 tn"), "class_registers");
  EXPECT_EQ(broken_rule("tiny tile=8x16x64 b=shared", "64x64x256 nn"), "b");
  EXPECT_EQ(broken_rule("tiny tile=16x16x16 b=shared", "64x64x256 nn"), "b");
  EXPECT_EQ(broken_rule("tiny ahead=1 b=shared", "64x64x2560 nn"), "b");
  EXPECT_EQ(broken_rule("tiny b=shared", "64x64x256 tn"), "rows_of_b");
  EXPECT_EQ(broken_rule("tiny b=shared", "64x60x256 nn"), "rows_of_b");
  EXPECT_EQ(broken_rule("tiny b=shared", "64x64x256 nn f16 f32 ld=256,68,64"), "rows_of_b");
  EXPECT_EQ(broken_rule("tiny", "64x64x256 tn bf16 f16"), "accumulator");
  EXPECT_EQ(broken_rule("tiny", "64x64x192 tn"), "depth");
  EXPECT_EQ(broken_rule("tiny ahead=1", "64x64x256 tn"), "ahead");
  EXPECT_EQ(broken_rule("tiny", "4096x4096x256 tn"), "tiles");
  EXPECT_EQ(broken_rule("tiny", "64x64x4352 tn"), "rounds");
  EXPECT_EQ(broken_rule("skinny", "8x64x4096 tn", 75), "architecture");
  EXPECT_EQ(broken_rule("skinny split=2", "8x64x4096 tn", 80), "cluster");
  EXPECT_EQ(broken_rule("skinny pdl=2", "8x64x4096 tn", 80), "dependents");
  EXPECT_EQ(broken_rule("skinny warps=4x8", "8x64x4096 tn"), "threads");
  EXPECT_EQ(broken_rule("skinny tile=64x128 ahead=2", "8x64x4096 tn"), "registers");
  EXPECT_EQ(broken_rule("skinny", "33x64x4096 tn"), "short_side");
  EXPECT_EQ(broken_rule("skinny tile=64x64", "32x64x4096 tn"), "class_registers");
  EXPECT_EQ(broken_rule("skinny", "8x64x4096 tn bf16 f16"), "accumulator");
  EXPECT_EQ(broken_rule("skinny", "8x64x448 tn"), "depth");
  EXPECT_EQ(broken_rule("skinny ahead=2", "8x64x1024 tn"), "ahead");
}

// Rules that no knob value breaks on these machines, only a smaller one.
TEST(DirectFamilies, RulesAboutTheMachineReject) {
  Machine small = gpu(90);
  small.smem_bytes_per_block = 4096;
  const Problem p = problem("32x64x4096 tn");
  EXPECT_EQ(find_violation(recipe("tiny tile=32x32x64"), &p, small)->rule, "shared_memory");
  EXPECT_EQ(find_violation(recipe("skinny"), &p, small)->rule, "shared_memory");
}

TEST(DirectFamilies, AcceptWhatTheyPromise) {
  for (const char* layout : {"tn", "nn", "tt", "nt"}) {
    EXPECT_EQ(broken_rule("tiny", std::string("201x141x277 ") + layout, 80), "");
    EXPECT_EQ(broken_rule("tiny tile=16x16x16 warps=1x1x1", std::string("1x1x1 ") + layout, 80), "");
    EXPECT_EQ(broken_rule("skinny tile=16x64", std::string("1x4097x4095 ") + layout, 80), "");
    EXPECT_EQ(broken_rule("skinny tile=16x32", std::string("4097x31x4095 ") + layout, 80), "");
  }
}

TEST(DirectCodegen, LaunchCoversTheProblem) {
  for_every_start(gpu(90), [](const Family&, const Problem& p, const std::vector<Recipe>& points) {
    for (const Recipe& point : points) {
      const Candidate candidate = generate(point, p, gpu(90)).value();
      const KernelLaunch& launch = std::get<CudaLaunch>(candidate.launch).kernels.at(0);
      const DirectKnobs k = &point.family() == &tiny_family() ? tiny_knobs(point) : skinny_knobs(point, p);
      const int tiles_m = launch.grid[k.transposed ? 1 : 0], tiles_n = launch.grid[k.transposed ? 0 : 1];
      EXPECT_GE(std::int64_t{tiles_m} * k.warps_m * k.tile_m, p.m) << to_string(p) << " " << to_string(point);
      EXPECT_GE(std::int64_t{tiles_n} * k.warps_n * k.tile_n, p.n) << to_string(p) << " " << to_string(point);
      EXPECT_EQ(launch.grid[2], launch.cluster[2]);
      EXPECT_LE(launch.grid[1], 65535);
      EXPECT_LE(launch.block[0], kDirectMostThreads);
      EXPECT_EQ(launch.arguments.size(), 9u);
      EXPECT_EQ(launch.arguments[6].value, p.a_cols());
      EXPECT_EQ(launch.arguments[7].value, p.b_cols());
    }
  });
}

TEST(DirectCodegen, SourceIsSelfContainedAndDependsOnTheClassOnly) {
  const auto source = [](const std::string& recipe_text, const std::string& shape) {
    return generate(recipe(recipe_text), problem(shape), gpu(90)).value().source;
  };
  EXPECT_EQ(source("tiny", "64x64x256 tn"), source("tiny", "128x256x256 tn"));
  EXPECT_NE(source("tiny", "64x64x256 tn"), source("tiny", "65x64x256 tn"));
  EXPECT_NE(source("tiny", "64x64x256 tn"), source("tiny", "64x64x512 tn"));  // more than one round
  EXPECT_NE(source("tiny", "64x64x256 tn"), source("tiny", "64x64x256 nn"));
  EXPECT_EQ(source("tiny", "64x64x256 tn"), source("tiny", "64x64x256 tn ld=264,272,72"));
  EXPECT_NE(source("tiny", "64x64x256 tn"), source("tiny", "64x64x256 tn ld=260,0,0"));  // narrower loads
  EXPECT_NE(source("tiny", "64x64x256 tn"), source("tiny", "64x64x256 tn scaled"));
  EXPECT_NE(source("tiny", "64x64x256 tn"), source("tiny", "64x64x256 tn f16 f16"));
  EXPECT_EQ(source("skinny", "8x4096x4096 tn"), source("skinny", "8x512x8192 tn"));
  EXPECT_NE(source("skinny", "8x4096x4096 tn"), source("skinny", "4096x8x4096 tn"));
  EXPECT_EQ(source("tiny", "64x64x256 tn").find("#include"), std::string::npos);
  EXPECT_NE(source("tiny", "64x64x256 tn").find(to_string(recipe("tiny"))), std::string::npos);
}

#ifdef WARPSMITH_NVRTC_HELPER

using DirectCompile = KernelCompile;

TEST_F(DirectCompile, EveryPathWithoutSpills) {
  expect_clean(recipe("tiny"), "64x64x256 tn");
  expect_clean(recipe("tiny tile=32x32x64 warps=2x2x2 split=4 ahead=1"), "64x512x2048 nn bf16");
  expect_clean(recipe("tiny tile=8x64x32 warps=1x1x8 fetch=256 pdl=2"), "100x512x256 nt");
  expect_clean(recipe("tiny tile=64x8x64 warps=1x2x4 split=16 pdl=1 fetch=128"), "64x72x4096 tt");
  expect_clean(recipe("tiny tile=16x32x64 warps=1x1x2"), "201x141x177 nn");  // loads of 2 bytes
  expect_clean(recipe("skinny"), "8x4096x4096 tn");
  expect_clean(recipe("skinny tile=64x32 warps=1x8 ahead=2 hint=first fetch=128"), "16x4096x4096 nn");
  expect_clean(recipe("skinny tile=16x64 warps=2x4 split=2 ahead=1"), "4096x32x8192 tt bf16");
  expect_clean(recipe("skinny tile=16x64 warps=1x4 ahead=3 pdl=2"), "1003x1x4095 nn");
}

TEST_F(DirectCompile, LeadingDimensionsFactorsAndFp16Sums) {
  expect_clean(recipe("tiny"), "64x64x256 tn f16 f32 scaled");
  expect_clean(recipe("tiny tile=32x32x64 warps=2x2x2 split=4 ahead=1"), "64x512x2048 nn bf16 f32 scaled ld=0,520,514");
  expect_clean(recipe("tiny tile=64x64x32 warps=1x1x2"), "100x200x256 nt f16 f32 scaled");
  expect_clean(recipe("tiny tile=16x32x64 warps=1x1x2"), "201x141x177 nn f16 f16 scaled");
  expect_clean(recipe("tiny tile=64x64x32 warps=1x1x8"), "64x64x1024 tn f16 f16");
  expect_clean(recipe("skinny"), "8x4096x4096 tn f16 f32 scaled ld=4104,4112,4100");
  expect_clean(recipe("skinny tile=64x32 warps=1x8 ahead=2 hint=first fetch=128"), "16x4096x4096 nn f16 f16");
  expect_clean(recipe("skinny tile=16x64 warps=2x4 split=2 ahead=1"), "4096x32x8192 tt f16 f16 scaled");
}

TEST_F(DirectCompile, WithoutClustersOnAmpere) {
  expect_clean(recipe("tiny tile=16x16x32"), "201x141x128 nn bf16", 80);
  expect_clean(recipe("skinny hint=first"), "4x4096x4096 nn", 80);
}

// Legality agrees with the compiler, one way: whatever the rules let through compiles, and without spills.
TEST_F(DirectCompile, RandomLegalRecipes) {
  constexpr int kRecipesPerFamily = 10;
  std::mt19937_64 generator(20261203);
  const std::vector<std::string> tiny = {"256x256x256 tn", "77x136x1000 nn bf16", "64x192x4096 tt", "61x57x999 nt"};
  const std::vector<std::string> skinny = {"16x4096x4096 tn", "8x1024x4096 nn bf16", "1001x3x4099 tt",
                                           "32x512x8192 nn"};
  for (const auto& [family, shapes] : {std::pair{&tiny_family(), &tiny}, {&skinny_family(), &skinny}}) {
    for (int found = 0; found < kRecipesPerFamily;) {
      Recipe random(*family);
      const auto fields = family->fields();
      for (std::size_t f = 0; f < fields.size(); ++f) {
        random.set_choice(f, static_cast<int>(generator() % fields[f]->values.size()));
      }
      const std::string& shape = (*shapes)[static_cast<std::size_t>(found) % shapes->size()];
      if (!is_legal(random, problem(shape), gpu(90))) continue;
      ++found;
      expect_clean(random, shape);
    }
  }
}

// And the other way: what the rules about the recipe alone refuse, the device code's own assertions refuse too.
TEST_F(DirectCompile, DeviceCodeRefusesWhatTheRulesRefuse) {
  for (const char* text : {"tiny tile=8x8x64", "tiny warps=4x4x2", "tiny tile=64x64x128"}) {
    expect_refused(recipe(text), problem("16x1024x4096 tn"), generate_tiny);
  }
  for (const char* text : {"skinny warps=4x8", "skinny tile=64x128 ahead=2"}) {
    expect_refused(recipe(text), problem("16x1024x4096 tn"), generate_skinny);
  }
}

#endif

}  // namespace
}  // namespace warpsmith
