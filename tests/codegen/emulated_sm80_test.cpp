// The sm80 kernels' own C++ run on the host, against a plain product: loop programs, epilogues, sums over warps and
// blocks, ragged sizes, narrow copies, leading dimensions and scaling. Asynchronous copies land when they please until
// they are waited for. Inputs are small integers, so results are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "codegen/generate.h"
#include "device/kernels/sm80_gemm.cuh"
#include "recipe/sm80_plan.h"

namespace warpsmith::device {
unsigned char shared[1];  // only its name is used
}  // namespace warpsmith::device

namespace warpsmith {
namespace {

using device::CopyPlace;
using device::Element;
using device::LoadOrder;
using device::LoopPlan;
using device::Raster;
using device::Sm80Config;
using device::Sm80Epilogue;
using device::Sm80Meeting;
using device::u16;

constexpr u16 kNan = 0x7fff;  // of both element types

constexpr LoopPlan kNaive = {};
constexpr LoopPlan kPingpong = {.fragments = 2, .ahead = 1};
constexpr LoopPlan kMultistep = {.fragments = 3, .ahead = 2};
constexpr LoopPlan kStaggered = {.fragments = 2, .ahead = 1, .copy_b = CopyPlace::last};
constexpr LoopPlan kSpread = {.fragments = 2, .ahead = 1, .copy_a = CopyPlace::spread, .copy_b = CopyPlace::spread};
constexpr LoopPlan kLateBarrier = {.fragments = 2, .ahead = 1, .order = LoadOrder::late};
constexpr LoopPlan kRefill = {.fragments = 1, .ahead = 1, .order = LoadOrder::late};
constexpr LoopPlan kEarlyCopy = {.copy_a = CopyPlace::top, .copy_b = CopyPlace::top, .spare = 2};
constexpr LoopPlan kFullRing = {
    .fragments = 2, .ahead = 1, .copy_a = CopyPlace::last, .copy_b = CopyPlace::last, .spare = 0};
constexpr LoopPlan kTwoBarriers = {.copy_a = CopyPlace::last, .copy_b = CopyPlace::last, .spare = 0, .fence = true};
constexpr LoopPlan kUnrolled = {.fragments = 2, .ahead = 1, .unroll = 4};

// The recipe that is compiled to `config`.
Recipe recipe_of(const Sm80Config& config) {
  Recipe recipe(sm80_family());
  recipe.set("tile_m", config.tile_m).set("tile_n", config.tile_n).set("tile_k", config.tile_k);
  recipe.set("warps_m", config.warps_m).set("warps_n", config.warps_n).set("warps_k", config.warps_k);
  recipe.set("stages", config.stages).set("split", config.split);
  recipe.set("reduce", config.meeting == Sm80Meeting::cluster ? kSm80Cluster : kSm80Workspace);
  recipe.set("raster", config.raster == Raster::m ? kSm80RasterM : kSm80RasterN).set("group", config.group);
  recipe.set("epilogue", config.epilogue == Sm80Epilogue::pairs   ? kSm80Pairs
                         : config.epilogue == Sm80Epilogue::lanes ? kSm80Lanes
                                                                  : kSm80Staged);
  recipe.set("fetch", config.fetch).set("pdl", config.pdl);
  const LoopPlan& loop = config.loop;
  recipe.set("fragments", loop.fragments).set("ahead", loop.ahead).set("order", static_cast<int>(loop.order));
  recipe.set("copy_a", static_cast<int>(loop.copy_a)).set("copy_b", static_cast<int>(loop.copy_b));
  recipe.set("sync", loop.sync).set("spare", loop.spare).set("fence", loop.fence).set("unroll", loop.unroll);
  return recipe;
}

Machine machine() {
  Machine machine = machine_of_architecture("sm_90").value();
  machine.smem_bytes_per_block = emulation::kSharedBytes;
  return machine;
}

Problem problem_of(const Sm80Config& config, const std::string& sizes) {
  const char* layout = config.a_k_major ? (config.b_k_major ? "tn" : "nn") : (config.b_k_major ? "tt" : "nt");
  const std::size_t space = sizes.find(' ');  // of leading dimensions
  return parse_problem(sizes.substr(0, space) + " " + layout + (config.element == Element::f16 ? " f16" : " bf16") +
                       (config.half_sums ? " f16" : " f32") + (config.scaled ? " scaled" : "") +
                       (space == std::string::npos ? "" : sizes.substr(space)))
      .value();
}

// A matrix of small integers as stored, with its gaps NaN, and as numbers; element (row, k) of the latter is at
// `row * k_size + k`.
struct Matrix {
  std::vector<u16> stored;
  std::vector<float> numbers;

  Matrix(std::int64_t rows, std::int64_t k_size, bool k_major, std::int64_t ld, Element element, unsigned seed) {
    numbers.resize(static_cast<std::size_t>(rows * k_size));
    const std::int64_t lines = k_major ? rows : k_size, columns = k_major ? k_size : rows;
    stored.assign(static_cast<std::size_t>((lines - 1) * ld + columns), kNan);
    std::mt19937 random(seed);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t k = 0; k < k_size; ++k) {
        const float value = static_cast<float>(random() % 3) - 1;
        numbers[static_cast<std::size_t>(row * k_size + k)] = value;
        stored[static_cast<std::size_t>(k_major ? row * ld + k : k * ld + row)] =
            element == Element::f16 ? emulation::float_to_half(value) : emulation::float_to_bfloat(value);
      }
    }
  }
};

// The values before the run and what they become; rows are `ld` apart, and the gaps must keep what they hold.
template <Sm80Config kConfig>
struct Result16 {
  std::vector<u16> before, c, expected;

  Result16(const Problem& p, const Matrix& a, const Matrix& b, float alpha, float beta) {
    std::mt19937 random(3);
    before.resize(static_cast<std::size_t>(p.c_extent()));
    for (u16& value : before) {
      value = beta == 0 ? kNan : device::to_element<kConfig.element>(static_cast<float>(random() % 9) - 4);
    }
    expected = before;
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          sum += a.numbers[static_cast<std::size_t>(i * p.k + k)] * b.numbers[static_cast<std::size_t>(j * p.k + k)];
        }
        const auto at = static_cast<std::size_t>(i * p.c_ld() + j);
        const float old = beta == 0 ? 0 : device::from_element<kConfig.element>(before[at]);
        expected[at] = device::to_element<kConfig.element>(kConfig.scaled ? alpha * sum + beta * old : sum);
      }
    }
    c = before;
  }
  int wrong() const {
    int count = 0;
    for (std::size_t i = 0; i < c.size(); ++i) count += c[i] != expected[i] ? 1 : 0;
    return count;
  }
};

// Sizes, and leading dimensions where they are not packed: "64x64x128", "33x20x40 ld=48,48,24".
template <Sm80Config kConfig>
void expect_exact(const std::string& sizes, float alpha = 1, float beta = 0) {
  const Problem problem = problem_of(kConfig, sizes);
  const Recipe recipe = recipe_of(kConfig);
  SCOPED_TRACE(to_string(problem) + " " + to_short_string(recipe));
  const Result<Candidate> candidate = generate(recipe, problem, machine());
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  const CudaLaunch& plan = std::get<CudaLaunch>(candidate->launch);
  const KernelLaunch& launch = plan.kernels.at(0);
  ASSERT_EQ(launch.dynamic_smem_bytes, device::Sm80Plan<kConfig>::kSharedBytes);
  ASSERT_EQ(launch.block[0], device::Sm80Plan<kConfig>::kThreads);
  ASSERT_EQ(kConfig.a_granule, sm80_granule(problem.a_ld()));
  ASSERT_EQ(kConfig.b_granule, sm80_granule(problem.b_ld()));

  const Matrix a(problem.m, problem.k, kConfig.a_k_major, problem.a_ld(), kConfig.element, 1);
  const Matrix b(problem.n, problem.k, kConfig.b_k_major, problem.b_ld(), kConfig.element, 2);
  Result16<kConfig> result(problem, a, b, alpha, beta);
  ASSERT_GT(result.wrong(), 0) << "the check sees elements that were never written";
  std::vector<device::Vector4> workspace(static_cast<std::size_t>(plan.workspace_bytes / 16), {0, 0, 0, 0});
  emulation::readable() = {{a.stored.data(), 2 * a.stored.size()}, {b.stored.data(), 2 * b.stored.size()}};
  emulation::exhibits().clear();
  emulation::Grid grid(static_cast<unsigned>(launch.grid[0]), static_cast<unsigned>(launch.block[0]),
                       static_cast<unsigned>(launch.cluster[0]), 5);
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  const std::string failure = grid.run([&] {
    device::Output<kConfig.scaled> out{result.c.data(), number(problem.c_ld()), alpha, beta};
    device::sm80_gemm<kConfig>({a.stored.data(), b.stored.data(), number(problem.a_ld()), number(problem.b_ld()),
                                number(problem.m), number(problem.n), number(problem.k)},
                               out, reinterpret_cast<unsigned char*>(workspace.data()));
  });
  ASSERT_EQ(failure, "");
  EXPECT_EQ(result.wrong(), 0) << "elements of C and its gaps";
  for (const device::Vector4& v : workspace) ASSERT_EQ(v.x | v.y | v.z | v.w, 0u) << "the workspace is left dirty";
}

constexpr Sm80Config small(LoopPlan loop, int tile_k = 64, int stages = 3) {
  return {.tile_m = 64, .tile_n = 64, .tile_k = tile_k, .warps_m = 2, .warps_n = 2, .stages = stages, .loop = loop};
}

// --- the emulation ---

// A copy that nobody waits for is not there; the barrier alone does not help.
TEST(EmulatedCopies, AreMissedWithoutAWait) {
  std::vector<device::u32> source(32 * 4, 7);
  const auto missing = [&](bool waits) {
    int count = 0;
    emulation::readable().clear();
    emulation::Grid grid(1, 32, 1, 9);
    EXPECT_EQ(grid.run([&] {
      const device::u32 place = 16 * threadIdx.x;
      device::cp_async<16, 0>(place, &source[4 * threadIdx.x], 16, true);
      device::cp_async_commit();
      if (waits) device::cp_async_wait<0>();
      __syncthreads();
      count += device::load_shared(496 - place).x != 7 ? 1 : 0;
      device::cp_async_wait<0>();
    }),
              "");
    return count;
  };
  EXPECT_GT(missing(false), 0);
  EXPECT_EQ(missing(true), 0);
}

TEST(EmulatedCopies, MustStayInside) {
  std::vector<device::u32> source(4, 7);
  emulation::readable() = {{source.data(), 14}};
  emulation::Grid grid(1, 32, 1, 9);
  const std::string failure = grid.run([&] { device::cp_async<16, 0>(0, source.data(), 16, threadIdx.x == 3); });
  EXPECT_NE(failure.find("outside the operands"), std::string::npos) << failure;
}

// --- loop programs ---

TEST(EmulatedSm80, NamedLoops) {
  expect_exact<small(kNaive)>("64x64x448");
  expect_exact<small(kPingpong)>("64x64x448");
  expect_exact<small(kMultistep)>("64x64x448");
  expect_exact<small(kStaggered)>("64x64x448");
  expect_exact<small(kSpread)>("64x64x448");
  expect_exact<small(kLateBarrier)>("64x64x448");
  expect_exact<small(kRefill)>("64x64x448");
  expect_exact<small(kEarlyCopy)>("64x64x448");
  expect_exact<small(kFullRing)>("64x64x448");
  expect_exact<small(kTwoBarriers, 64, 2)>("64x64x448");
  expect_exact<small(kUnrolled)>("64x64x448");
}

// Fewer stages of K than the ring holds, one k-step a stage, and the shortest rings.
TEST(EmulatedSm80, ShortK) {
  expect_exact<small(kPingpong, 32, 6)>("64x64x40");
  expect_exact<small(kSpread, 32, 4)>("40x24x8");
  expect_exact<small(kPingpong, 32, 2)>("64x64x96");
  expect_exact<small(kFullRing, 32, 2)>("64x64x160");
  expect_exact<small(kMultistep, 32, 5)>("64x64x32");
  expect_exact<small(kLateBarrier, 128, 2)>("64x64x384");
}

// Points of the space without a name.
TEST(EmulatedSm80, OtherLoops) {
  expect_exact<small({.fragments = 3,
                      .ahead = 1,
                      .order = LoadOrder::split,
                      .copy_a = CopyPlace::step2,
                      .copy_b = CopyPlace::last,
                      .sync = 1,
                      .unroll = 1})>("64x64x320");
  expect_exact<small({.fragments = 2,
                      .ahead = 1,
                      .order = LoadOrder::ba,
                      .copy_a = CopyPlace::top,
                      .copy_b = CopyPlace::step1,
                      .spare = 1,
                      .unroll = 2},
                     32, 4)>("64x64x288");
  expect_exact<small({.fragments = 2,
                      .ahead = 2,
                      .order = LoadOrder::late,
                      .copy_a = CopyPlace::last,
                      .copy_b = CopyPlace::last,
                      .spare = 0,
                      .fence = true},
                     64, 2)>("64x64x320");
}

// A program that the rules let through, drawn at random: what they call right multiplies right.
constexpr LoopPlan random_plan(unsigned seed, int k_steps, int stages) {
  const auto draw = [&](unsigned count) {
    seed = seed * 1664525 + 1013904223;
    return static_cast<int>((seed >> 16) % count);
  };
  for (;;) {
    LoopPlan plan;
    plan.fragments = 1 + draw(3);
    plan.ahead = draw(3);
    plan.order = static_cast<LoadOrder>(draw(4));
    plan.copy_a = static_cast<CopyPlace>(draw(7));
    plan.copy_b = static_cast<CopyPlace>(draw(7));
    plan.sync = draw(5) - 1;
    plan.spare = draw(3);
    plan.fence = draw(2) == 1;
    plan.unroll = 1 << draw(2);
    if (!is_whole(plan, k_steps, stages)) continue;
    const device::LoopProgram loop = make_loop(plan, k_steps, stages);
    if (loop.unroll * k_steps <= 32 && find_loop_fault(loop).error == device::LoopError::none) return plan;
  }
}

template <unsigned... kSeeds>
void expect_random_loops(std::integer_sequence<unsigned, kSeeds...>) {
  (expect_exact<small(random_plan(kSeeds, 2, 4), 32, 4)>("64x64x232"), ...);
  (expect_exact<small(random_plan(100 + kSeeds, 4, 3), 64, 3)>("64x64x328"), ...);
}
TEST(EmulatedSm80, RandomLoops) { expect_random_loops(std::make_integer_sequence<unsigned, 4>()); }

// --- operands ---

TEST(EmulatedSm80, LayoutsAndElements) {
  constexpr Sm80Config kNn = {.b_k_major = false, .tile_m = 64, .tile_n = 96, .loop = kPingpong};
  constexpr Sm80Config kTt = {
      .element = Element::bf16, .a_k_major = false, .tile_m = 96, .tile_n = 32, .loop = kSpread};
  constexpr Sm80Config kNt = {.a_k_major = false,
                              .b_k_major = false,
                              .tile_m = 64,
                              .tile_n = 64,
                              .tile_k = 64,
                              .stages = 3,
                              .loop = kMultistep};
  expect_exact<kNn>("64x96x96");
  expect_exact<kTt>("96x32x200");
  expect_exact<kNt>("64x64x192");
}

TEST(EmulatedSm80, RaggedSizesAndNarrowCopies) {
  constexpr Sm80Config kSingles = {
      .b_k_major = false, .a_granule = 2, .b_granule = 2, .tile_m = 64, .tile_n = 64, .loop = kPingpong};
  expect_exact<kSingles>("67x35x53");
  constexpr Sm80Config kPairs = {
      .a_k_major = false, .a_granule = 4, .b_granule = 8, .tile_m = 64, .tile_n = 64, .loop = kFullRing};
  expect_exact<kPairs>("70x67x100");
  constexpr Sm80Config kWide = {.a_k_major = false,
                                .b_k_major = false,
                                .a_granule = 8,
                                .b_granule = 4,
                                .tile_m = 64,
                                .tile_n = 160,
                                .warps_m = 1,
                                .warps_n = 5,
                                .loop = kPingpong};
  expect_exact<kWide>("20x150x75");
}

TEST(EmulatedSm80, LeadingDimensionsAndScaling) {
  constexpr Sm80Config kPlain = {.tile_m = 64, .tile_n = 64, .loop = kPingpong};
  expect_exact<kPlain>("50x40x72 ld=80,96,56");
  constexpr Sm80Config kScaled = {
      .a_granule = 8, .b_granule = 2, .scaled = true, .tile_m = 64, .tile_n = 64, .loop = kPingpong};
  expect_exact<kScaled>("50x41x71 ld=76,73,45", 0.5f, 2);
  expect_exact<kScaled>("50x41x71 ld=76,73,45", -2, 0);  // C is NaN, and never read
  constexpr Sm80Config kByPairs = {
      .scaled = true, .tile_m = 64, .tile_n = 64, .loop = kPingpong, .epilogue = Sm80Epilogue::pairs};
  expect_exact<kByPairs>("64x64x64 ld=64,64,72", 2, 1);
}

TEST(EmulatedSm80, HalfPrecisionSums) {
  constexpr Sm80Config kLanes = {.half_sums = true, .tile_m = 64, .tile_n = 64, .loop = kPingpong};
  expect_exact<kLanes>("64x64x96");
  constexpr Sm80Config kShared = {.scaled = true,
                                  .half_sums = true,
                                  .tile_m = 64,
                                  .tile_n = 64,
                                  .tile_k = 64,
                                  .warps_k = 2,
                                  .stages = 3,
                                  .loop = kPingpong,
                                  .epilogue = Sm80Epilogue::staged};
  expect_exact<kShared>("60x64x200", 2, 1);
}

// --- warps, tiles, epilogues ---

TEST(EmulatedSm80, TilesThatAreNoPowersOfTwo) {
  constexpr Sm80Config kThree = {.b_k_major = false,
                                 .b_granule = 4,
                                 .tile_m = 96,
                                 .tile_n = 96,
                                 .warps_m = 3,
                                 .warps_n = 4,
                                 .loop = kPingpong};  // 24 columns a warp: three blocks of eight
  expect_exact<kThree>("100x90x64");
  constexpr Sm80Config kOdd = {.tile_m = 32,
                               .tile_n = 160,
                               .warps_m = 1,
                               .warps_n = 4,
                               .loop = kLateBarrier,
                               .raster = Raster::n,
                               .group = 2,
                               .epilogue = Sm80Epilogue::staged};
  expect_exact<kOdd>("70x168x64");
}

TEST(EmulatedSm80, Epilogues) {
  constexpr auto kWith = [](Sm80Epilogue epilogue) {
    Sm80Config config = small(kPingpong, 32, 3);
    config.epilogue = epilogue;
    return config;
  };
  expect_exact<kWith(Sm80Epilogue::pairs)>("72x80x64");
  expect_exact<kWith(Sm80Epilogue::lanes)>("72x80x64");
  expect_exact<kWith(Sm80Epilogue::staged)>("72x80x64");
  expect_exact<kWith(Sm80Epilogue::staged)>("65x70x64");
}

// --- shared K ---

TEST(EmulatedSm80, WarpsShareK) {
  constexpr Sm80Config kTwo = {.tile_m = 64,
                               .tile_n = 32,
                               .tile_k = 64,
                               .warps_k = 2,
                               .stages = 3,
                               .loop = kSpread,
                               .epilogue = Sm80Epilogue::staged};
  expect_exact<kTwo>("64x32x320");
  constexpr Sm80Config kFour = {.b_k_major = false,
                                .tile_m = 32,
                                .tile_n = 32,
                                .tile_k = 64,
                                .warps_m = 1,
                                .warps_n = 1,
                                .warps_k = 4,
                                .stages = 4,
                                .loop = kPingpong,
                                .epilogue = Sm80Epilogue::staged};
  expect_exact<kFour>("40x48x200");
}

TEST(EmulatedSm80, BlocksShareK) {
  constexpr Sm80Config kCluster = {.tile_m = 32,
                                   .tile_n = 32,
                                   .warps_m = 1,
                                   .warps_n = 2,
                                   .loop = kPingpong,
                                   .split = 3,
                                   .epilogue = Sm80Epilogue::staged};
  expect_exact<kCluster>("40x32x200");
  constexpr Sm80Config kBoth = {.scaled = true,
                                .tile_m = 32,
                                .tile_n = 32,
                                .tile_k = 64,
                                .warps_m = 1,
                                .warps_n = 1,
                                .warps_k = 2,
                                .stages = 2,
                                .loop = kFullRing,
                                .split = 4,
                                .epilogue = Sm80Epilogue::staged};
  expect_exact<kBoth>("32x40x328", 0.5f, 1);
  constexpr Sm80Config kWorkspace = {.tile_m = 32,
                                     .tile_n = 32,
                                     .warps_m = 1,
                                     .warps_n = 2,
                                     .loop = kPingpong,
                                     .split = 3,
                                     .meeting = Sm80Meeting::workspace,
                                     .epilogue = Sm80Epilogue::staged};
  expect_exact<kWorkspace>("72x40x200");
  constexpr Sm80Config kWorkspaceToo = {.element = Element::bf16,
                                        .scaled = true,
                                        .tile_m = 32,
                                        .tile_n = 32,
                                        .tile_k = 64,
                                        .warps_m = 1,
                                        .warps_n = 1,
                                        .warps_k = 4,
                                        .stages = 2,
                                        .loop = kNaive,
                                        .split = 2,
                                        .meeting = Sm80Meeting::workspace,
                                        .epilogue = Sm80Epilogue::staged};
  expect_exact<kWorkspaceToo>("32x33x130 ld=136,136,40", 2, 1);
}

}  // namespace
}  // namespace warpsmith
