// The mask: nothing illegal can be written, everything legal can.
#include "policy/embedded/grammar.h"

#include <gtest/gtest.h>

#include <set>

#include "embedded_machines.h"
#include "policy/rng.h"
#include "policy/sampler.h"

namespace warpsmith::embedded {
namespace {

std::shared_ptr<ScopeBook> book() {
  static const auto kBook = std::make_shared<ScopeBook>();
  return kBook;
}

// Writes a recipe, choosing uniformly; counts dead ends as failures.
std::optional<Recipe> write(Grammar& grammar, Rng& rng) {
  const auto cursor = grammar.start();
  while (!cursor->done()) {
    const auto& allowed = cursor->allowed();
    if (allowed.empty()) return std::nullopt;
    cursor->take(allowed[rng.index(allowed.size())]);
  }
  return cursor->recipe();
}

// Whether the grammar lets the recipe through; else the name of the field at which it does not.
std::string refused_at(Grammar& grammar, const Recipe& recipe) {
  const auto cursor = grammar.start();
  const auto allows = [&](int choice) {
    const auto& allowed = cursor->allowed();
    return std::find(allowed.begin(), allowed.end(), choice) != allowed.end();
  };
  const auto& families = grammar.families();
  const auto family =
      static_cast<int>(std::find(families.begin(), families.end(), &recipe.family()) - families.begin());
  if (!allows(family)) return "family";
  cursor->take(family);
  for (std::size_t i = 0; i < recipe.size(); ++i) {
    if (!allows(recipe.choice(i))) return recipe.family().fields()[i]->name;
    cursor->take(recipe.choice(i));
  }
  EXPECT_TRUE(cursor->done());
  EXPECT_EQ(cursor->recipe(), recipe);
  return {};
}

TEST(RuleGrammar, NeverWritesAnIllegalRecipe) {
  int written = 0;
  std::set<std::string> distinct;
  for (const auto& task : testing::tasks()) {
    RuleGrammar grammar(task.problem, task.machine, families_for(task.target), book());
    ASSERT_FALSE(grammar.empty());
    Rng rng(3);
    for (int i = 0; i < 300; ++i) {
      const auto recipe = write(grammar, rng);
      ASSERT_TRUE(recipe.has_value()) << to_string(task.problem);
      const auto violation = find_violation(*recipe, &task.problem, task.machine);
      EXPECT_FALSE(violation) << to_string(*recipe) << ": " << violation->reason;
      distinct.insert(to_string(*recipe));
      ++written;
    }
    EXPECT_EQ(grammar.abandoned(), 0) << to_string(task.problem);
  }
  EXPECT_EQ(written, 2100);
  EXPECT_GT(distinct.size(), 1800u);
}

TEST(RuleGrammar, LetsEveryStartingPointThrough) {
  for (const auto& task : testing::tasks()) {
    RuleGrammar grammar(task.problem, task.machine, families_for(task.target), book());
    for (const Family* family : grammar.families()) {
      for (const Recipe& start : family->starting_points(task.problem, task.machine)) {
        EXPECT_EQ(refused_at(grammar, start), "") << to_string(task.problem) << ": " << to_string(start);
      }
    }
  }
}

// Legal recipes found without the grammar, a family at a time.
TEST(RuleGrammar, LetsLegalRecipesThrough) {
  for (const auto& task : testing::tasks()) {
    RuleGrammar grammar(task.problem, task.machine, families_for(task.target), book());
    for (const Family* family : grammar.families()) {
      SearchSpace space(task.problem, task.machine, {family});
      Sampler sampler(space, 7);
      Rng rng(7);
      if (family->starting_points(task.problem, task.machine).empty()) continue;
      for (int i = 0; i < 60; ++i) {
        const auto recipe = sampler.draw(rng);
        if (!recipe) break;
        space.mark(*recipe);
        EXPECT_EQ(refused_at(grammar, *recipe), "") << to_string(task.problem) << ": " << to_string(*recipe);
      }
    }
  }
}

const Family& awkward() {
  static const Family family = [] {
    Family made;
    made.name = "awkward";
    made.knobs = {{"a", "", {{"a", {1, 2, 3}, 1, {}}}},
                  {"b", "", {{"b", {1, 2, 3}, 1, {}}}},
                  {"c", "", {{"c", {1, 2, 3}, 1, {}}}}};
    // Only 2, 3, 1 and 3, 1, 3 are legal: no single change leads from one to the other.
    made.rules = {{"sum", "", false, [](const Recipe& r, const Problem*, const Machine&) {
                     const int code = 100 * r.get("a") + 10 * r.get("b") + r.get("c");
                     return code == 231 || code == 313 ? std::nullopt : std::optional<std::string>("no");
                   }}};
    made.starting_points = [](const Problem&, const Machine&) { return std::vector<Recipe>(); };
    return made;
  }();
  return family;
}

TEST(RuleGrammar, FindsFarCompletionsAndOnlyThose) {
  const Machine machine = testing::two_threads();
  const Problem problem = {.m = 8, .n = 8, .k = 8};
  RuleGrammar grammar(problem, machine, {&awkward()}, std::make_shared<ScopeBook>());
  const auto cursor = grammar.start();
  ASSERT_EQ(cursor->allowed(), (std::vector<int>{0}));
  cursor->take(0);
  EXPECT_EQ(cursor->allowed(), (std::vector<int>{1, 2}));
  cursor->take(2);
  EXPECT_EQ(cursor->allowed(), (std::vector<int>{0}));
  cursor->take(0);
  EXPECT_EQ(cursor->allowed(), (std::vector<int>{2}));
  cursor->take(2);
  EXPECT_TRUE(cursor->done());
}

TEST(RuleGrammar, IsEmptyWhereNothingIsLegal) {
  const Problem problem = {.m = 64, .n = 64, .k = 64, .accumulator = AccumulatorType::f16};
  RuleGrammar grammar(problem, testing::two_threads(), {&cpu_family()}, book());
  EXPECT_TRUE(grammar.empty());
}

TEST(ListGrammar, WritesExactlyTheListedRecipes) {
  const auto task = testing::tasks()[3];
  std::vector<Recipe> listed;
  for (const Family* family : families_for(task.target)) {
    for (const Recipe& start : family->starting_points(task.problem, task.machine)) listed.push_back(start);
  }
  ASSERT_GT(listed.size(), 5u);
  ListGrammar grammar(listed);
  std::set<std::string> wanted, written;
  for (const Recipe& recipe : listed) {
    wanted.insert(to_string(recipe));
    EXPECT_EQ(refused_at(grammar, recipe), "");
  }
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) written.insert(to_string(*write(grammar, rng)));
  EXPECT_EQ(written, wanted);
  Recipe other = listed.front();
  other.set_choice(0, (other.choice(0) + 1) % 2);
  if (wanted.count(to_string(other)) == 0) {
    EXPECT_NE(refused_at(grammar, other), "");
  }
}

TEST(ListGrammar, WritesWhatIsLeftUntilNothingIs) {
  const auto task = testing::tasks()[3];
  std::vector<Recipe> listed;
  for (const Family* family : families_for(task.target)) {
    for (const Recipe& start : family->starting_points(task.problem, task.machine)) listed.push_back(start);
  }
  std::set<std::string> distinct;
  for (const Recipe& recipe : listed) distinct.insert(to_string(recipe));
  ListGrammar grammar(listed);
  std::set<std::string> written;
  Rng rng(1);
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    ASSERT_FALSE(grammar.empty());
    const Recipe recipe = *write(grammar, rng);
    EXPECT_TRUE(written.insert(to_string(recipe)).second) << to_string(recipe);
    grammar.remove(recipe);
    grammar.remove(recipe);  // is gone already
  }
  EXPECT_EQ(written, distinct);
  EXPECT_TRUE(grammar.empty());
}

}  // namespace
}  // namespace warpsmith::embedded
