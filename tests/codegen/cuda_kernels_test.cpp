// The sm90 and sm80 families: rules, launches, and that what they generate compiles without spills or serialised wgmma.
// Needs NVRTC, no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "codegen/alignment.h"
#include "codegen/generate.h"
#include "kernel_compile.h"
#include "recipe/sm90_plan.h"

namespace warpsmith {
namespace {

const std::vector<std::string> kShapes = {
    "1x1x8 tn",       "1x8x8 nn",         "64x64x64",        "64x64x16384", "77x136x1000 nn",    "512x512x512 tn bf16",
    "1000x1000x1000", "4096x4096x64 tn",  "16x4096x4096 tn", "8192x8x8192", "2048x2048x2048 tn", "8192x8192x8192 nn",
    "16384x256x512",  "1048576x8x1024 tn"};

TEST(CudaFamilies, StartingPointsAreLegalAndDistinct) {
  for (const std::string& shape : kShapes) {
    for (const Family* family : {&sm90_family(), &sm80_family()}) {
      const Problem p = problem(shape);
      const std::vector<Recipe> points = family->starting_points(p, gpu(90));
      EXPECT_GE(points.size(), 3u) << shape << " " << family->name;
      EXPECT_LE(points.size(), 12u) << shape << " " << family->name;
      std::set<std::string> texts;
      for (const Recipe& point : points) {
        EXPECT_TRUE(is_legal(point, p, gpu(90))) << shape << " " << to_string(point);
        EXPECT_TRUE(texts.insert(to_string(point)).second) << shape << " " << to_string(point);
      }
    }
  }
}

TEST(CudaFamilies, EveryRuleRejects) {
  EXPECT_EQ(broken_rule("sm90", "256x256x256 tn", 80), "architecture");
  EXPECT_EQ(broken_rule("sm90 tile=64x64x64 consumers=2", "256x256x256 tn"), "consumer_rows");
  EXPECT_EQ(broken_rule("sm90 tile=256x256x64 stages=3", "256x256x256 tn"), "sum_registers");
  EXPECT_EQ(broken_rule("sm90 tile=256x256x64 consumers=1", "256x256x256 tn f16 f16"), "registers");
  EXPECT_EQ(broken_rule("sm90 tile=256x192x64 stages=3 epilogue=direct", "256x256x256 tn scaled"), "sum_registers");
  EXPECT_EQ(broken_rule("sm90 tile=256x256x64 stages=3", "256x256x256 tn f16 f16 scaled"), "sum_registers");
  EXPECT_EQ(broken_rule("sm90 tile=192x256x64 consumers=3", "256x256x256 tn"), "sum_registers");
  EXPECT_EQ(broken_rule("sm90 cluster=2x2 split=8", "256x256x4096 tn"), "cluster_size");
  EXPECT_EQ(broken_rule("sm90 epilogue=tma", "256x260x256 tn f16 f32 ld=256,256,264"), "alignment");
  EXPECT_EQ(broken_rule("sm90 split=2 persistent=1", "256x256x256 tn"), "split");
  EXPECT_EQ(broken_rule("sm90 split=2 epilogue=direct", "256x256x256 tn"), "split");
  EXPECT_EQ(broken_rule("sm90 tile=64x64x64 consumers=1 split=3", "256x256x4096 tn"), "split");
  EXPECT_EQ(broken_rule("sm90 streamk=1", "256x256x4096 tn"), "streamk");
  EXPECT_EQ(broken_rule("sm90 persistent=1 streamk=1 split=8", "1024x1024x4096 tn"), "resident");
  EXPECT_EQ(broken_rule("sm90 persistent=1 streamk=1", "1536x1408x4096 tn"), "dealt");
  EXPECT_EQ(broken_rule("sm90 tile=64x64x32 consumers=1 persistent=1 streamk=1", "8000x64x200000 tn"), "dealt");
  EXPECT_EQ(broken_rule("sm90 tile=128x192x64 persistent=1 streamk=1 consumers=1", "256x256x4096 tn"), "sum_registers");
  EXPECT_EQ(broken_rule("sm90 tile=256x192x64 swap=1 epilogue=direct", "256x256x4096 tn"), "registers");
  EXPECT_EQ(broken_rule("sm90 pingpong=1", "256x256x256 tn"), "pingpong");
  EXPECT_EQ(broken_rule("sm90 pingpong=1 persistent=1 consumers=1", "256x256x256 tn"), "pingpong");
  EXPECT_EQ(broken_rule("sm90 pingpong=1 persistent=1 streamk=1", "256x256x4096 tn"), "pingpong");
  EXPECT_EQ(broken_rule("sm90 staging=1", "256x256x256 tn"), "staging");
  EXPECT_EQ(broken_rule("sm90 persistent=1 epilogue=tma staging=2", "256x256x256 tn"), "staging");
  EXPECT_EQ(broken_rule("sm90 persistent=1 epilogue=tma staging=1 swap=1", "256x256x256 tn"), "staging");
  EXPECT_EQ(broken_rule("sm90", "256x256x256 tn bf16 f16"), "accumulator");
  EXPECT_EQ(broken_rule("sm90", "256x256x252 tn"), "alignment");
  EXPECT_EQ(broken_rule("sm90", "256x252x256 nn"), "alignment");
  EXPECT_EQ(broken_rule("sm90", "252x256x256 nt"), "alignment");
  EXPECT_EQ(broken_rule("sm90 epilogue=tma", "256x252x256 tn"), "alignment");
  EXPECT_EQ(broken_rule("sm90", "256x256x256 tn ld=260,0,0"), "alignment");
  EXPECT_EQ(broken_rule("sm90", "256x256x256 tn ld=0,260,0"), "alignment");
  EXPECT_EQ(broken_rule("sm90 epilogue=tma", "256x256x256 tn ld=0,0,260"), "alignment");
  EXPECT_EQ(broken_rule("sm90 tile=64x8x64 consumers=1 cluster=2x1", "256x256x256 tn"), "multicast");
  EXPECT_EQ(broken_rule("sm90 split=8", "256x256x256 tn"), "split_depth");
  EXPECT_EQ(broken_rule("sm90 stages=8", "256x256x256 tn"), "shared_memory");
  EXPECT_EQ(broken_rule("sm80", "256x256x256 tn", 75), "architecture");
  EXPECT_EQ(broken_rule("sm80 tile=32x128x32 warps=4x2", "256x256x256 tn"), "warps");
  EXPECT_EQ(broken_rule("sm80 tile=256x256x32 warps=2x2", "256x256x256 tn"), "registers");
  EXPECT_EQ(broken_rule("sm80 tile=128x128x128 stages=4", "256x256x256 tn"), "shared_memory");
  EXPECT_EQ(broken_rule("sm80", "256x256x256 tn bf16 f16"), "accumulator");
}

TEST(CudaFamilies, AcceptsWhatTheyPromise) {
  EXPECT_EQ(broken_rule("sm90", "77x141x136 tn"), "");
  EXPECT_EQ(broken_rule("sm90", "77x136x144 nn"), "");
  EXPECT_EQ(broken_rule("sm90", "136x141x136 tt"), "");
  EXPECT_EQ(broken_rule("sm90", "136x136x77 nt"), "");
  EXPECT_EQ(broken_rule("sm90 epilogue=tma", "77x144x133 tn ld=136,144,152"), "");
  EXPECT_EQ(broken_rule("sm90", "77x141x133 tn scaled ld=136,144,143"), "");
  EXPECT_EQ(broken_rule("sm90 tile=256x256x64 stages=3", "512x512x512 tn f16 f16"), "");
  for (const char* layout : {"tn", "nn", "tt", "nt"}) {
    EXPECT_EQ(broken_rule("sm80", std::string("201x141x77 ") + layout), "");
    EXPECT_EQ(broken_rule("sm80", std::string("1x1x1 ") + layout, 80), "");
  }
}

// The tile's boxes together bring in the whole stage, and the grid covers C.
TEST(CudaCodegen, LaunchCoversTheProblem) {
  for (const std::string& shape : kShapes) {
    const Problem p = problem(shape);
    for (const Recipe& point : sm90_family().starting_points(p, gpu(90))) {
      const Candidate candidate = generate(point, p, gpu(90)).value();
      const KernelLaunch& launch = std::get<CudaLaunch>(candidate.launch).kernels.at(0);
      const Sm90Knobs knobs = sm90_knobs(point);
      EXPECT_EQ(launch.grid[0] % launch.cluster[0], 0) << to_string(point);
      const std::int64_t groups = launch.grid[0] / launch.cluster[0] / (knobs.parts() ? knobs.split : 1);
      const std::int64_t covered = groups * knobs.cluster_m * knobs.cluster_n * knobs.tile_m * knobs.tile_n;
      if (!knobs.loops()) {
        EXPECT_GE(covered, p.m * p.n) << shape << " " << to_string(point);
      }
      EXPECT_LE(launch.dynamic_smem_bytes, gpu(90).smem_bytes_per_block);
      EXPECT_EQ(launch.arguments.size(),
                7u + (knobs.epilogue == kSm90Tma ? 1 : 0) + (knobs.streamk ? 1 : 0) + (knobs.loops() ? 1 : 6));
      const TensorMap &map_a = launch.arguments[knobs.swap ? 1 : 0].map,
                      &map_b = launch.arguments[knobs.swap ? 0 : 1].map;
      EXPECT_EQ(map_a.operand, Operand::a);
      EXPECT_EQ(map_a.dims, (std::array<std::int64_t, 2>{p.a_cols(), p.a_rows()}));
      EXPECT_EQ(map_b.operand, Operand::b);
      EXPECT_EQ(map_b.dims, (std::array<std::int64_t, 2>{p.b_cols(), p.b_rows()}));
      for (const KernelArgument& argument : launch.arguments) {
        if (argument.kind != KernelArgument::Kind::tensor_map) continue;
        EXPECT_LE(std::max(argument.map.box[0], argument.map.box[1]), 256);
        EXPECT_TRUE(argument.map.swizzle_bytes == 0 || argument.map.box[0] * 2 == argument.map.swizzle_bytes);
      }
    }
  }
}

TEST(CudaCodegen, StreamKAsksForAClearedWorkspace) {
  const Problem p = problem("512x512x16384 tn");  // 16 tiles
  const auto launch = [&](const std::string& text) {
    return std::get<CudaLaunch>(generate(recipe(text), p, gpu(90)).value().launch);
  };
  const CudaLaunch plain = launch("sm90 persistent=1 epilogue=direct");
  EXPECT_EQ(plain.workspace_bytes, 0);
  EXPECT_FALSE(plain.zero_workspace);
  const CudaLaunch even = launch("sm90 persistent=1 streamk=1 epilogue=direct");
  EXPECT_EQ(even.kernels.at(0).grid[0], 132);
  EXPECT_EQ(even.workspace_bytes, 132 * 2 * 128 * 128 * 4);
  EXPECT_TRUE(even.zero_workspace);
  const CudaLaunch split = launch("sm90 persistent=1 streamk=1 split=8 epilogue=direct");
  EXPECT_EQ(split.kernels.at(0).grid[0], 8 * 16);
  EXPECT_EQ(split.kernels.at(0).cluster[0], 1);
  EXPECT_EQ(split.kernels.at(0).arguments.back(), KernelArgument::integer(256 / 8));
  EXPECT_EQ(split.workspace_bytes, 16 * 8 * 128 * 128 * 4);
}

// Bands of 8 tiles, or fewer where that leaves fewer blocks outside; inverses that divide every cluster's number
// exactly.
TEST(CudaCodegen, GridOfBands) {
  const auto launch = [&](const std::string& text, const std::string& shape) {
    return std::get<CudaLaunch>(generate(recipe(text), problem(shape), gpu(90)).value().launch).kernels.at(0);
  };
  const auto places = [&](const KernelLaunch& kernel) {
    std::vector<std::int64_t> values;
    for (std::size_t i = kernel.arguments.size() - 6; i < kernel.arguments.size(); ++i) {
      values.push_back(static_cast<std::uint32_t>(kernel.arguments[i].value));
    }
    return values;
  };
  const std::int64_t whole = std::int64_t{1} << 31;
  using Values = std::vector<std::int64_t>;
  const KernelLaunch even = launch("sm90 cluster=2x1", "2048x512x64 tn");
  EXPECT_EQ(even.grid[0], 2 * 8 * 4);
  EXPECT_EQ(places(even), (Values{8, 4, whole / 8, whole / 4, 1, 1}));
  const KernelLaunch ragged = launch("sm90", "1152x512x64 tn");  // 9 tiles along M
  EXPECT_EQ(ragged.grid[0], 5 * 4 * 2);
  EXPECT_EQ(places(ragged), (Values{5, 4, (whole + 4) / 5, whole / 4, 1, 1}));
  EXPECT_EQ(places(launch("sm90 raster=n group=2", "1152x512x64 tn")),
            (Values{2, 9, whole / 2, (whole + 8) / 9, 1, 1}));
  EXPECT_EQ(launch("sm90 persistent=1", "1152x512x64 tn").grid[0], 36);
  for (const std::int64_t divisor : {1, 2, 3, 5, 7, 9, 11, 127, 1000, 46340}) {
    const std::int64_t inverse = (whole + divisor - 1) / divisor;
    for (std::int64_t index = whole / divisor - 1, left = 2000; index >= 0 && left > 0; --index, --left) {
      ASSERT_EQ(index * inverse >> 31, index / divisor) << index << " / " << divisor;
    }
  }
}

// Persistent kernels take K back and forth where the cache does not hold the operands anyway; the source is the same.
TEST(CudaCodegen, TurnsWhereTheCacheIsTooSmall) {
  Machine machine = gpu(90);
  machine.l2_bytes = 60 << 20;
  const Candidate small = generate(recipe("sm90 persistent=1"), problem("1024x1024x1024 tn"), machine).value();
  const Candidate large = generate(recipe("sm90 persistent=1"), problem("8192x8192x8192 tn"), machine).value();
  EXPECT_EQ(small.source, large.source);
  EXPECT_EQ(std::get<CudaLaunch>(small.launch).kernels.at(0).arguments.back(), KernelArgument::integer(0));
  EXPECT_EQ(std::get<CudaLaunch>(large.launch).kernels.at(0).arguments.back(), KernelArgument::integer(1));
}

TEST(CudaCodegen, SourceIsSelfContainedAndDependsOnTheClassOnly) {
  const Candidate small = generate(recipe("sm90"), problem("128x128x64 tn"), gpu(90)).value();
  const Candidate large = generate(recipe("sm90"), problem("1000x904x800 tn"), gpu(90)).value();
  EXPECT_EQ(small.source, large.source);
  EXPECT_EQ(small.source.find("#include"), std::string::npos);
  EXPECT_NE(small.source.find(to_string(recipe("sm90"))), std::string::npos);
  EXPECT_NE(small.source, generate(recipe("sm90"), problem("128x128x64 nn"), gpu(90)).value().source);
}

// One source for every leading dimension; the factors are arguments.
TEST(CudaCodegen, LeadingDimensionsAndFactorsAreArguments) {
  const auto made = [](const std::string& shape) {
    return generate(recipe("sm90 epilogue=tma"), problem(shape), gpu(90)).value();
  };
  const Candidate packed = made("256x256x256 tn"), padded = made("250x248x252 tn ld=256,264,272");
  EXPECT_EQ(packed.source, padded.source);
  const std::vector<KernelArgument>& arguments = std::get<CudaLaunch>(padded.launch).kernels.at(0).arguments;
  EXPECT_EQ(arguments[0].map.ld, 256);
  EXPECT_EQ(arguments[1].map.ld, 264);
  EXPECT_EQ(arguments[2].map.ld, 272);
  EXPECT_EQ(arguments[2].map.dims, (std::array<std::int64_t, 2>{248, 250}));
  EXPECT_EQ(arguments.at(arguments.size() - 7), KernelArgument::integer(272));  // ahead of the tiles' places
  EXPECT_FALSE(std::get<CudaLaunch>(packed.launch).takes_scaling());
  const Candidate scaled = made("256x256x256 tn scaled");
  EXPECT_NE(scaled.source, packed.source);
  const std::vector<KernelArgument>& with_factors = std::get<CudaLaunch>(scaled.launch).kernels.at(0).arguments;
  EXPECT_EQ(with_factors[with_factors.size() - 2], KernelArgument::alpha());
  EXPECT_EQ(with_factors.back(), KernelArgument::beta());
}

TEST(CudaCodegen, AlignmentIsWhatTheAccessesNeed) {
  const auto bytes = [](const char* text, const std::string& shape) {
    std::array<int, 3> result{};
    for (const Operand operand : {Operand::a, Operand::b, Operand::c}) {
      result[static_cast<std::size_t>(operand)] = required_alignment_bytes(recipe(text), problem(shape), operand);
    }
    return result;
  };
  using Bytes = std::array<int, 3>;
  EXPECT_EQ(bytes("sm90", "64x64x64 tn"), (Bytes{16, 16, 16}));
  EXPECT_EQ(bytes("sm90", "64x63x64 tn"), (Bytes{16, 16, 2}));
  EXPECT_EQ(bytes("sm90", "64x68x64 tn"), (Bytes{16, 16, 4}));
  EXPECT_EQ(bytes("sm90 epilogue=tma", "64x63x64 tn ld=0,0,64"), (Bytes{16, 16, 16}));
  EXPECT_EQ(bytes("tiny", "64x68x66 tn"), (Bytes{4, 4, 8}));
  EXPECT_EQ(bytes("tiny", "64x68x66 nn ld=0,69,0"), (Bytes{4, 2, 8}));
  EXPECT_EQ(bytes("skinny", "8x64x64 nn ld=68,72,66"), (Bytes{8, 16, 4}));
  EXPECT_EQ(bytes("cpu", "64x64x64 tn"), (Bytes{2, 2, 2}));
}

#ifdef WARPSMITH_NVRTC_HELPER

using CudaCompile = KernelCompile;

TEST_F(CudaCompile, Defaults) {
  for (const char* shape : {"512x512x512 tn", "512x512x512 nn bf16", "512x512x512 tt", "512x512x512 nt"}) {
    expect_clean(recipe("sm90"), shape);
    expect_clean(recipe("sm80"), shape);
  }
  expect_clean(recipe("sm80"), "512x512x512 tn", 80);
  expect_clean(recipe("sm80"), "201x141x77 nn");                           // copies of 2 bytes
  expect_clean(recipe("sm80 tile=32x32x64 warps=1x2"), "256x256x256 tn");  // few threads: no cap but the hardware's
}

TEST_F(CudaCompile, EveryPathOfSm90) {
  bool k_major = true;
  for (const char* text : {"sm90 epilogue=direct pdl=1",
                           "sm90 epilogue=tma persistent=1 raster=n",
                           "sm90 persistent=1 cluster=2x2 stages=3",
                           "sm90 tile=64x64x64 consumers=1 split=16",
                           "sm90 tile=128x256x64 split=2 stages=4",
                           "sm90 tile=192x192x64 consumers=3 cluster=2x1",
                           "sm90 tile=64x176x128 consumers=1 epilogue=tma stages=3",
                           "sm90 tile=64x24x32 consumers=1 group=1",
                           "sm90 tile=256x192x64 stages=3 cluster=1x2",
                           "sm90 tile=128x256x64 persistent=1 epilogue=tma staging=2",
                           "sm90 tile=256x192x64 stages=3 persistent=1 epilogue=tma staging=1 evict=firstxlast",
                           "sm90 persistent=1 pingpong=1 epilogue=tma stages=5",
                           "sm90 tile=64x256x64 persistent=1 pingpong=1 cluster=2x1 stages=3",
                           "sm90 tile=128x256x64 persistent=1 streamk=1 epilogue=direct",
                           "sm90 tile=256x160x64 stages=3 persistent=1 streamk=1 epilogue=direct",
                           "sm90 tile=128x160x64 persistent=1 streamk=1 epilogue=tma",
                           "sm90 tile=64x64x64 consumers=1 cluster=2x1 persistent=1 streamk=1 epilogue=direct",
                           "sm90 tile=128x128x64 cluster=1x2 persistent=1 streamk=1 split=2 epilogue=direct",
                           "sm90 tile=192x192x64 stages=4 consumers=3 persistent=1 streamk=1 epilogue=direct",
                           "sm90 tile=192x128x64 consumers=3 swap=1 epilogue=direct",
                           "sm90 tile=256x192x64 stages=3 swap=1",
                           "sm90 tile=64x104x64 swap=1 epilogue=tma consumers=1",
                           "sm90 tile=64x256x64 consumers=1 swap=1 epilogue=direct",
                           "sm90 tile=64x200x64 consumers=1 persistent=1 streamk=1 swap=1 epilogue=direct",
                           "sm90 tile=64x8x128 consumers=1 swap=1 split=8"}) {
    expect_clean(recipe(text), k_major ? "1024x1024x1024 tn" : "1024x1024x1024 nn");
    k_major = !k_major;
  }
}

// The rows' distance and the factors cost no spills, nor do FP16 sums, whatever writes the results.
TEST_F(CudaCompile, FactorsAndFp16Sums) {
  for (const char* text : {"sm90 tile=256x96x64 stages=3 epilogue=direct", "sm90 tile=256x192x64 stages=3",
                           "sm90 tile=256x192x64 stages=3 persistent=1 epilogue=tma staging=1",
                           "sm90 tile=64x64x64 consumers=1 split=8", "sm90 tile=64x256x64 stages=4 consumers=1",
                           "sm90 tile=256x96x64 stages=3 persistent=1 streamk=1 epilogue=direct",
                           "sm90 tile=128x192x64 stages=3 persistent=1 streamk=1 epilogue=tma",
                           "sm90 tile=192x192x64 consumers=3 stages=4", "sm90 tile=256x192x64 stages=3 swap=1",
                           "sm90 tile=64x192x64 consumers=1 persistent=1 streamk=1 swap=1 epilogue=direct"}) {
    expect_clean(recipe(text), "1024x1024x1024 tn f16 f32 scaled");
  }
  for (const char* text : {"sm90 tile=256x256x64 stages=3", "sm90 tile=256x256x64 stages=3 epilogue=direct",
                           "sm90 tile=128x256x64 stages=3 persistent=1 pingpong=1 epilogue=tma staging=1",
                           "sm90 tile=64x24x64 consumers=1 split=8"}) {
    expect_clean(recipe(text), "1024x1024x1024 nn f16 f16");
  }
  expect_clean(recipe("sm90 tile=256x192x64 stages=3"), "1024x1024x1024 tn f16 f16 scaled");
  expect_clean(recipe("sm90 tile=192x256x64 stages=3 consumers=3 persistent=1 streamk=1 epilogue=direct"),
               "1024x1024x1024 tn f16 f16 scaled");
}

TEST_F(CudaCompile, FirstStartingPoints) {
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const Family& family = i % 2 == 0 ? sm90_family() : sm80_family();
    expect_clean(family.starting_points(problem(kShapes[i]), gpu(90)).front(), kShapes[i]);
  }
}

// Legality agrees with the compiler, one way: whatever the rules let through, compiles.
TEST_F(CudaCompile, RandomLegalRecipes) {
  constexpr int kRecipesPerFamily = 8;
  std::mt19937_64 generator(20261129);
  const std::vector<std::string> shapes = {"1024x1024x1024 tn", "77x136x1000 nn bf16", "4096x64x4096 tt",
                                           "64x512x8192 nt"};
  for (const Family* family : {&sm90_family(), &sm80_family()}) {
    for (int found = 0; found < kRecipesPerFamily;) {
      Recipe random(*family);
      const auto fields = family->fields();
      for (std::size_t f = 0; f < fields.size(); ++f) {
        random.set_choice(f, static_cast<int>(generator() % fields[f]->values.size()));
      }
      const std::string& shape = shapes[static_cast<std::size_t>(found) % shapes.size()];
      const Problem p = problem(shape);
      if (!is_legal(random, p, gpu(90))) continue;
      ++found;
      expect_compiles(random, shape);
    }
  }
}

// And the other way: what the rules about the recipe alone refuse, the device code's own assertions refuse too.
TEST_F(CudaCompile, DeviceCodeRefusesWhatTheRulesRefuse) {
  for (const char* text : {"sm90 tile=64x64x64 consumers=2", "sm90 tile=256x256x64 consumers=1",
                           "sm90 cluster=2x2 split=8", "sm90 split=2 persistent=1", "sm90 split=2 epilogue=direct",
                           "sm90 streamk=1", "sm90 tile=256x192x64 stages=3 swap=1 epilogue=direct", "sm90 pingpong=1",
                           "sm90 staging=1", "sm90 tile=256x192x64 stages=2 persistent=1 streamk=1 consumers=1"}) {
    expect_refused(recipe(text), problem("1024x1024x4096 tn"), generate_sm90);
  }
  for (const char* text : {"sm80 tile=32x128x32 warps=4x2", "sm80 tile=256x256x32 warps=2x2"}) {
    expect_refused(recipe(text), problem("1024x1024x4096 tn"), generate_sm80);
  }
}

#endif

}  // namespace
}  // namespace warpsmith
