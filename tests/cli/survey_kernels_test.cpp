// Who takes part in a survey: rivals for a place, and what becomes of them.
#include "survey_kernels.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace warpsmith::cli
