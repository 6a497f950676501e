// The vocabulary says everything that a recipe says, knows which knob tables it was made of, and bins facts in order.
#include "policy/embedded/vocabulary.h"

#include <gtest/gtest.h>

#include <set>

#include "embedded_machines.h"
#include "policy/rng.h"

namespace warpsmith::embedded {
namespace {

Recipe random_recipe(const Family& family, Rng& rng) {
  Recipe recipe(family);
  const auto fields = family.fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    recipe.set_choice(i, static_cast<int>(rng.index(fields[i]->values.size())));
  }
  return recipe;
}

TEST(Vocabulary, RecipesSurviveTheRoundTrip) {
  const Vocabulary& vocabulary = Vocabulary::standard();
  Rng rng(1);
  for (const Family* family : families()) {
    for (int i = 0; i < 300; ++i) {
      const Recipe recipe = random_recipe(*family, rng);
      const auto tokens = vocabulary.encode(recipe);
      EXPECT_LE(tokens.size(), vocabulary.longest_recipe());
      const auto back = vocabulary.decode(tokens);
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ(*back, recipe);
    }
  }
}

TEST(Vocabulary, RefusesWhatIsNoRecipe) {
  const Vocabulary& vocabulary = Vocabulary::standard();
  auto tokens = vocabulary.encode(Recipe(sm90_family()));
  EXPECT_FALSE(vocabulary.decode({}).ok());
  EXPECT_FALSE(vocabulary.decode({-1}).ok());
  EXPECT_FALSE(vocabulary.decode({vocabulary.size()}).ok());
  EXPECT_FALSE(vocabulary.decode({tokens.begin(), tokens.end() - 1}).ok());
  std::swap(tokens[1], tokens[2]);
  EXPECT_FALSE(vocabulary.decode(tokens).ok());
  tokens = vocabulary.encode(Recipe(sm90_family()));
  tokens[1] = vocabulary.encode(Recipe(sm80_family()))[1];
  EXPECT_FALSE(vocabulary.decode(tokens).ok());
}

TEST(Vocabulary, EveryTokenHasANameOfItsOwn) {
  const Vocabulary& vocabulary = Vocabulary::standard();
  std::set<std::string> names;
  for (int id = 0; id < vocabulary.size(); ++id)
    EXPECT_TRUE(names.insert(vocabulary.name(id)).second) << vocabulary.name(id);
  EXPECT_TRUE(names.count("sm90.tile_n=176"));
  EXPECT_TRUE(names.count("cpu.simd=avx512"));
}

TEST(Vocabulary, VersionFollowsTheKnobTables) {
  Family family;
  family.name = "toy";
  family.knobs = {{"a", "", {{"a", {1, 2}, 1, {}}}}};
  const std::string version = Vocabulary({&family}).version();
  EXPECT_EQ(version.size(), 16u);
  EXPECT_EQ(Vocabulary({&family}).version(), version);
  family.knobs[0].fields[0].values = {1, 3};
  EXPECT_NE(Vocabulary({&family}).version(), version);
  family.knobs[0].fields[0].values = {1, 2};
  family.knobs[0].fields[0].words = {"one", "two"};
  EXPECT_NE(Vocabulary({&family}).version(), version);
  family.knobs[0].fields[0].words.clear();
  family.knobs[0].fields[0].name = "b";
  EXPECT_NE(Vocabulary({&family}).version(), version);
}

TEST(Vocabulary, FeaturesLieInTheirBins) {
  const auto& slots = Vocabulary::feature_slots();
  for (const auto& task : testing::tasks()) {
    const auto bins = Vocabulary::features(task.problem, task.machine);
    ASSERT_EQ(bins.size(), slots.size());
    for (std::size_t i = 0; i < bins.size(); ++i) {
      EXPECT_GE(bins[i], 0) << slots[i].name;
      EXPECT_LT(bins[i], slots[i].bins) << slots[i].name;
    }
  }
}

TEST(Vocabulary, FeaturesTellProblemsApart) {
  const Machine machine = testing::hopper();
  const Problem base = {.m = 1024, .n = 1024, .k = 1024};
  std::set<std::vector<int>> seen = {Vocabulary::features(base, machine)};
  const auto fresh = [&](const Problem& problem, const Machine& on) {
    return seen.insert(Vocabulary::features(problem, on)).second;
  };
  for (const Problem& problem :
       {Problem{.m = 1216, .n = 1024, .k = 1024}, Problem{.m = 1024, .n = 1000, .k = 1024},
        Problem{.m = 1024, .n = 1024, .k = 1023}, Problem{.m = 1024, .n = 1024, .k = 1024, .layout = Layout::tn},
        Problem{.m = 1024, .n = 1024, .k = 1024, .element = ElementType::bf16},
        Problem{.m = 1024, .n = 1024, .k = 1024, .scaling = Scaling::alpha_beta},
        Problem{.m = 1024, .n = 1024, .k = 1024, .lda = 1028}}) {
    EXPECT_TRUE(fresh(problem, machine)) << to_string(problem);
  }
  Machine smaller = machine;
  smaller.units = 66;
  EXPECT_TRUE(fresh(base, smaller));
}

TEST(Vocabulary, SpeedupBinsAscend) {
  int last = speedup_bin(0);
  EXPECT_EQ(last, 0);
  for (double speedup = 0.02; speedup < 15; speedup *= 1.3) {
    EXPECT_GT(speedup_bin(speedup), last);
    last = speedup_bin(speedup);
  }
  EXPECT_EQ(speedup_bin(1), 48);
  EXPECT_LT(speedup_bin(1e30), kSpeedupBins);
  EXPECT_EQ(speedup_bin(-1), 0);
}

}  // namespace
}  // namespace warpsmith::embedded
