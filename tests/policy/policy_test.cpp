// What every policy promises: legal recipes, never twice, determined by seed and verdicts, starting points first.
#include "policy/policy.h"

#include <gtest/gtest.h>

#include <set>

#include "landscape.h"
#include "policy/evolution.h"

namespace warpsmith {
namespace {

using testing::field;
using testing::gemm_like_family;
using testing::knob;
using testing::make_context;
using testing::measure;

std::unique_ptr<Policy> make(std::string_view name, PolicyContext context) {
  auto policy = make_policy(name, std::move(context));
  if (!policy) throw std::runtime_error(policy.error().message);
  return std::move(*policy);
}

// Text forms of the next proposals, each told a noisy time `lag` proposals later.
std::vector<std::string> run(Policy& policy, int proposals, std::size_t lag = 3) {
  Rng noise(17);
  std::vector<std::string> texts;
  std::vector<Recipe> pending;
  for (int i = 0; i < proposals; ++i) {
    const auto recipe = policy.ask();
    if (!recipe) break;
    texts.push_back(to_string(*recipe));
    pending.push_back(*recipe);
    if (pending.size() > lag) {
      policy.tell(pending.front(), measure(pending.front(), 1, noise));
      pending.erase(pending.begin());
    }
  }
  return texts;
}

const Family& tiny_family() {
  static const Family family = [] {
    Family made;
    made.name = "tiny";
    made.knobs = {knob(field("a", {1, 2, 3, 4})), knob(field("b", {1, 2, 3})), knob(field("fixed", {7}))};
    made.rules = {{"sum", "a + b is not 5", false, [](const Recipe& r, const Problem*, const Machine&) {
                     return r.get("a") + r.get("b") == 5 ? std::optional<std::string>("is 5") : std::nullopt;
                   }}};
    return made;
  }();
  return family;
}
constexpr std::size_t kTinyLegal = 9;  // of 12

class EveryPolicy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, ::testing::Values("random", "evolution"));  // "model": embedded_test

TEST_P(EveryPolicy, HasItsName) { EXPECT_EQ(make(GetParam(), make_context(1))->name(), GetParam()); }

TEST_P(EveryPolicy, ProposesLegalRecipesAndNoneTwice) {
  const auto context = make_context(3, {&gemm_like_family(), &tiny_family()});
  const auto policy = make(GetParam(), context);
  std::set<std::string> texts;
  Rng noise(1);
  for (int i = 0; i < 1500; ++i) {
    const auto recipe = policy->ask();
    ASSERT_TRUE(recipe.has_value());
    EXPECT_TRUE(is_legal(*recipe, context.problem, context.machine));
    EXPECT_TRUE(texts.insert(to_string(*recipe)).second) << to_string(*recipe);
    const bool tiny = &recipe->family() == &tiny_family();
    policy->tell(*recipe, tiny ? Outcome{std::nullopt, "wrong"} : measure(*recipe, 1, noise));
  }
}

TEST_P(EveryPolicy, IsDeterminedBySeedAndVerdicts) {
  const auto first = run(*make(GetParam(), make_context(5)), 400);
  EXPECT_EQ(first.size(), 400u);
  EXPECT_EQ(first, run(*make(GetParam(), make_context(5)), 400));
  EXPECT_NE(first, run(*make(GetParam(), make_context(6)), 400));
}

TEST_P(EveryPolicy, TriesStartingPointsFirst) {
  auto context = make_context(1);
  Recipe good(gemm_like_family()), bad = good, other = good;
  good.set("tile_m", 64).set("tile_n", 64).set("tile_k", 32).set("stages", 2).set("warps", 4).set("split", 1);
  other = good;
  other.set("tile_n", 128);
  bad.set("tile_m", 256).set("tile_n", 256).set("warps", 1);
  ASSERT_TRUE(is_legal(good, context.problem, context.machine));
  ASSERT_FALSE(is_legal(bad, context.problem, context.machine));
  context.starting_points = {good, bad, good, other};
  const auto policy = make(GetParam(), context);
  EXPECT_EQ(policy->ask(), good);
  EXPECT_EQ(policy->ask(), other);
  const auto third = policy->ask();
  ASSERT_TRUE(third.has_value());
  EXPECT_NE(third, good);
}

TEST_P(EveryPolicy, UsesUpATinySpaceThenProposesNothing) {
  const auto policy = make(GetParam(), make_context(1, {&tiny_family()}));
  std::set<std::string> texts;
  while (const auto recipe = policy->ask()) {
    texts.insert(to_string(*recipe));
    policy->tell(*recipe, {static_cast<double>(recipe->get("a")), "accepted"});
    ASSERT_LE(texts.size(), kTinyLegal);
  }
  EXPECT_EQ(texts.size(), kTinyLegal);
  EXPECT_FALSE(policy->ask().has_value());
}

TEST_P(EveryPolicy, UsesUpATinySpaceWithoutAnyVerdict) {
  const auto policy = make(GetParam(), make_context(1, {&tiny_family()}));
  std::size_t proposals = 0;
  while (policy->ask()) ASSERT_LE(++proposals, kTinyLegal);
  EXPECT_EQ(proposals, kTinyLegal);
}

TEST_P(EveryPolicy, SurvivesWhenEverythingIsRejected) {
  const auto policy = make(GetParam(), make_context(1));
  std::set<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    const auto recipe = policy->ask();
    ASSERT_TRUE(recipe.has_value());
    EXPECT_TRUE(texts.insert(to_string(*recipe)).second);
    policy->tell(*recipe, {std::nullopt, i % 2 == 0 ? "crashed" : "failed"});
  }
}

TEST_P(EveryPolicy, NeverRepeatsWhatItWasTold) {
  std::vector<Recipe> history;
  {
    const auto policy = make(GetParam(), make_context(1, {&tiny_family()}));
    for (int i = 0; i < 5; ++i) history.push_back(policy->ask().value());
  }
  const auto policy = make(GetParam(), make_context(1, {&tiny_family()}));
  for (const Recipe& recipe : history) policy->tell(recipe, {1.0, "accepted"});
  std::set<std::string> texts;
  while (const auto recipe = policy->ask()) texts.insert(to_string(*recipe));
  EXPECT_EQ(texts.size(), kTinyLegal - history.size());
  for (const Recipe& recipe : history) EXPECT_EQ(texts.count(to_string(recipe)), 0u);
}

TEST_P(EveryPolicy, AcceptsHistoryOfOtherFamilies) {
  const auto policy = make(GetParam(), make_context(1));
  policy->tell(Recipe(tiny_family()), {1.0, "accepted"});
  for (int i = 0; i < 50; ++i) {
    const auto recipe = policy->ask();
    ASSERT_TRUE(recipe.has_value());
    EXPECT_EQ(&recipe->family(), &gemm_like_family());
  }
}

TEST(MakePolicy, RefusesUnknownNamesAndNoFamilies) {
  const auto unknown = make_policy("annealing", make_context(1));
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::bad_input);
  EXPECT_NE(unknown.error().message.find("random, evolution"), std::string::npos) << unknown.error().message;
  const auto nothing = make_policy("random", make_context(1, {}));
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().kind, ErrorKind::bad_input);
}

TEST(Evolution, KeepsTheFastestOfEachIsland) {
  EvolutionOptions options;
  options.islands = 2;
  options.population = 3;
  options.migration_interval = 1000;
  EvolutionPolicy policy(make_context(1), options);
  std::vector<Recipe> asked;
  for (int i = 0; i < 12; ++i) asked.push_back(policy.ask().value());
  for (std::size_t i = 0; i < asked.size(); ++i) policy.tell(asked[i], {100.0 - static_cast<double>(i), "accepted"});
  // Islands ask in turn, so each receives every other verdict; its three latest are its fastest.
  for (std::size_t island = 0; island < 2; ++island) {
    const auto& population = policy.population(island);
    ASSERT_EQ(population.size(), 3u);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(population[rank].recipe, asked[10 + island - 2 * rank]);
    }
  }
}

TEST(Evolution, TheBestMigratesAroundTheRing) {
  EvolutionOptions options;
  options.islands = 3;
  options.migration_interval = 2;  // every 6 tells
  EvolutionPolicy policy(make_context(1), options);
  const auto holds = [&](std::size_t island, const Recipe& recipe) {
    for (const auto& individual : policy.population(island)) {
      if (individual.recipe == recipe) return true;
    }
    return false;
  };
  std::vector<Recipe> asked;
  for (int i = 0; i < 18; ++i) asked.push_back(policy.ask().value());
  const Recipe& best = asked[0];  // asked for by island 0
  for (std::size_t i = 0; i < 5; ++i) policy.tell(asked[i], {i == 0 ? 1.0 : 10.0 + static_cast<double>(i), "accepted"});
  EXPECT_TRUE(holds(0, best));
  EXPECT_FALSE(holds(1, best));
  policy.tell(asked[5], {20.0, "accepted"});
  EXPECT_TRUE(holds(1, best));
  EXPECT_FALSE(holds(2, best)) << "one island a migration";
  for (std::size_t i = 6; i < 12; ++i) policy.tell(asked[i], {30.0, "accepted"});
  EXPECT_TRUE(holds(2, best));
  EXPECT_TRUE(holds(0, best));
}

TEST(Evolution, RestartsAStagnantIslandButKeepsTheBest) {
  EvolutionOptions options;
  options.islands = 2;
  options.migration_interval = 1000;
  options.stagnation = 10;
  EvolutionPolicy policy(make_context(1), options);
  std::vector<Recipe> asked;
  for (int i = 0; i < 22; ++i) asked.push_back(policy.ask().value());
  policy.tell(asked[0], {1.0, "accepted"});
  policy.tell(asked[1], {2.0, "accepted"});
  for (std::size_t i = 2; i < 20; ++i) policy.tell(asked[i], {50.0, "accepted"});
  EXPECT_GT(policy.population(0).size(), 1u);
  EXPECT_GT(policy.population(1).size(), 1u);
  policy.tell(asked[20], {50.0, "accepted"});
  policy.tell(asked[21], {50.0, "accepted"});
  ASSERT_EQ(policy.population(0).size(), 1u) << "it held the best of all";
  EXPECT_EQ(policy.population(0).front().recipe, asked[0]);
  EXPECT_TRUE(policy.population(1).empty());
}

TEST(Evolution, MeasuringAgainReplacesTheTime) {
  EvolutionOptions options;
  options.islands = 1;
  EvolutionPolicy policy(make_context(1), options);
  const Recipe recipe = policy.ask().value();
  policy.tell(recipe, {5.0, "accepted"});
  policy.tell(recipe, {7.0, "accepted"});
  ASSERT_EQ(policy.population(0).size(), 1u);
  EXPECT_EQ(policy.population(0).front().time_us, 7.0);
}

TEST(Evolution, WhatIsFoundWrongLaterIsBredFromNoMore) {
  EvolutionOptions options;
  options.islands = 1;
  EvolutionPolicy policy(make_context(1), options);
  const Recipe wrong = policy.ask().value(), slow = policy.ask().value();
  policy.tell(wrong, {5.0, "accepted"});
  policy.tell(slow, {6.0, "accepted"});
  policy.tell(wrong, {std::nullopt, "wrong"});
  policy.tell(slow, {std::nullopt, "too-slow"});
  ASSERT_EQ(policy.population(0).size(), 1u);
  EXPECT_EQ(policy.population(0).front().recipe, slow);
}

}  // namespace
}  // namespace warpsmith
