// Who takes part in a survey: rivals for a place, and what becomes of them.
#include "survey_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../search/test_machine.h"
#include "temporary_directory.h"

namespace warpsmith::cli {
namespace {

SurveyKernel kernel(const std::string& name, const std::string& recipe, const std::string& rival_of = {}) {
  SurveyKernel one;
  one.name = name;
  one.recipe = recipe;
  one.source_hash = "hash of " + recipe;
  one.rival_of = rival_of;
  return one;
}

TEST(SurveyContests, WinnersTakeTheNameAndLosersAreKept) {
  std::vector<SurveyKernel> entrants = {kernel("ours-nn", "a"),
                                        kernel("ours-nn~2", "b", "ours-nn"),
                                        kernel("ours-nn~3", "c", "ours-nn"),
                                        kernel("ours-nn-pdl", "d"),
                                        kernel("ours-tn", "e"),
                                        kernel("ours-tn~2", "f", "ours-tn")};
  SurveyReport report;
  report.winners = {{"ours-nn", "ours-nn~2"}, {"ours-tn", "ours-tn"}};
  report.contest_us = {{"ours-nn", 3}, {"ours-nn~2", 1}, {"ours-tn", 5}, {"ours-tn~2", 6}};
  const nlohmann::json lost = settle_contests(entrants, report);
  ASSERT_EQ(entrants.size(), 3u);
  EXPECT_EQ(entrants[0].name + entrants[0].recipe, "ours-nnb");
  EXPECT_TRUE(entrants[0].rival_of.empty());
  EXPECT_EQ(entrants[1].name + entrants[1].recipe, "ours-nn-pdld");
  EXPECT_EQ(entrants[2].name + entrants[2].recipe, "ours-tne");
  // One that did not hold has no time.
  EXPECT_EQ(lost, nlohmann::json::parse(R"({
    "ours-nn": [{"recipe": "a", "source_hash": "hash of a", "cold_us": 3.0},
                {"recipe": "c", "source_hash": "hash of c", "cold_us": null}],
    "ours-tn": [{"recipe": "f", "source_hash": "hash of f", "cold_us": 6.0}]})"));
}

TEST(SurveyContests, NothingIsLostWhereNothingWasCompared) {
  std::vector<SurveyKernel> entrants = {kernel("ours-nn", "a"), kernel("ours-nn~2", "b", "ours-nn")};
  EXPECT_TRUE(settle_contests(entrants, {}).empty());
  ASSERT_EQ(entrants.size(), 1u);
  EXPECT_EQ(entrants[0].recipe, "a");
}

class SurveyEntrants : public TemporaryDirectory {
 protected:
  // The recipes that take part, of starting points with these times (0: not measured).
  std::vector<std::string> entrants(const std::vector<double>& times_us, KernelBuilder::Rivals rivals) {
    const std::vector<Recipe> starts = cpu_family().starting_points(problem_, machine_);
    std::vector<ChosenRecipe> chosen;
    for (std::size_t i = 0; i < times_us.size(); ++i) chosen.push_back({starts.at(i), "test", times_us[i], {}});
    const Compiler compiler({.cache = home_ / "cache"});
    KernelBuilder builder(compiler, machine_);
    const auto built = builder.build_contest(problem_, chosen, "ours-tn", rivals);
    EXPECT_TRUE(built.ok());
    std::vector<std::string> found;
    for (const SurveyKernel& one : *built) {
      EXPECT_EQ(one.rival_of, found.empty() ? "" : "ours-tn");
      const auto is_it = [&](const Recipe& recipe) { return to_string(recipe) == one.recipe; };
      found.push_back(std::to_string(std::find_if(starts.begin(), starts.end(), is_it) - starts.begin()));
    }
    return found;
  }
  const Problem problem_{64, 64, 64};
  const Machine machine_ = test_machine();
};

TEST_F(SurveyEntrants, ThoseThatWereNearlyAsFastAreRivals) {
  const auto allowed = KernelBuilder::Rivals::allowed;
  using Names = std::vector<std::string>;
  EXPECT_EQ(entrants({100, 105, 107}, allowed), (Names{"0", "1"}));
  EXPECT_EQ(entrants({100, 0, 106}, allowed), (Names{"0", "2"}));
  EXPECT_EQ(entrants({0, 0, 0}, allowed), (Names{"0", "1", "2"}));
}

TEST_F(SurveyEntrants, NobodyCompetesWhereMeasuringMustNotChoose) {
  EXPECT_EQ(entrants({0, 0, 0}, KernelBuilder::Rivals::none), std::vector<std::string>{"0"});
}

}  // namespace
}  // namespace warpsmith::cli
