// The sm90 kernels' own C++ run on the host, against a plain product: schedules, hand-overs, epilogues and edges of
// every way of working, on a machine of few multiprocessors. Inputs are small integers, so results are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "codegen/generate.h"
#include "device/kernels/sm90_gemm.cuh"
#include "emulator.h"
#include "recipe/sm90_plan.h"

namespace warpsmith::device {
unsigned char shared[1];  // only its name is used
}  // namespace warpsmith::device

namespace warpsmith {
namespace {

using device::Element;
using device::Epilogue;
using device::Sm90Config;
using device::u16;
using device::u32;

Machine machine_of(int units) {
  Machine machine;
  machine.name = "emulated";
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = units;
  machine.smem_bytes_per_block = emulation::kSharedBytes;
  machine.registers_per_unit = 65536;
  return machine;
}

// The recipe that is compiled to `config`; `split`: with stream-K, parts of a tile, which are no part of the kernel.
Recipe recipe_of(const Sm90Config& config, int split) {
  Recipe recipe(sm90_family());
  recipe.set("tile_m", config.tile_m).set("tile_n", config.tile_n).set("tile_k", config.tile_k);
  recipe.set("cluster_m", config.cluster_m).set("cluster_n", config.cluster_n);
  recipe.set("split", config.streamk ? split : config.split);
  recipe.set("stages", config.stages).set("consumers", config.consumers);
  recipe.set("raster", config.raster == device::Raster::m ? kSm90RasterM : kSm90RasterN).set("group", config.group);
  recipe.set("persistent", config.persistent).set("streamk", config.streamk).set("pingpong", config.pingpong);
  recipe.set("swap", config.swap).set("pdl", config.pdl).set("staging", config.staging);
  recipe.set("epilogue", config.epilogue == Epilogue::direct   ? kSm90Direct
                         : config.epilogue == Epilogue::staged ? kSm90Staged
                                                               : kSm90Tma);
  return recipe;
}

constexpr u16 kUntouched = 0x7e01;  // NaN

// A matrix of small integers as stored, NaN between its rows, and as numbers: element (row, k) of the product is at
// `row * k_size + k` of the latter.
struct Operand16 {
  std::vector<u16> stored;
  std::vector<float> numbers;

  template <Element kElement>
  static Operand16 make(std::int64_t rows, std::int64_t k_size, bool k_major, std::int64_t ld, unsigned seed) {
    Operand16 operand;
    operand.stored.assign(static_cast<std::size_t>((k_major ? rows : k_size) * ld), kUntouched);
    operand.numbers.resize(static_cast<std::size_t>(rows * k_size));
    std::mt19937 random(seed);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t k = 0; k < k_size; ++k) {
        const float value = static_cast<float>(random() % 5) - 2;
        operand.numbers[static_cast<std::size_t>(row * k_size + k)] = value;
        const std::int64_t at = k_major ? row * ld + k : k * ld + row;
        operand.stored[static_cast<std::size_t>(at)] = device::to_element<kElement>(value);
      }
    }
    return operand;
  }
};

device::TensorMap map_over(u16* base, const TensorMap& map) {
  return {base,
          static_cast<int>(map.dims[0]),
          static_cast<int>(map.dims[1]),
          static_cast<int>(map.ld),
          map.box[0],
          map.box[1],
          map.swizzle_bytes};
}

// One launch with these factors; with beta, C holds small integers before, otherwise NaN.
template <Sm90Config kConfig>
void expect_exact(const Problem& problem, const Recipe& recipe, int units, float alpha, float beta) {
  const Result<Candidate> candidate = generate(recipe, problem, machine_of(units));
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  const CudaLaunch& plan = std::get<CudaLaunch>(candidate->launch);
  const KernelLaunch& launch = plan.kernels.at(0);
  ASSERT_EQ(launch.dynamic_smem_bytes, device::Sm90Memory<kConfig>::kBytes);
  ASSERT_EQ(plan.takes_scaling(), kConfig.scaled);

  const Sm90Product product = sm90_product(sm90_knobs(recipe), problem);
  ASSERT_EQ(product.a_k_major, kConfig.a_k_major);
  ASSERT_EQ(product.b_k_major, kConfig.b_k_major);
  const std::int64_t ld_left = kConfig.swap ? problem.b_ld() : problem.a_ld();
  const std::int64_t ld_right = kConfig.swap ? problem.a_ld() : problem.b_ld();
  Operand16 a = Operand16::make<kConfig.element>(product.m, product.k, product.a_k_major, ld_left, 1);
  Operand16 b = Operand16::make<kConfig.element>(product.n, product.k, product.b_k_major, ld_right, 2);
  Operand16 old = Operand16::make<kConfig.element>(problem.m, problem.n, true, problem.c_ld(), 3);
  std::vector<u16> c = old.stored;
  if (beta == 0) std::fill(c.begin(), c.end(), kUntouched);
  std::vector<device::Vector4> workspace(static_cast<std::size_t>(plan.workspace_bytes / 16), {0, 0, 0, 0});
  const device::TensorMap map_a = map_over(a.stored.data(), launch.arguments[0].map);
  const device::TensorMap map_b = map_over(b.stored.data(), launch.arguments[1].map);
  const device::TensorMap map_c = map_over(c.data(), launch.arguments[2].map);
  const device::Output<kConfig.scaled> out = {c.data(), static_cast<int>(problem.c_ld()), alpha, beta};
  emulation::Grid grid(static_cast<unsigned>(launch.grid[0]), static_cast<unsigned>(launch.block[0]),
                       static_cast<unsigned>(launch.cluster[0]), 3);
  ASSERT_EQ(sm90_knobs(recipe).parts(), kConfig.parts);
  device::Sm90Places places = {};
  places.turns = 1;
  if (!device::Sm90Plan<kConfig>::kLoops) {
    const std::size_t first = launch.arguments.size() - 6 - (kConfig.scaled ? 2 : 0);
    const auto value = [&](std::size_t i) { return launch.arguments.at(first + i).value; };
    places = {value(0), value(1), static_cast<u32>(value(2)), static_cast<u32>(value(3)), value(4), value(5), 0};
  }
  const std::string failure = grid.run([&] {
    device::sm90_gemm<kConfig>(&map_a, &map_b, &map_c, out, reinterpret_cast<unsigned char*>(workspace.data()),
                               static_cast<int>(product.m), static_cast<int>(product.n), static_cast<int>(product.k),
                               places);
  });
  ASSERT_EQ(failure, "");

  int wrong = 0, touched = 0;
  for (std::int64_t i = 0; i < problem.m; ++i) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      const std::int64_t left = kConfig.swap ? j : i, right = kConfig.swap ? i : j;
      float sum = 0;
      for (std::int64_t k = 0; k < product.k; ++k) {
        sum += a.numbers[static_cast<std::size_t>(left * product.k + k)] *
               b.numbers[static_cast<std::size_t>(right * product.k + k)];
      }
      sum = alpha * sum + beta * old.numbers[static_cast<std::size_t>(i * problem.n + j)];
      const u16 got = c[static_cast<std::size_t>(i * problem.c_ld() + j)];  // -0 is as good as 0
      const float expected = device::from_element<kConfig.element>(device::to_element<kConfig.element>(sum));
      if (!(device::from_element<kConfig.element>(got) == expected)) ++wrong;
    }
    for (std::int64_t j = problem.n; j < problem.c_ld(); ++j) {
      if (c[static_cast<std::size_t>(i * problem.c_ld() + j)] != kUntouched) ++touched;
    }
  }
  EXPECT_EQ(wrong, 0) << "elements of C";
  EXPECT_EQ(touched, 0) << "elements between the rows of C";
  for (const device::Vector4& v : workspace) ASSERT_EQ(v.x | v.y | v.z | v.w, 0u) << "the workspace is left dirty";
}

template <Sm90Config kConfig>
void expect_exact(const std::string& shape, int units, int split = 1) {
  const Problem problem = parse_problem(shape).value();
  const Recipe recipe = recipe_of(kConfig, split);
  SCOPED_TRACE(shape + " " + to_short_string(recipe));
  if (kConfig.scaled) {
    expect_exact<kConfig>(problem, recipe, units, 0.5F, -1);
    expect_exact<kConfig>(problem, recipe, units, -1, 0);
  } else {
    expect_exact<kConfig>(problem, recipe, units, 1, 0);
  }
}

// Every stage once, in order, no stretch empty, a stretch in two tiles at most; and whoever holds a stage is found.
TEST(EmulatedSm90, StreamKDealsEveryStageOnce) {
  struct Deal {
    int tiles, depth, clusters;
  };
  for (const auto& [tiles, depth, clusters] : {Deal{5, 16, 132},
                                               {131, 8, 132},
                                               {33, 7, 132},
                                               {1, 1000, 66},
                                               {4, 256, 132},
                                               {100, 3, 132},
                                               {2, 5, 132},
                                               {131, 960, 132},
                                               {44, 64, 132}}) {
    const device::StreamDeal deal = {depth, tiles * depth, std::min(clusters, tiles * depth)};
    EXPECT_EQ(deal.first_stage(0), 0);
    EXPECT_EQ(deal.first_stage(deal.workers), deal.total);
    for (int worker = 0; worker < deal.workers; ++worker) {
      const int first = deal.first_stage(worker), last = deal.first_stage(worker + 1) - 1;
      EXPECT_EQ(first, static_cast<long long>(worker) * deal.total / deal.workers);
      EXPECT_LE(first, last);
      EXPECT_LE(last / depth - first / depth, 1) << tiles << " tiles of " << depth << ", worker " << worker;
      for (int stage = first; stage <= last; ++stage) {
        EXPECT_EQ(deal.worker_of(stage), worker);
        EXPECT_EQ(deal.tile_of(stage), stage / depth);
      }
    }
  }
}

TEST(EmulatedSm90, OneTilePerBlock) {
  expect_exact<{.tile_m = 64, .tile_n = 64, .consumers = 1}>("100x136x200 tn", 4);
  expect_exact<{.b_k_major = false, .tile_m = 64, .tile_n = 40, .split = 4, .stages = 2, .consumers = 1}>(
      "100x136x520 nn", 8);
  // Fewer units of sums than blocks; more than fit beside the stages; with multicast.
  expect_exact<{.tile_m = 64, .tile_n = 8, .split = 8, .stages = 2, .consumers = 1}>("64x8x520 tn", 8);
  expect_exact<{.tile_m = 128, .tile_n = 128, .split = 2, .stages = 2}>("100x136x264 tn", 8);
  expect_exact<{.tile_m = 64, .tile_n = 48, .cluster_m = 2, .split = 2, .stages = 2, .consumers = 1}>("100x88x264 tn",
                                                                                                      8);
  expect_exact<{.element = Element::bf16,
                .a_k_major = false,
                .b_k_major = false,
                .tile_n = 64,
                .cluster_m = 2,
                .cluster_n = 2,
                .stages = 2}>("304x136x200 nt bf16", 8);
}

// Blocks of a narrow last band have no tile.
TEST(EmulatedSm90, BandsOfTheGrid) {
  expect_exact<{.tile_m = 64, .tile_n = 64, .consumers = 1, .group = 2}>("264x136x72 tn", 132);
  expect_exact<{.tile_m = 64, .tile_n = 64, .consumers = 1, .raster = device::Raster::n, .group = 4}>("136x328x72 tn",
                                                                                                      132);
  expect_exact<{.tile_m = 64, .tile_n = 64, .cluster_m = 2, .split = 2, .stages = 2, .consumers = 1, .group = 2}>(
      "584x136x264 tn", 132);
}

TEST(EmulatedSm90, StreamKInEvenStretches) {
  expect_exact<{
      .tile_m = 64, .tile_n = 64, .consumers = 1, .persistent = true, .streamk = true, .epilogue = Epilogue::direct}>(
      "100x136x520 tn", 9);
  expect_exact<{.tile_m = 64,
                .tile_n = 64,
                .cluster_m = 2,
                .consumers = 1,
                .persistent = true,
                .streamk = true,
                .epilogue = Epilogue::tma}>("200x264x520 tn", 6);
}

TEST(EmulatedSm90, StreamKInEqualParts) {
  expect_exact<{.tile_m = 64,
                .tile_n = 40,
                .consumers = 1,
                .persistent = true,
                .streamk = true,
                .parts = true,
                .epilogue = Epilogue::direct}>("77x136x520 tn", 40, 4);
  expect_exact<{.b_k_major = false,
                .tile_n = 64,
                .persistent = true,
                .streamk = true,
                .parts = true,
                .swap = true,
                .epilogue = Epilogue::direct}>("80x136x520 tt", 20, 3);
  // More stages than the ring has, and not equally many in all parts; with multicast.
  expect_exact<{.tile_m = 64,
                .tile_n = 64,
                .cluster_m = 2,
                .stages = 2,
                .consumers = 1,
                .persistent = true,
                .streamk = true,
                .parts = true,
                .epilogue = Epilogue::direct}>("200x72x840 tn", 24, 3);
  expect_exact<{.scaled = true,
                .tile_m = 64,
                .tile_n = 64,
                .cluster_n = 2,
                .stages = 3,
                .consumers = 1,
                .persistent = true,
                .streamk = true,
                .parts = true,
                .epilogue = Epilogue::direct}>("72x200x840 tn f16 f32 scaled", 32, 4);
}

TEST(EmulatedSm90, PingPong) {
  expect_exact<{.tile_m = 64, .tile_n = 64, .stages = 3, .persistent = true, .pingpong = true}>("200x264x520 tn", 3);
  expect_exact<{.b_k_major = false,
                .tile_m = 64,
                .tile_n = 64,
                .cluster_m = 2,
                .stages = 5,
                .persistent = true,
                .pingpong = true,
                .epilogue = Epilogue::tma}>("200x264x136 nn", 4);
}

// Blocks step past the last tile of a narrow last band.
TEST(EmulatedSm90, PersistentBands) {
  expect_exact<{
      .tile_m = 64, .tile_n = 64, .consumers = 1, .raster = device::Raster::n, .group = 2, .persistent = true}>(
      "72x8x136 tn", 9);
  expect_exact<{.tile_m = 64, .tile_n = 64, .consumers = 1, .group = 2, .persistent = true}>("200x136x136 tn", 5);
}

TEST(EmulatedSm90, StagedSlices) {
  expect_exact<{.tile_n = 192, .stages = 3, .persistent = true, .epilogue = Epilogue::tma, .staging = 2}>(
      "200x392x136 tn", 2);
  expect_exact<{
      .tile_m = 64, .tile_n = 128, .persistent = true, .pingpong = true, .epilogue = Epilogue::tma, .staging = 1}>(
      "200x264x136 tn", 2);
}

TEST(EmulatedSm90, SwappedOperands) {
  expect_exact<{.tile_m = 64, .tile_n = 104, .consumers = 1, .swap = true}>("200x136x200 tn", 4);
  expect_exact<{.tile_n = 40, .swap = true, .epilogue = Epilogue::direct}>("77x201x200 tn", 4);
  expect_exact<{.tile_n = 104, .persistent = true, .swap = true, .epilogue = Epilogue::tma}>("200x264x200 tn", 2);
  expect_exact<{.tile_m = 64, .tile_n = 8, .split = 4, .consumers = 1, .swap = true}>("3x136x520 tn", 8);
}

// Rows that are apart, ragged sizes that packed rows would rule out, alpha and beta: every way to write C.
TEST(EmulatedSm90, LeadingDimensionsAndFactors) {
  expect_exact<{.tile_m = 64, .tile_n = 64, .consumers = 1}>("100x133x197 tn f16 f32 ld=200,208,139", 4);
  expect_exact<{
      .b_k_major = false, .tile_m = 64, .tile_n = 64, .consumers = 1, .persistent = true, .epilogue = Epilogue::tma}>(
      "100x136x69 nn f16 f32 ld=80,144,144", 3);
  expect_exact<{.scaled = true, .tile_m = 64, .tile_n = 64, .consumers = 1}>("77x133x72 tn f16 f32 scaled ld=72,72,134",
                                                                             4);
  expect_exact<{.scaled = true, .tile_m = 64, .tile_n = 40, .split = 4, .stages = 2, .consumers = 1}>(
      "100x136x520 tn f16 f32 scaled", 8);
  expect_exact<{.element = Element::bf16,
                .scaled = true,
                .tile_n = 192,
                .stages = 3,
                .persistent = true,
                .epilogue = Epilogue::tma,
                .staging = 2}>("77x336x40 tn bf16 f32 scaled ld=40,48,344", 2);
  expect_exact<{.scaled = true,
                .tile_m = 64,
                .tile_n = 64,
                .consumers = 1,
                .persistent = true,
                .streamk = true,
                .epilogue = Epilogue::direct}>("100x136x520 tn f16 f32 scaled ld=520,528,144", 9);
}

TEST(EmulatedSm90, SwappedOperandsWithFactors) {
  expect_exact<{.scaled = true, .tile_n = 40, .swap = true, .epilogue = Epilogue::direct}>(
      "77x201x72 tn f16 f32 scaled ld=72,72,202", 4);
  expect_exact<{.scaled = true, .tile_n = 104, .persistent = true, .swap = true, .epilogue = Epilogue::tma}>(
      "77x200x72 tn f16 f32 scaled ld=80,72,208", 2);
  expect_exact<{.scaled = true, .tile_m = 64, .tile_n = 8, .split = 4, .consumers = 1, .swap = true}>(
      "3x131x520 tn f16 f32 scaled", 8);
}

// Sums that FP16 holds exactly.
TEST(EmulatedSm90, Fp16Sums) {
  expect_exact<{.f16_sums = true, .tile_m = 64, .tile_n = 64, .consumers = 1}>("100x136x200 tn f16 f16", 4);
  expect_exact<{.f16_sums = true, .scaled = true, .tile_m = 64, .tile_n = 40, .split = 4, .stages = 2, .consumers = 1}>(
      "100x136x520 tn f16 f16 scaled", 8);
  expect_exact<{.f16_sums = true,
                .scaled = true,
                .tile_n = 192,
                .stages = 3,
                .persistent = true,
                .epilogue = Epilogue::tma,
                .staging = 1}>("77x336x40 tn f16 f16 scaled ld=40,48,344", 2);
  expect_exact<{.f16_sums = true,
                .tile_m = 64,
                .tile_n = 64,
                .cluster_m = 2,
                .consumers = 1,
                .persistent = true,
                .streamk = true,
                .epilogue = Epilogue::tma}>("200x264x520 tn f16 f16", 6);
  expect_exact<{.f16_sums = true, .tile_n = 40, .swap = true, .epilogue = Epilogue::direct}>("77x201x200 tn f16 f16",
                                                                                             4);
}

}  // namespace
}  // namespace warpsmith
