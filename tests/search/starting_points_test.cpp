// Where a search begins: the model's ranks merged with the families' seeds; and the model judged by a table.
#include "search/starting_points.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "model/known_machines.h"
#include "model/rank.h"
#include "search/model_report.h"
#include "test_machine.h"

namespace warpsmith {
namespace {

TEST(StartingPoints, MergeTheModelAndTheFamilies) {
  const Machine machine = *model::known_machine("h200");
  for (const Problem& problem :
       {Problem{.m = 512, .n = 256, .k = 4096}, Problem{.m = 64, .n = 64, .k = 64, .layout = Layout::tn},
        Problem{.m = 4, .n = 4096, .k = 4096}}) {
    const StartingPoints points = find_starting_points(problem, machine, Target::sm90);
    EXPECT_EQ(points.ranked.size(), 16u) << to_string(problem);
    EXPECT_EQ(points.ranked.front(), model::rank(problem, machine, Target::sm90, 16).front().recipe);
    std::set<std::string> seen;
    std::set<const Family*> families;
    for (const Recipe& recipe : points.all()) {
      EXPECT_TRUE(is_legal(recipe, problem, machine)) << to_string(recipe);
      EXPECT_TRUE(seen.insert(to_string(recipe)).second) << to_string(recipe);
      families.insert(&recipe.family());
    }
    EXPECT_EQ(families, std::set<const Family*>(points.families.begin(), points.families.end()));
    // Every family's own seeds are there.
    for (const Family* family : families_for(Target::sm90)) {
      for (const Recipe& start : family->starting_points(problem, machine)) {
        EXPECT_TRUE(seen.count(to_string(start))) << to_string(start);
      }
    }
  }
}

TEST(StartingPoints, AreTheFamiliesWhereThereIsNoModel) {
  const Problem problem{.m = 64, .n = 64, .k = 64};
  const StartingPoints points = find_starting_points(problem, test_machine(), Target::cpu);
  EXPECT_TRUE(points.ranked.empty());
  EXPECT_EQ(points.all(), cpu_family().starting_points(problem, test_machine()));
}

TEST(ModelReport, ComparesChoicesWithWhatWasMeasured) {
  const Machine machine = *model::known_machine("h200");
  const Problem small{.m = 64, .n = 64, .k = 64, .layout = Layout::tn}, large{.m = 4096, .n = 4096, .k = 4096};
  ReplayTable table(machine, Target::sm90, 1);
  // As the model has it, but for its first choice for `large`, which is twice as slow.
  for (const Problem& problem : {small, large}) {
    const auto ranked = model::rank(problem, machine, Target::sm90, 16);
    for (const model::Ranked& each : ranked) {
      const bool first = &each == &ranked.front();
      const double time_us = each.estimate.time_us * (first && problem == large ? 2 : 1);
      ASSERT_TRUE(table.add(problem, to_string(each.recipe), {"accepted", time_us, time_us}));
    }
    ASSERT_TRUE(table.add(problem, "sm90 tile=64x8x64 consumers=1 stages=2 evict=lastxfirst",
                          {"wrong", std::nullopt, std::nullopt}));
  }
  EXPECT_EQ(measured_times(table, small).size(), 16u);  // what was timed
  const auto rows = report_model(table);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].bucket, "all");
  EXPECT_EQ(rows[0].problems, 2u);
  EXPECT_EQ(rows[0].recipes, 32u);
  EXPECT_DOUBLE_EQ(rows[1].best_over_first, 1);  // < 24
  EXPECT_NEAR(rows[1].spread, 0, 1e-9);
  EXPECT_EQ(rows[2].bucket, ">= 36");
  EXPECT_LT(rows[2].best_over_first, 0.6);
  EXPECT_DOUBLE_EQ(rows[2].best_over_top, 1);
  EXPECT_EQ(rows[2].ranked_first, 1u);
  EXPECT_DOUBLE_EQ(rows[2].best_over_ranked_first, rows[2].best_over_first);
  EXPECT_DOUBLE_EQ(rows[2].best_over_ranked_top, 1);
}

}  // namespace
}  // namespace warpsmith
