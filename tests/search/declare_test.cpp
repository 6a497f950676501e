// Spaces for a dense sweep: whole, legal, the same every time, and mostly shared.
#include "search/declare.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/hash.h"
#include "codegen/generate.h"
#include "model/known_machines.h"
#include "search/starting_points.h"

namespace warpsmith {
namespace {

DeclareOptions options() {
  DeclareOptions options;
  options.machine = model::known_machine("h200").value();
  options.target = Target::sm90;
  options.recipes = 200;
  for (const auto& [m, n, k] : {std::array{64, 128, 128}, {100, 1152, 896}, {1024, 2048, 512}, {5, 2048, 768}}) {
    options.problems.push_back({m, n, k, Layout::tn});
  }
  return options;
}

TEST(Declare, GivesEveryProblemLegalRecipesOfAllKinds) {
  const DeclareOptions asked = options();
  const auto spaces = declare_spaces(asked);
  ASSERT_TRUE(spaces.ok()) << spaces.error().message;
  EXPECT_EQ(spaces->problems(), asked.problems);
  EXPECT_EQ(spaces->machine(), "NVIDIA H200");
  for (const Problem& problem : asked.problems) {
    std::map<std::string, std::size_t> families;
    std::set<std::string> distinct;
    for (const Recipe& recipe : spaces->space(problem)) {
      EXPECT_TRUE(is_legal(recipe, problem, asked.machine)) << to_string(problem) << ": " << to_string(recipe);
      distinct.insert(to_string(recipe));
      ++families[recipe.family().name];
    }
    EXPECT_EQ(distinct.size(), asked.recipes) << to_string(problem);
    EXPECT_GT(families["sm90"], asked.recipes / 2);
    EXPECT_GT(families["sm80"], 0u);
    EXPECT_EQ(families.count("skinny"), problem.m == 5 ? 1u : 0u);
    const Recipe best = find_starting_points(problem, asked.machine, asked.target).ranked.front();
    EXPECT_EQ(distinct.count(to_string(best)), 1u) << "the model's first is missing";
  }
}

TEST(Declare, SharesKernelsAmongProblems) {
  const DeclareOptions asked = options();
  const auto spaces = declare_spaces(asked);
  ASSERT_TRUE(spaces.ok());
  std::set<std::string> sources;
  for (const Problem& problem : asked.problems) {
    for (const Recipe& recipe : spaces->space(problem)) {
      sources.insert(sha256_hex(generate(recipe, problem, asked.machine)->source));
    }
  }
  EXPECT_LT(sources.size(), asked.recipes * asked.problems.size() * 2 / 3);
}

TEST(Declare, IsTheSameEveryTimeAndTakesWinners) {
  DeclareOptions asked = options();
  asked.problems.resize(2);
  asked.recipes = 120;
  const auto once = declare_spaces(asked), again = declare_spaces(asked);
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(once->digest(), again->digest());
  asked.seed = 2;
  EXPECT_NE(declare_spaces(asked)->digest(), once->digest());
  asked.winners = {parse_recipe("sm90 tile=64x24x64 consumers=1 stages=7 pace=64").value()};
  const auto with = declare_spaces(asked);
  ASSERT_TRUE(with.ok());
  for (const Problem& problem : asked.problems) {
    const auto space = with->space(problem);
    EXPECT_EQ(std::count(space.begin(), space.end(), asked.winners.front()), 1) << to_string(problem);
  }
}

TEST(Declare, TakesWhatIsKnownToBeBest) {
  DeclareOptions asked = options();
  asked.problems.resize(2);
  asked.recipes = 60;
  const Recipe best = parse_recipe("sm90 tile=64x40x128 consumers=1 stages=3 pace=64 swap=1").value();
  asked.best = {{best}};
  const auto spaces = declare_spaces(asked);
  ASSERT_TRUE(spaces.ok()) << spaces.error().message;
  const auto first = spaces->space(asked.problems[0]), second = spaces->space(asked.problems[1]);
  EXPECT_EQ(std::count(first.begin(), first.end(), best), 1);
  EXPECT_EQ(std::count(second.begin(), second.end(), best), 0);
}

TEST(Declare, RefusesNothingAtAll) {
  DeclareOptions asked = options();
  asked.recipes = 0;
  EXPECT_EQ(declare_spaces(asked).error().kind, ErrorKind::bad_input);
  asked = options();
  asked.problems.clear();
  EXPECT_EQ(declare_spaces(asked).error().kind, ErrorKind::bad_input);
}

}  // namespace
}  // namespace warpsmith
