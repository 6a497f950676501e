// Judging the model by measured times that are made up.
#include "model/agreement.h"

#include <gtest/gtest.h>

#include <cmath>

#include "machines.h"
#include "model/rank.h"

namespace warpsmith::model {
namespace {

using testing::hopper;

const Problem kProblem{.m = 1024, .n = 1024, .k = 1024, .layout = Layout::tn};

// The model's own times, times a factor.
std::vector<Measured> measured_like_the_model(double factor) {
  std::vector<Measured> list;
  for (const Ranked& each : rank(kProblem, hopper(), Target::sm90, 24)) {
    list.push_back({each.recipe, factor * each.estimate.time_us});
  }
  return list;
}

TEST(Agreement, IsPerfectWhenTheOrderIs) {
  const auto measured = measured_like_the_model(1.25);
  const MeasuredProblem problem(kProblem, measured);
  ASSERT_EQ(problem.size(), measured.size());
  const Agreement a = problem.judge(hopper(), h200_coefficients());
  EXPECT_EQ(a.recipes, measured.size());
  EXPECT_EQ(a.best_us, a.first_us);
  EXPECT_EQ(a.best_us, a.top_us);
  EXPECT_NEAR(a.bias, -std::log(1.25), 1e-9);
  EXPECT_NEAR(a.spread, std::log(1.25), 1e-9);
}

TEST(Agreement, SeesWrongChoices) {
  auto measured = measured_like_the_model(1);
  measured.front().time_us *= 3;                        // the model's first turns out slow
  measured.back().time_us = 0.5 * measured[1].time_us;  // and its last fast
  const Agreement a = MeasuredProblem(kProblem, measured).judge(hopper(), h200_coefficients());
  EXPECT_EQ(a.best_us, measured.back().time_us);
  EXPECT_EQ(a.first_us, measured.front().time_us);
  EXPECT_GT(a.top_us, a.best_us);  // the last is not among the first 16
  EXPECT_LT(a.top_us, a.first_us);
  EXPECT_GT(a.expected_us, a.best_us);
  EXPECT_LT(a.expected_us, a.first_us);
}

TEST(Agreement, SharpnessMakesTheExpectedTimeThatOfTheFirst) {
  auto measured = measured_like_the_model(1);
  measured.front().time_us *= 3;
  const MeasuredProblem problem(kProblem, measured);
  const Agreement a = problem.judge(hopper(), h200_coefficients(), 1e5);
  EXPECT_NEAR(a.expected_us, a.first_us, 1e-6 * a.first_us);
}

TEST(Agreement, LeavesOutWhatTheModelDoesNotKnow) {
  std::vector<Measured> measured = measured_like_the_model(1);
  const std::size_t known = measured.size();
  measured.push_back({Recipe(cpu_family()), 0.001});
  measured.push_back({measured.front().recipe, 0});  // no time
  Recipe dependent = Recipe(tiny_family()).set("pdl", 1);
  measured.push_back({dependent, 0.001});
  const MeasuredProblem problem(kProblem, measured);
  EXPECT_EQ(problem.size(), known + 1);
  EXPECT_GT(problem.judge(hopper(), h200_coefficients()).best_us, 0.01);  // not of the dependent launch
}

}  // namespace
}  // namespace warpsmith::model
