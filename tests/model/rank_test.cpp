// What rank() returns: legal, distinct, ordered, of several kinds, the same each time.
#include "model/rank.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "machines.h"

namespace warpsmith::model {
namespace {

using testing::ampere;
using testing::hopper;

constexpr Shape kShapes[] = {{64, 64, 64},       {1, 4096, 4096},   {4096, 16, 4096},  {512, 256, 16384},
                             {1024, 1024, 1024}, {4096, 4096, 512}, {200, 2056, 2000}, {16384, 64, 512},
                             {8192, 8192, 8192}, {257, 129, 1000},  {1, 1, 1},         {33, 7, 5000},
                             {3, 5, 7}};

void expect_sound(const std::vector<Ranked>& list, const Problem& problem, const Machine& machine) {
  std::set<std::string> seen;
  double last_us = 0;
  for (const Ranked& each : list) {
    const auto violation = find_violation(each.recipe, &problem, machine);
    EXPECT_FALSE(violation) << to_string(each.recipe) << ": " << violation->reason;
    EXPECT_TRUE(seen.insert(to_string(each.recipe)).second) << to_string(each.recipe);
    EXPECT_GE(each.estimate.time_us, last_us);
    last_us = each.estimate.time_us;
    EXPECT_EQ(each.estimate.time_us, estimate(each.recipe, problem, machine).time_us);
  }
}

TEST(Rank, ReturnsLegalDistinctRecipesInOrder) {
  for (const Shape& shape : kShapes) {
    for (const Layout layout : {Layout::tn, Layout::nn, Layout::tt, Layout::nt}) {
      const Problem problem{.m = shape.m, .n = shape.n, .k = shape.k, .layout = layout};
      const auto list = rank(problem, hopper(), Target::sm90, 16);
      EXPECT_GE(list.size(), 8u) << to_string(problem);
      EXPECT_LE(list.size(), 16u);
      expect_sound(list, problem, hopper());
    }
  }
}

TEST(Rank, FindsSomethingForEveryProblem) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 60; ++i) {
    Problem problem;
    problem.m = 1 + static_cast<std::int64_t>(random() % 5000);
    problem.n = 1 + static_cast<std::int64_t>(random() % 5000);
    problem.k = 1 + static_cast<std::int64_t>(random() % 5000);
    problem.layout = random() % 2 == 0 ? Layout::tn : Layout::nn;
    if (random() % 2 == 0) problem.element = ElementType::bf16;
    if (problem.element == ElementType::f16 && random() % 3 == 0) problem.accumulator = AccumulatorType::f16;
    if (random() % 3 == 0) problem.scaling = Scaling::alpha_beta;
    if (random() % 3 == 0) problem.lda = problem.a_cols() + 3;
    const auto list = rank(problem, hopper(), Target::sm90, 4);
    EXPECT_FALSE(list.empty()) << to_string(problem);
    expect_sound(list, problem, hopper());
  }
}

TEST(Rank, IsDeterministic) {
  const Problem problem{.m = 1024, .n = 1024, .k = 1024};
  const auto first = rank(problem, hopper(), Target::sm90, 16), second = rank(problem, hopper(), Target::sm90, 16);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].recipe, second[i].recipe);
}

TEST(Rank, OffersSeveralWaysOfWorking) {
  for (const Shape& shape : {Shape{1024, 1024, 1024}, {512, 256, 16384}, {4096, 4096, 4096}}) {
    std::set<std::string> ways, tiles;
    const Problem problem{.m = shape.m, .n = shape.n, .k = shape.k, .layout = Layout::tn};
    for (const Ranked& each : rank(problem, hopper(), Target::sm90, 16)) {
      const Recipe& recipe = each.recipe;
      if (recipe.family().name != "sm90") {
        ways.insert(recipe.family().name);
        continue;
      }
      ways.insert(std::to_string(recipe.get("streamk")) + std::to_string(recipe.get("persistent")) +
                  std::to_string(recipe.get("split") > 1));
      tiles.insert(std::to_string(recipe.get("tile_m")) + "x" + std::to_string(recipe.get("tile_n")));
    }
    EXPECT_GE(ways.size(), 2u) << to_string(problem);
    EXPECT_GE(tiles.size(), 3u) << to_string(problem);
  }
}

TEST(Rank, ChoosesTheFamilyThatFits) {
  const auto first = [](const Problem& problem) {
    return rank(problem, hopper(), Target::sm90, 1).front().recipe.family().name;
  };
  EXPECT_EQ(first({.m = 8192, .n = 8192, .k = 8192}), "sm90");
  EXPECT_EQ(first({.m = 64, .n = 64, .k = 64}), "tiny");
  // Rows that TMA cannot take.
  EXPECT_NE(first({.m = 1001, .n = 1001, .k = 1001}), "sm90");
}

TEST(Rank, StaysWithinTheTarget) {
  const Problem problem{.m = 1024, .n = 1024, .k = 1024};
  const auto ampere_list = rank(problem, ampere(), Target::sm80, 16);
  EXPECT_GE(ampere_list.size(), 8u);
  expect_sound(ampere_list, problem, ampere());
  for (const Ranked& each : rank(problem, hopper(), Target::sm80, 16)) EXPECT_NE(each.recipe.family().name, "sm90");
  EXPECT_TRUE(rank(problem, hopper(), Target::cpu, 16).empty());
  EXPECT_TRUE(rank(problem, hopper(), Target::sm90, 0).empty());
}

TEST(Rank, LeavesDependentLaunchToTheCaller) {
  for (const Ranked& each : rank({.m = 256, .n = 256, .k = 256}, hopper(), Target::sm90, 16)) {
    if (each.recipe.family().name != "sm80") {
      EXPECT_EQ(each.recipe.get("pdl"), 0) << to_string(each.recipe);
    }
  }
}

}  // namespace
}  // namespace warpsmith::model
