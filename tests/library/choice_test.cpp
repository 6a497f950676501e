// The order of preference among wisdom, its neighbours, a ranking and cuBLASLt.
#include "library/choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

namespace warpsmith::library {
namespace {

Machine hopper() {
  Machine machine;
  machine.name = "NVIDIA H200";
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = 132;
  machine.smem_bytes_per_block = 227 << 10;
  machine.registers_per_unit = 64 << 10;
  return machine;
}

Problem problem(const char* text) { return parse_problem(text).value(); }

// A legal recipe of sm90, the `index`th of its starting points.
std::string recipe_for(const Problem& problem, std::size_t index = 0) {
  const auto starts = sm90_family().starting_points(problem, hopper());
  std::vector<std::string> legal;
  for (const Recipe& recipe : starts) {
    if (is_legal(recipe, problem, hopper())) legal.push_back(to_string(recipe));
  }
  return legal.at(index);
}

WisdomEntry entry(const char* text, double own_us, double baseline_us, std::size_t recipe = 0) {
  WisdomEntry made;
  made.problem = problem(text);
  made.recipe = recipe_for(made.problem, recipe);
  made.cold_us = own_us;
  made.baseline = "cublaslt-auto-tn";
  made.baseline_us = baseline_us;
  made.baseline_setting = "algo 66 tile 20 stages 36 splitk 1 reduction 0 cluster 2 swizzle 0 custom 0";
  return made;
}

// Ranks starting points, all at 7.5 us; of other recipes it estimates what it is told.
class FixedRanking final : public Ranking {
 public:
  using Estimate = std::function<double(const Recipe&, const Problem&)>;
  explicit FixedRanking(Estimate estimate = {}) : estimate_(std::move(estimate)) {}

  std::vector<RankedRecipe> rank(const Problem& asked, const Machine& machine, std::size_t count) const override {
    std::vector<RankedRecipe> ranked;
    for (const Recipe& recipe : sm90_family().starting_points(asked, machine)) {
      if (ranked.size() < count && is_legal(recipe, asked, machine)) ranked.push_back({recipe, 7.5});
    }
    return ranked;
  }
  double estimate_us(const Recipe& recipe, const Problem& asked, const Machine&) const override {
    return estimate_ ? estimate_(recipe, asked) : 0;
  }

 private:
  Estimate estimate_;
};

Chooser chooser(const std::vector<WisdomEntry>& entries, bool ranking = false) {
  Wisdom wisdom(wisdom_header(hopper(), Target::sm90, 1));
  for (const WisdomEntry& each : entries) EXPECT_TRUE(wisdom.merge(each));
  return {hopper(), std::make_shared<const WisdomIndex>(wisdom),
          ranking ? std::make_shared<const FixedRanking>() : std::shared_ptr<const Ranking>()};
}

TEST(Distance, CountsDoublings) {
  const Problem base = problem("1024x512x256 tn f16 f32");
  EXPECT_EQ(problem_distance(base, base), 0.0);
  EXPECT_DOUBLE_EQ(*problem_distance(base, problem("2048x512x256 tn f16 f32")), 1.0);
  EXPECT_DOUBLE_EQ(*problem_distance(base, problem("1024x256x256 tn f16 f32")), 1.0);
  EXPECT_DOUBLE_EQ(*problem_distance(base, problem("2048x1024x128 tn f16 f32")), std::sqrt(3.0));
}

TEST(Distance, IsSymmetricAndKeepsTheTriangle) {
  const std::vector<Problem> all = {problem("64x64x64 tn f16 f32"), problem("64x96x4096 tn f16 f32 scaled"),
                                    problem("777x33x5 tn bf16 f32"), problem("64x64x64 tn f16 f32 ld=72,0,0")};
  for (const Problem& x : all) {
    for (const Problem& y : all) {
      EXPECT_DOUBLE_EQ(*problem_distance(x, y), *problem_distance(y, x));
      for (const Problem& z : all) {
        EXPECT_LE(*problem_distance(x, z), *problem_distance(x, y) + *problem_distance(y, z) + 1e-12);
      }
    }
  }
}

TEST(Distance, PenaltiesAreSmallAndOtherLayoutsAreFar) {
  const Problem base = problem("1024x512x256 tn f16 f32");
  EXPECT_DOUBLE_EQ(*problem_distance(base, problem("1024x512x256 tn f16 f32 scaled")), 0.05);
  EXPECT_DOUBLE_EQ(*problem_distance(base, problem("1024x512x256 tn f16 f32 ld=264,0,0")), 0.05);
  EXPECT_DOUBLE_EQ(*problem_distance(base, problem("1024x512x256 tn bf16 f32")), 0.1);
  EXPECT_FALSE(problem_distance(base, problem("1024x512x256 nn f16 f32")));
  EXPECT_FALSE(problem_distance(base, problem("1024x512x256 tn f16 f16")));
}

TEST(Choice, AnExactEntryWins) {
  const auto made = entry("1024x1024x1024 tn f16 f32", 10, 12);
  const auto choices =
      chooser({made, entry("1024x1024x2048 tn f16 f32", 18, 20)}).choose(made.problem, WARPSMITH_MODE_OFFLINE);
  ASSERT_TRUE(choices.front().recipe);
  EXPECT_EQ(choices.front().source, ChoiceSource::wisdom_exact);
  EXPECT_EQ(to_string(*choices.front().recipe), made.recipe);
  EXPECT_EQ(choices.front().expected_us, 10);
  EXPECT_EQ(choices.front().distance, 0);
  EXPECT_EQ(choices.front().matched, to_string(made.problem));
  EXPECT_EQ(choices[1].source, ChoiceSource::wisdom_nearest);  // should the first not compile
  EXPECT_EQ(choices.back().source, ChoiceSource::cublaslt);
}

TEST(Choice, CublasltRunsWhatItWon) {
  const auto made = entry("1024x1024x1024 tn f16 f32", 12.5, 12);
  const auto choices = chooser({made}).choose(made.problem, WARPSMITH_MODE_OFFLINE);
  EXPECT_FALSE(choices.front().recipe);
  EXPECT_EQ(choices.front().source, ChoiceSource::wisdom_exact);
  EXPECT_EQ(choices.front().expected_us, 12);
  EXPECT_EQ(choices.front().baseline_setting, made.baseline_setting);
  ASSERT_EQ(choices.size(), 2U);  // our kernel, where there is no cuBLASLt
  EXPECT_TRUE(choices.back().recipe);
}

TEST(Choice, ATieGoesToOurs) {
  const auto made = entry("1024x1024x1024 tn f16 f32", 12, 12);
  EXPECT_TRUE(chooser({made}).choose(made.problem, WARPSMITH_MODE_OFFLINE).front().recipe);
}

TEST(Choice, TheNearestEntryServesItsNeighbourhood) {
  const auto near = entry("1024x1024x1024 tn f16 f32", 10, 12), far = entry("4096x4096x4096 tn f16 f32", 180, 190);
  const auto asked = problem("1000x1104x904 tn f16 f32");
  const auto choices = chooser({far, near}).choose(asked, WARPSMITH_MODE_OFFLINE);
  ASSERT_TRUE(choices.front().recipe);
  EXPECT_EQ(choices.front().source, ChoiceSource::wisdom_nearest);
  EXPECT_EQ(choices.front().matched, to_string(near.problem));
  EXPECT_GT(choices.front().distance, 0);
  EXPECT_LT(choices.front().distance, kNearestLimit);
  EXPECT_TRUE(is_legal(*choices.front().recipe, asked, hopper()));
}

TEST(Choice, NothingFarAwayIsANeighbour) {
  const auto choices = chooser({entry("4096x4096x4096 tn f16 f32", 180, 190)})
                           .choose(problem("64x64x64 tn f16 f32"), WARPSMITH_MODE_OFFLINE);
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices.front().source, ChoiceSource::cublaslt);
}

TEST(Choice, AnIllegalNeighbourIsPassedOver) {
  // 16-byte rows are what TMA asks for; 1003 halves are not a multiple of 8.
  const auto near = entry("1024x1024x1024 tn f16 f32", 10, 12);
  const auto asked = problem("1024x1024x1003 tn f16 f32");
  ASSERT_FALSE(is_legal(*parse_recipe(near.recipe), asked, hopper()));
  const auto choices = chooser({near}).choose(asked, WARPSMITH_MODE_OFFLINE);
  EXPECT_FALSE(choices.front().recipe);
}

TEST(Choice, AnUnknownRecipeIsPassedOver) {
  auto near = entry("1024x1024x1024 tn f16 f32", 10, 12);
  near.recipe = "sm120 tile=1x1x1";
  EXPECT_FALSE(chooser({near}).choose(near.problem, WARPSMITH_MODE_OFFLINE).front().recipe);
}

TEST(Choice, TheRankingServesWhereWisdomIsSilent) {
  const auto asked = problem("512x512x512 tn f16 f32");
  const auto choices = chooser({}, true).choose(asked, WARPSMITH_MODE_OFFLINE);
  EXPECT_EQ(choices.front().source, ChoiceSource::model);
  EXPECT_EQ(choices.front().expected_us, 7.5);
  EXPECT_LE(choices.size(), kMostTried + 1);
  EXPECT_EQ(choices.back().source, ChoiceSource::cublaslt);
}

TEST(Choice, TheRankingDoesNotOverruleWisdom) {
  const auto made = entry("512x512x512 tn f16 f32", 9, 6);
  const auto choices = chooser({made}, true).choose(made.problem, WARPSMITH_MODE_OFFLINE);
  EXPECT_FALSE(choices.front().recipe);
}

// Two entries around the problem, each with a recipe of its own; first(): what runs the problem by these estimates.
struct Neighbourhood {
  WisdomEntry nearer = entry("1024x1024x1024 tn f16 f32", 10, 12, 0);
  WisdomEntry farther = entry("1024x1024x512 tn f16 f32", 8, 9, 1);
  Problem asked = problem("1024x1024x904 tn f16 f32");

  Choice first(const FixedRanking::Estimate& estimate) const {
    Wisdom wisdom(wisdom_header(hopper(), Target::sm90, 1));
    for (const WisdomEntry& each : {nearer, farther}) EXPECT_TRUE(wisdom.merge(each));
    return Chooser(hopper(), std::make_shared<const WisdomIndex>(wisdom),
                   std::make_shared<const FixedRanking>(estimate))
        .choose(asked, WARPSMITH_MODE_OFFLINE)
        .front();
  }
};

TEST(Choice, OfNearRecipesTheOneThatSuitsTheSizesRuns) {
  const Neighbourhood around;
  ASSERT_NE(around.nearer.recipe, around.farther.recipe);
  // The nearer entry's recipe takes twice as long as it did there, the other one half.
  const auto chosen = around.first([&](const Recipe& recipe, const Problem& asked) {
    if (to_string(recipe) == around.nearer.recipe) return asked.k == 904 ? 10.0 : 5.0;
    return asked.k == 904 ? 4.0 : 8.0;
  });
  EXPECT_EQ(chosen.source, ChoiceSource::wisdom_nearest);
  EXPECT_EQ(chosen.matched, to_string(around.farther.problem));
  EXPECT_EQ(to_string(*chosen.recipe), around.farther.recipe);
  EXPECT_NEAR(chosen.expected_us, 4.0 * std::sqrt(8.0 / 8.0), 1e-12);
}

TEST(Choice, WhatTheModelWasWrongAboutCounts) {
  const Neighbourhood around;
  // Both are expected at 5 us here; the nearer one took four times the model's estimate, the other a quarter of it.
  const auto chosen = around.first([&](const Recipe& recipe, const Problem& asked) {
    if (asked.k == 904) return 5.0;
    return to_string(recipe) == around.nearer.recipe ? 2.5 : 32.0;
  });
  EXPECT_EQ(to_string(*chosen.recipe), around.farther.recipe);
  EXPECT_NEAR(chosen.expected_us, 5.0 * std::sqrt(8.0 / 32.0), 1e-12);
}

TEST(Choice, ARankedRecipeRunsWhereItIsClearlyFaster) {
  const Neighbourhood around;
  const auto at = [](double here) {
    return [here](const Recipe&, const Problem& asked) { return asked.k == 904 ? here : asked.k == 1024 ? 10.0 : 8.0; };
  };
  EXPECT_EQ(around.first(at(8.0)).source, ChoiceSource::wisdom_nearest);  // 7.5 us alone is no reason
  EXPECT_EQ(around.first(at(9.0)).source, ChoiceSource::model);
}

TEST(Choice, CublasltRunsAmongProblemsThatItWon) {
  Neighbourhood around;
  around.nearer.baseline_us = 5;
  const auto chosen = around.first([](const Recipe&, const Problem& asked) { return asked.k == 904 ? 6.0 : 10.0; });
  EXPECT_FALSE(chosen.recipe);
  EXPECT_EQ(chosen.matched, to_string(around.nearer.problem));
  EXPECT_LT(chosen.expected_us, 6.0);
}

TEST(Choice, ServerModeHasItsOwnRecipe) {
  auto made = entry("1024x1024x1024 tn f16 f32", 12.5, 12);
  made.server_recipe = recipe_for(made.problem, 1);
  made.server_us = 30;
  made.baseline_server_us = 60;
  const Chooser both = chooser({made});
  EXPECT_FALSE(both.choose(made.problem, WARPSMITH_MODE_OFFLINE).front().recipe);
  const auto server = both.choose(made.problem, WARPSMITH_MODE_SERVER);
  ASSERT_TRUE(server.front().recipe);
  EXPECT_EQ(to_string(*server.front().recipe), made.server_recipe);
  EXPECT_EQ(server.front().expected_us, 30);
}

TEST(Choice, DependentLaunchesAreForThoseWhoAsk) {
  auto made = entry("1024x1024x1024 tn f16 f32", 11, 12);
  made.pdl_recipe = recipe_for(made.problem, 1);
  made.pdl_us = 9;
  const Chooser both = chooser({made});
  const auto plain = both.choose(made.problem, WARPSMITH_MODE_OFFLINE);
  EXPECT_FALSE(plain.front().dependent);
  EXPECT_EQ(to_string(*plain.front().recipe), made.recipe);
  const auto dependent = both.choose(made.problem, WARPSMITH_MODE_OFFLINE, WARPSMITH_LAUNCH_DEPENDENT);
  EXPECT_TRUE(dependent.front().dependent);
  EXPECT_EQ(to_string(*dependent.front().recipe), made.pdl_recipe);
  EXPECT_EQ(dependent.front().expected_us, 9);
  made.pdl_us = 11.5;  // no gain
  EXPECT_FALSE(
      chooser({made}).choose(made.problem, WARPSMITH_MODE_OFFLINE, WARPSMITH_LAUNCH_DEPENDENT).front().dependent);
}

TEST(Choice, WhereAnythingMayRunBesideNoBlocksWait) {
  auto made = entry("1024x1024x1024 tn f16 f32", 10, 12);
  std::string stream_k;
  for (const Recipe& recipe : sm90_family().starting_points(made.problem, hopper())) {
    Recipe other = recipe;
    other.set("persistent", 1).set("streamk", 1);
    if (is_legal(other, made.problem, hopper())) stream_k = to_string(other);
  }
  ASSERT_FALSE(stream_k.empty());
  const auto near = entry("1024x1024x1040 tn f16 f32", 11, 12);
  made.recipe = stream_k;
  Wisdom wisdom(wisdom_header(hopper(), Target::sm90, 1));
  for (const WisdomEntry& each : {made, near}) EXPECT_TRUE(wisdom.merge(each));
  const auto index = std::make_shared<const WisdomIndex>(wisdom);
  const auto first = [&](std::shared_ptr<const Ranking> ranking, warpsmith_sharing_t sharing) {
    return Chooser(hopper(), index, std::move(ranking), sharing).choose(made.problem, WARPSMITH_MODE_OFFLINE).front();
  };
  EXPECT_EQ(to_string(*first(nullptr, WARPSMITH_SHARING_EQUAL).recipe), stream_k);
  EXPECT_EQ(to_string(*first(nullptr, WARPSMITH_SHARING_ANY).recipe), near.recipe);
  // The neighbours are weighed then, and what is ranked is filtered.
  const auto flat = std::make_shared<const FixedRanking>([](const Recipe&, const Problem&) { return 100.0; });
  EXPECT_EQ(to_string(*first(flat, WARPSMITH_SHARING_EQUAL).recipe), stream_k);
  const Choice ranked = first(flat, WARPSMITH_SHARING_ANY);
  EXPECT_EQ(ranked.source, ChoiceSource::model);
  EXPECT_EQ(ranked.recipe->get("streamk"), 0);
  // What cuBLASLt won is still its.
  made.baseline_us = 9;
  Wisdom lost(wisdom_header(hopper(), Target::sm90, 1));
  EXPECT_TRUE(lost.merge(made));
  const auto choices = Chooser(hopper(), std::make_shared<const WisdomIndex>(lost), flat, WARPSMITH_SHARING_ANY)
                           .choose(made.problem, WARPSMITH_MODE_OFFLINE);
  EXPECT_EQ(choices.front().source, ChoiceSource::wisdom_exact);
  EXPECT_FALSE(choices.front().recipe);
  for (const Choice& choice : choices) EXPECT_FALSE(choice.recipe);  // not even as the last resort
}

TEST(Choice, TheOtherElementTypeIsANeighbour) {
  const auto made = entry("1024x1024x1024 tn f16 f32", 10, 12);
  const auto choices = chooser({made}).choose(problem("1024x1024x1024 tn bf16 f32 scaled"), WARPSMITH_MODE_OFFLINE);
  EXPECT_EQ(choices.front().source, ChoiceSource::wisdom_nearest);
  EXPECT_NEAR(choices.front().distance, 0.15, 1e-12);
}

}  // namespace
}  // namespace warpsmith::library
