// The sm80 family: rules, launches, and that what it generates compiles without spills for compute capability 8.0, 8.6,
// 8.9 and 9.0, to machine code and to PTX. Needs NVRTC, no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "codegen/generate.h"
#include "kernel_compile.h"
#include "recipe/sm80_plan.h"

namespace warpsmith {
namespace {

std::string broken_rule_on(const std::string& architecture, const std::string& recipe_text,
                           const std::string& problem_text = "512x512x512 tn") {
  const Problem p = problem(problem_text);
  const auto violation = find_violation(recipe(recipe_text), &p, machine_of_architecture(architecture).value());
  return violation ? violation->rule : "";
}

TEST(Sm80Family, EveryRuleRejects) {
  const std::string hopper = "sm_90";
  EXPECT_EQ(broken_rule("sm80", "256x256x256 tn", 75), "architecture");
  EXPECT_EQ(broken_rule_on("sm_80", "sm80 split=2 epilogue=staged"), "hopper");
  EXPECT_EQ(broken_rule_on("sm_89", "sm80 pdl=1"), "hopper");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=32x128x32 warps=4x2"), "warps");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=128x96x32 warps=2x5"), "warps");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=128x128x32 warps_k=4 epilogue=staged"), "warps");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=256x256x64 warps=8x4"), "warps");  // 1024 threads
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=256x256x32 warps=2x2"), "registers");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=128x128x64 loop=multistep"), "sum_registers");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=128x128x64 loop=multistep stages=3", "512x512x512 tn f16 f16"), "");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 stages=2 loop=early_copy"), "loop_places");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 loop=2x1xabx3x0xduex1x0x1"), "loop_places");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=64x64x128 stages=3 loop=2x1xabx0x0xduex1x0x4"), "");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=64x64x128 stages=3 loop=3x1xabx0x0xduex1x0x4"), "loop_places");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 stages=2 loop=staggered"), "loop");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 loop=1x1xabx0x0xduex1x0x1"), "loop");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 split=2"), "reduction");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 reduce=workspace"), "reduction");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 tile=128x128x128 stages=4"), "shared_memory");
  EXPECT_EQ(broken_rule_on(hopper, "sm80", "256x256x256 tn bf16 f16"), "accumulator");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 split=3 epilogue=staged", "256x256x64 tn"), "split_depth");
  EXPECT_EQ(broken_rule_on(hopper, "sm80 split=16 epilogue=staged reduce=workspace", "16384x4096x4096 tn"), "grid");
}

// 163 KiB of shared memory per block on 8.0, 99 KiB on 8.6 and 8.9, 227 KiB on 9.0.
TEST(Sm80Family, SharedMemoryDependsOnTheArchitecture) {
  const std::string bytes_98304 = "sm80 tile=128x128x64 stages=3", bytes_114688 = "sm80 tile=128x96x64 stages=4",
                    bytes_163840 = "sm80 tile=128x128x64 stages=5", bytes_229376 = "sm80 tile=128x128x64 stages=7";
  for (const char* architecture : {"sm_86", "sm_89"}) {
    EXPECT_EQ(broken_rule_on(architecture, bytes_98304), "");
    EXPECT_EQ(broken_rule_on(architecture, bytes_114688), "shared_memory");
  }
  EXPECT_EQ(broken_rule_on("sm_80", bytes_114688), "");
  EXPECT_EQ(broken_rule_on("sm_80", bytes_163840), "");
  EXPECT_EQ(broken_rule_on("sm_80", bytes_229376), "shared_memory");
  EXPECT_EQ(broken_rule_on("sm_90", bytes_229376), "");
}

TEST(Sm80Family, StartingPointsOfEveryArchitecture) {
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_90"}) {
    const Machine machine = machine_of_architecture(architecture).value();
    for (const char* shape : {"1x1x1", "64x64x64 tn", "64x64x16384 nt", "201x141x77 nn bf16", "512x512x512 tn f16 f16",
                              "4096x4096x4096 tt scaled", "64x8192x512 tn ld=520,520,8200"}) {
      const Problem p = problem(shape);
      const std::vector<Recipe> points = sm80_family().starting_points(p, machine);
      EXPECT_GE(points.size(), 3u) << architecture << " " << shape;
      EXPECT_LE(points.size(), 12u) << architecture << " " << shape;
      for (const Recipe& point : points) EXPECT_TRUE(is_legal(point, p, machine)) << architecture << to_string(point);
    }
  }
}

TEST(Sm80Family, LongKAndFewTilesSplitK) {
  const auto points =
      sm80_family().starting_points(problem("64x64x16384 tn"), machine_of_architecture("sm_80").value());
  EXPECT_TRUE(std::any_of(points.begin(), points.end(), [](const Recipe& point) {
    return sm80_knobs(point).split > 1 && sm80_knobs(point).reduce == kSm80Workspace;
  }));
}

TEST(Sm80Codegen, LaunchesSayWhatTheKernelTakes) {
  const auto launch = [&](const std::string& text, const std::string& shape) {
    return std::get<CudaLaunch>(generate(recipe(text), problem(shape), gpu(90)).value().launch);
  };
  const CudaLaunch plain = launch("sm80", "300x300x100 tn ld=104,112,320");
  const KernelLaunch& kernel = plain.kernels.at(0);
  EXPECT_EQ(kernel.grid[0], 9);
  EXPECT_EQ(kernel.cluster[0], 1);
  ASSERT_EQ(kernel.arguments.size(), 9u);
  EXPECT_EQ(kernel.arguments[6].value, 104);
  EXPECT_EQ(kernel.arguments[7].value, 112);
  EXPECT_EQ(kernel.arguments[8].value, 320);
  const CudaLaunch scaled = launch("sm80 split=4 epilogue=staged pdl=1", "300x300x512 tn f16 f32 scaled");
  EXPECT_EQ(scaled.kernels.at(0).cluster[0], 4);
  EXPECT_EQ(scaled.kernels.at(0).grid[0], 36);
  EXPECT_TRUE(scaled.takes_scaling());
  EXPECT_TRUE(scaled.kernels.at(0).programmatic_dependent_launch);
  EXPECT_EQ(scaled.workspace_bytes, 0);
  const CudaLaunch workspace = launch("sm80 split=3 epilogue=staged reduce=workspace", "300x300x512 tn");
  EXPECT_EQ(workspace.kernels.at(0).cluster[0], 1);
  EXPECT_EQ(workspace.workspace_bytes, 128 + 9 * 3 * 128 * 128 * 4);
  EXPECT_TRUE(workspace.zero_workspace);
}

TEST(Sm80Codegen, SourceShowsTheProgramAndDependsOnTheClassOnly) {
  const auto source = [&](const std::string& text, const std::string& shape) {
    return generate(recipe(text), problem(shape), gpu(90)).value().source;
  };
  EXPECT_EQ(source("sm80", "128x128x64 tn"), source("sm80", "1000x904x800 tn ld=808,816,1000"));
  EXPECT_NE(source("sm80", "128x128x64 tn"), source("sm80", "128x128x64 tn f16 f32 scaled"));
  EXPECT_NE(source("sm80 loop=naive", "128x128x64 tn").find("wait 2; barrier; ldmatrix A0 B0; copy A"),
            std::string::npos);
}

#ifdef WARPSMITH_NVRTC_HELPER

class Sm80Compile : public KernelCompile {
 protected:
  // On all cores.
  void expect_all_clean(const std::vector<std::pair<std::string, std::string>>& recipes_and_shapes) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < recipes_and_shapes.size(); at = next++) {
          expect_clean(recipe(recipes_and_shapes[at].first), recipes_and_shapes[at].second);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(Sm80Compile, NamedLoopsInEveryLayout) {
  std::vector<std::pair<std::string, std::string>> cases;
  for (const KnobPoint& point : sm80_loop_knob().points) {
    for (const char* layout : {"nn", "tn", "tt", "nt"}) {
      for (const char* element : {"f16", "bf16"}) {
        cases.emplace_back("sm80 tile=64x64x64 stages=3 loop=" + point.name,
                           fmt::format("512x512x512 {} {}", layout, element));
      }
    }
  }
  expect_all_clean(cases);
}

TEST_F(Sm80Compile, EveryPath) {
  expect_all_clean({{"sm80", "512x512x512 tn"},
                    {"sm80 loop=spread tile=128x128x64 stages=4 fetch=128", "512x512x512 nn"},
                    {"sm80 tile=256x128x32 warps=4x2 loop=late_barrier", "512x512x512 nt bf16"},
                    {"sm80 tile=96x160x32 warps=3x5", "512x512x512 nn"},
                    {"sm80 tile=160x192x64 warps=2x4 stages=3 epilogue=staged", "512x512x512 tt"},
                    {"sm80 tile=96x96x32 warps=3x4 epilogue=pairs fetch=256", "77x135x63 nn"},
                    {"sm80 tile=224x64x32 warps=2x2 loop=full_ring", "512x516x512 nt"},
                    {"sm80 tile=128x128x64 stages=3 loop=multistep", "512x512x512 tn f16 f16"},
                    {"sm80 warps_k=2 epilogue=staged", "512x512x512 tn f16 f16 scaled"},
                    {"sm80 tile=64x64x64 warps_k=4 split=8 epilogue=staged", "512x512x4096 tn f16 f32 scaled"},
                    {"sm80 tile=64x64x64 split=8 reduce=workspace epilogue=staged pdl=1", "512x512x4096 nn bf16"},
                    {"sm80 epilogue=lanes", "511x509x507 tn f16 f32 scaled"},
                    {"sm80 epilogue=pairs pdl=2", "512x512x512 tn f16 f32 scaled ld=516,520,514"}});
}

TEST_F(Sm80Compile, PtxForOlderGpus) {
  for (const int capability : {80, 86, 89}) {
    const Machine machine = machine_of_architecture(fmt::format("sm_{}", capability)).value();
    const Problem p = problem("512x512x4096 tn");
    for (const char* text : {"sm80 loop=spread tile=64x64x64 stages=3",
                             "sm80 tile=64x64x64 stages=3 split=4 "
                             "reduce=workspace epilogue=staged"}) {
      Result<Candidate> candidate = generate(recipe(text), p, machine);
      ASSERT_TRUE(candidate.ok()) << candidate.error().message;
      candidate->arch = fmt::format("compute_{}", capability);
      const Result<Artifact> artifact = compile(*candidate);
      ASSERT_TRUE(artifact.ok()) << artifact.error().message;
      const std::string ptx = read_file(artifact->binary).value();
      EXPECT_NE(ptx.find(fmt::format(".target sm_{}", capability)), std::string::npos) << ptx.substr(0, 400);
      EXPECT_NE(ptx.find(".entry warpsmith_sm80_gemm"), std::string::npos);
      EXPECT_EQ(artifact->binary.extension(), ".ptx");
    }
  }
}

// What the rules about the recipe alone refuse, the device code's own assertions refuse too.
TEST_F(Sm80Compile, DeviceCodeRefusesWhatTheRulesRefuse) {
  for (const char* text :
       {"sm80 tile=32x128x32 warps=4x2", "sm80 tile=256x256x32 warps=2x2", "sm80 stages=2 loop=early_copy",
        "sm80 loop=2x1xabx3x0xduex1x0x1", "sm80 stages=2 loop=staggered", "sm80 loop=1x1xabx0x0xduex1x0x1",
        "sm80 split=2", "sm80 warps_k=2 epilogue=pairs", "sm80 tile=64x64x128 stages=3 loop=3x1xabx0x0xduex1x0x4"}) {
    expect_refused(recipe(text), problem("1024x1024x4096 tn"), generate_sm80);
  }
}

// Whatever the rules let through, compiles.
TEST_F(Sm80Compile, RandomLegalRecipes) {
  constexpr int kRecipes = 12;
  std::mt19937_64 random(80);
  const std::vector<std::string> shapes = {"1024x1024x1024 tn", "77x136x1000 nn bf16", "4096x64x4096 tt f16 f16",
                                           "63x511x8191 nt f16 f32 scaled"};
  const auto fields = sm80_family().fields();
  for (int found = 0; found < kRecipes;) {
    Recipe candidate(sm80_family());
    for (std::size_t f = 0; f < fields.size(); ++f) {
      candidate.set_choice(f, static_cast<int>(random() % fields[f]->values.size()));
    }
    const std::string& shape = shapes[static_cast<std::size_t>(found) % shapes.size()];
    if (!is_legal(candidate, problem(shape), gpu(90))) continue;
    ++found;
    expect_compiles(candidate, shape);
  }
}

#endif

}  // namespace
}  // namespace warpsmith
