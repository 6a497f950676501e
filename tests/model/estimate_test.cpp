// The model's terms at known values, how times move with the problem, and that every legal recipe has a sensible one.
#include "model/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>

#include "machines.h"

namespace warpsmith::model {
namespace {

using testing::ampere;
using testing::hopper;

Recipe recipe_of(const std::string& text) {
  const auto recipe = parse_recipe(text);
  EXPECT_TRUE(recipe.ok()) << text;
  return *recipe;
}

Problem problem_of(const std::string& text) {
  const auto problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text;
  return *problem;
}

Estimate estimate_of(const std::string& recipe, const std::string& problem, const Coefficients& coefficients = {}) {
  const Recipe parsed = recipe_of(recipe);
  EXPECT_TRUE(is_legal(parsed, problem_of(problem), hopper())) << recipe << " for " << problem;
  return estimate(parsed, problem_of(problem), hopper(), coefficients);
}

TEST(Estimate, CountsWavesAndBlocks) {
  // 32 x 32 tiles of 128 x 128 on 132 multiprocessors: 7.76, so the busiest does 8.
  const std::string tile = "sm90 tile=128x128x64 stages=4 consumers=2";
  EXPECT_EQ(estimate_of(tile, "4096x4096x4096 tn").waves, 8);
  EXPECT_EQ(estimate_of(tile, "4096x4096x4096 tn").occupancy, 1);  // 384 threads of 168 registers
  EXPECT_EQ(estimate_of(tile + " persistent=1 epilogue=tma", "4096x4096x4096 tn").waves, 8);
  // Pairs: 512 clusters, of which 66 run at once.
  EXPECT_EQ(estimate_of(tile + " cluster=2x1", "4096x4096x4096 tn").waves, 8);
  // 4 stages of 16 KiB and 160 threads of 88 registers: 233472 / (65600 + 1024) = 3 blocks, and 5 by registers.
  EXPECT_EQ(estimate_of("sm90 tile=64x64x64 stages=4 consumers=1", "1024x1024x1024 tn").occupancy, 3);
  EXPECT_EQ(estimate_of("sm90 tile=64x64x64 stages=4 consumers=1", "1024x1024x1024 tn").waves, 2);  // 256 tiles
  // Stream-K: 96 tiles of 64 steps dealt to 132: 47 steps each of 64.
  EXPECT_NEAR(estimate_of("sm90 tile=128x128x64 persistent=1 streamk=1 epilogue=direct", "1024x1536x4096 tn").waves,
              47 / 64.0, 1e-9);
}

TEST(Estimate, CountsTensorTime) {
  Coefficients c;
  c.wgmma_share = 1;
  c.power_share = 1;
  // 8 tiles of 128 x 128 x 4096 at 4096 flops a cycle and 1980.2 cycles a microsecond.
  const double cycles = 8 * 2.0 * 128 * 128 * 4096 / 4096;
  EXPECT_NEAR(estimate_of("sm90 tile=128x128x64 stages=6", "4096x4096x4096 tn", c).tensor_us, cycles / 1980, 0.1);
  // Below 64 columns the left operand, 2 KiB for each 64 x 16, comes from shared memory at 128 bytes a cycle: 16
  // cycles, and 4 for 16 columns of the right one.
  c.wgmma_narrow = 1;
  EXPECT_NEAR(estimate_of("sm90 tile=64x16x64 consumers=1", "64x16x4096 tn", c).tensor_us, 256 * 20 / 1980.0, 0.01);
}

TEST(Estimate, CountsTraffic) {
  Coefficients c;
  c.dram_share = 1;
  c.dram_write = 1;
  const Machine machine = hopper();
  // Everything fits in the cache: each byte once.
  const Problem problem = problem_of("1024x1024x1024 tn");
  const double once_us = problem.bytes() / (machine.peak_gb_per_s * 1e3);
  EXPECT_NEAR(estimate_of("sm90 tile=128x128x64", "1024x1024x1024 tn", c).dram_us, once_us, 0.01);
  // 64 tiles of 128 x 128, 16 steps, 32 KiB a step, or half of one operand less with a pair.
  c.l2_rate = 10;
  const double sent = 64 * 16 * 32'768.0;
  EXPECT_NEAR(estimate_of("sm90 tile=128x128x64", "1024x1024x1024 tn", c).l2_us, sent / (10 * 132) / 1980, 0.1);
  EXPECT_NEAR(estimate_of("sm90 tile=128x128x64 cluster=2x1", "1024x1024x1024 tn", c).l2_us,
              0.75 * sent / (10 * 132) / 1980, 0.1);
}

TEST(Estimate, ScalingReadsC) {
  Problem problem = problem_of("8192x8192x64 tn");
  const Recipe recipe = recipe_of("sm90 tile=128x128x64");
  const double plain = estimate(recipe, problem, hopper()).dram_us;
  problem.scaling = Scaling::alpha_beta;
  EXPECT_GT(estimate(recipe, problem, hopper()).dram_us, 1.5 * plain);
}

TEST(Estimate, NamesWhatLimits) {
  EXPECT_EQ(estimate_of("sm90 tile=128x256x64 persistent=1 epilogue=tma stages=3", "8192x8192x8192 tn").limiter,
            "tensor");
  EXPECT_EQ(estimate_of("tiny tile=16x16x64 warps=1x1x1", "64x64x64 tn").limiter, "latency");
  EXPECT_EQ(estimate_of("skinny tile=32x64 warps=1x8 ahead=1", "1x16384x16384 tn").limiter, "dram");
}

TEST(Estimate, GrowsWithTheProblem) {
  for (const char* text :
       {"sm90 tile=128x128x64 stages=3", "sm90 tile=128x128x64 persistent=1 epilogue=tma stages=3",
        "sm90 tile=128x128x64 persistent=1 pingpong=1 epilogue=tma stages=3", "sm80 tile=128x128x32 warps=2x2"}) {
    const Recipe recipe = recipe_of(text);
    for (const auto member : {&Problem::m, &Problem::n, &Problem::k}) {
      double last_us = 0;
      for (std::int64_t size = 256; size <= 16384; size *= 2) {
        Problem problem = problem_of("2048x2048x2048 tn");
        problem.*member = size;
        ASSERT_TRUE(is_legal(recipe, problem, hopper())) << text;
        const double time_us = estimate(recipe, problem, hopper()).time_us;
        // Nearly: where twice as many blocks share an operand, less of each one's loads comes from memory.
        EXPECT_GE(time_us, 0.95 * last_us) << text << " " << to_string(problem);
        last_us = time_us;
      }
    }
  }
}

TEST(Estimate, SlowerMachinesTakeLonger) {
  const Recipe recipe = recipe_of("sm80 tile=128x128x32 warps=2x2 stages=3");
  const Problem problem = problem_of("4096x4096x4096 tn");
  Machine half = hopper();
  half.units /= 2;
  half.peak_gflops /= 2;
  EXPECT_GT(estimate(recipe, problem, half).time_us, 1.5 * estimate(recipe, problem, hopper()).time_us);
  EXPECT_GT(estimate(recipe, problem, ampere()).time_us, estimate(recipe, problem, hopper()).time_us);
}

TEST(Estimate, NeverBelowThePhysicalFloor) {
  for (const char* text : {"64x64x64 tn", "1024x1024x1024 tn", "16384x16384x16384 tn", "16384x16384x64 tn"}) {
    const Problem problem = problem_of(text);
    const Recipe recipe = recipe_of("sm90 tile=128x128x64 stages=3");
    EXPECT_GT(estimate(recipe, problem, hopper()).time_us, 0.9 * physical_floor_us(problem, hopper(), true)) << text;
  }
}

TEST(Estimate, LeavesOutOtherFamilies) {
  EXPECT_FALSE(covers(cpu_family()));
  EXPECT_EQ(estimate(Recipe(cpu_family()), problem_of("64x64x64"), hopper()).time_us, 0);
}

// A family's starting points with a few knobs changed at random: many of these are legal.
class RandomRecipes {
 public:
  RandomRecipes(const Family& family, const Machine& machine, std::mt19937_64& random)
      : fields_(family.fields()), random_(random) {
    bases_.push_back(Recipe(family));
    for (const char* text :
         {"64x64x64 tn", "16x4096x4096 tn", "1024x1024x1024 tn", "256x512x8192 nn", "4096x4096x512 nn"}) {
      for (const Recipe& start : family.starting_points(problem_of(text), machine)) bases_.push_back(start);
    }
  }
  Recipe next() {
    Recipe recipe = bases_[random_() % bases_.size()];
    for (std::uint64_t changes = random_() % 5; changes > 0; --changes) {
      const std::size_t field = random_() % fields_.size();
      recipe.set_choice(field, static_cast<int>(random_() % fields_[field]->values.size()));
    }
    return recipe;
  }

 private:
  std::vector<const KnobField*> fields_;
  std::vector<Recipe> bases_;
  std::mt19937_64& random_;
};

Problem random_problem(const Family& family, std::mt19937_64& random) {
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  const std::int64_t largest = family.name == "tiny" ? 600 : 5000, step = family.name == "sm90" ? 8 : 1;
  Problem problem;
  problem.m = 1 + below(family.name == "skinny" ? 32 : largest);
  problem.n = step * (1 + below(largest / step));
  problem.k = step * (1 + below(largest / step));
  problem.layout = below(2) == 0 ? Layout::tn : Layout::nn;
  return problem;
}

void expect_sensible(const Estimate& e, const std::string& what) {
  ASSERT_TRUE(std::isfinite(e.time_us) && e.time_us > 0.1 && e.time_us < 1e6) << e.time_us << " " << what;
  for (const double term : {e.tensor_us, e.l2_us, e.dram_us, e.latency_us, e.epilogue_us}) {
    ASSERT_TRUE(std::isfinite(term) && term > 0) << term << " " << what;
  }
  ASSERT_TRUE(std::isfinite(e.reduce_us) && e.reduce_us >= 0) << what;
  ASSERT_TRUE(e.occupancy >= 1 && e.waves > 0) << what;
  const std::set<std::string> limiters = {"tensor", "l2", "dram", "reduce", "epilogue", "latency"};
  ASSERT_TRUE(limiters.count(e.limiter)) << e.limiter;
}

// Thousands of legal recipes and ragged problems, on a machine with fitted coefficients and on one without.
TEST(Estimate, IsSensibleForEveryLegalRecipe) {
  std::mt19937_64 random(7);
  for (const Machine& machine : {hopper(), ampere()}) {
    for (const Family* family : families_for(machine.compute_capability == 90 ? Target::sm90 : Target::sm80)) {
      RandomRecipes recipes(*family, machine, random);
      int judged = 0;
      for (int i = 0; i < 20'000 && judged < 1000; ++i) {
        const Recipe recipe = recipes.next();
        const Problem problem = random_problem(*family, random);
        if (!is_legal(recipe, problem, machine)) continue;
        ++judged;
        expect_sensible(estimate(recipe, problem, machine), to_string(recipe) + " for " + to_string(problem));
        if (HasFatalFailure()) return;
      }
      EXPECT_GE(judged, 1000) << family->name;
    }
  }
}

TEST(Coefficients, AreDocumentedAndPlausible) {
  const auto& table = coefficient_table();
  EXPECT_EQ(table.size(), sizeof(Coefficients) / sizeof(double));
  const Coefficients reasoned, fitted = h200_coefficients();
  std::set<std::string_view> names;
  for (const CoefficientInfo& info : table) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.meaning.empty() || info.unit.empty()) << info.name;
    for (const Coefficients& each : {reasoned, fitted}) {
      EXPECT_GE(each.*info.member, info.least) << info.name;
      EXPECT_LE(each.*info.member, info.most) << info.name;
    }
  }
  EXPECT_EQ(coefficients_for(hopper()), fitted);
  EXPECT_EQ(coefficients_for(ampere()), reasoned);
}

}  // namespace
}  // namespace warpsmith::model
