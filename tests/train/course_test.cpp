// What is trained on, what is held out, and the examples made from a table.
#include "train/course.h"

#include <gtest/gtest.h>

#include <set>

#include "landscape.h"

namespace warpsmith::train {
namespace {

std::unique_ptr<Environment> environment() {
  return make_replay_environment(testing::landscape_table(testing::small_grid(), 40), "landscape");
}

TEST(ReplayEnvironment, AnswersFromTheTable) {
  const auto replay = environment();
  const Problem problem = replay->problems().front();
  const auto known = replay->known(problem);
  ASSERT_GT(known.size(), 20u);
  EXPECT_LE(known[0].time_us, known[1].time_us);
  EXPECT_GE(replay->space(problem).size(), known.size());
  const auto measured = replay->measure(problem, {known[0].recipe, Recipe(sm90_family())}, 0);
  ASSERT_TRUE(measured.ok());
  EXPECT_EQ((*measured)[0].time_us, known[0].time_us);
  EXPECT_GT((*measured)[0].difference, 0);
  EXPECT_FALSE((*measured)[1].time_us);
  EXPECT_GT(replay->reference_us(problem).value(), 0);
}

TEST(ReplayEnvironment, TooSlowIsRightAndHasATime) {
  ReplayTable table = testing::landscape_table(testing::small_grid(), 5);
  const Problem problem = table.problems().front();
  Recipe slow = table.recipes(problem).front();
  for (int choice = 0; table.contains(problem, slow); ++choice)
    slow.set_choice(slow.size() - 1 - choice / 2, choice % 2);
  ASSERT_TRUE(table.add(problem, to_string(slow), {"too-slow", 1e6, std::nullopt}).ok());
  const auto replay = make_replay_environment(std::move(table), "landscape");
  const auto measured = replay->measure(problem, {slow}, 0);
  ASSERT_TRUE(measured.ok());
  EXPECT_EQ(measured->front().kind, "too-slow");
  EXPECT_EQ(measured->front().time_us, 1e6);
  EXPECT_EQ(replay->known(problem).back().recipe, slow);
}

TEST(Course, KeepsHeldOutProblemsOut) {
  const auto replay = environment();
  TrainConfig config;
  config.held_out_share = 0.3;
  const Course course(*replay, config);
  const auto held_out = held_out_problems(*replay, config.held_out_share);
  ASSERT_FALSE(held_out.empty());
  EXPECT_EQ(course.size() + held_out.size(), replay->problems().size());
  for (std::size_t i = 0; i < course.size(); ++i) {
    EXPECT_EQ(std::count(held_out.begin(), held_out.end(), course.problem(i)), 0);
  }
  // A declaration in the table goes before the share.
  ReplayTable table = testing::landscape_table(testing::small_grid(), 5);
  table.set_held_out({testing::small_grid().front()});
  const auto declared = make_replay_environment(std::move(table), "landscape");
  EXPECT_EQ(held_out_problems(*declared, 0.3), (std::vector<Problem>{testing::small_grid().front()}));
  // In all layouts.
  std::vector<Problem> both = testing::small_grid();
  both.push_back(both.front());
  both.back().layout = Layout::nn;
  ReplayTable twins = testing::landscape_table(both, 5);
  twins.set_held_out({both.front()});
  const auto environment_of_twins = make_replay_environment(std::move(twins), "landscape");
  EXPECT_EQ(Course(*environment_of_twins, config).size(), both.size() - 2);
}

TEST(Course, NeighboursAreTheNearest) {
  const std::vector<Problem> among = {{.m = 64, .n = 64, .k = 64},
                                      {.m = 128, .n = 64, .k = 64},
                                      {.m = 4096, .n = 64, .k = 64},
                                      {.m = 64, .n = 64, .k = 64, .layout = Layout::tn}};
  EXPECT_EQ(nearest(among[0], among, 2), (std::vector<std::size_t>{3, 1}));
  EXPECT_EQ(nearest(among[2], among, 9).size(), 3u);
}

TEST(Course, ExamplesAreLegalAndOfAllKinds) {
  const auto replay = environment();
  TrainConfig config;
  config.held_out_share = 0;
  Course course(*replay, config);
  Rng rng(3);
  int bare = 0, own = 0, neighbour = 0;
  for (int i = 0; i < 200; ++i) {
    const auto example = course.supervised_example(rng);
    ASSERT_TRUE(example.has_value());
    const auto& exemplars = example->prompt.exemplars;
    int& kind = exemplars.empty() ? bare : exemplars[0].neighbour ? neighbour : own;
    ++kind;
    const embedded::Output& output = example->output;
    ASSERT_EQ(output.tokens.size(), output.allowed.size());
    for (std::size_t t = 0; t < output.tokens.size(); ++t) {
      EXPECT_NE(std::find(output.allowed[t].begin(), output.allowed[t].end(), output.tokens[t]),
                output.allowed[t].end());
    }
  }
  EXPECT_GT(bare, 30);
  EXPECT_GT(own, 50);
  EXPECT_GT(neighbour, 20);
}

TEST(Course, PoolsSurviveACheckpoint) {
  const auto replay = environment();
  TrainConfig config;
  Course first(*replay, config), second(*replay, config);
  embedded::Grammar& grammar = first.grammar(0);
  Rng rng(1);
  for (int i = 0; i < 200; ++i) {
    const auto cursor = grammar.start();
    while (!cursor->done()) cursor->take(cursor->allowed()[rng.index(cursor->allowed().size())]);
    first.add_to_pool(0, cursor->recipe(), 1 + rng.unit());
  }
  ASSERT_TRUE(second.restore_pools(nlohmann::json::parse(first.pools().dump())).ok());
  ASSERT_EQ(first.pool(0).size(), second.pool(0).size());
  for (std::size_t i = 0; i < first.pool(0).size(); ++i) {
    EXPECT_EQ(first.pool(0)[i].recipe, second.pool(0)[i].recipe);
    EXPECT_EQ(first.pool(0)[i].speedup, second.pool(0)[i].speedup);
  }
  EXPECT_EQ(first.best_known_us(0), second.best_known_us(0));
}

TEST(Batch, HoldsTargetsWithAChoiceOnly) {
  const auto replay = environment();
  TrainConfig config;
  Course course(*replay, config);
  Rng rng(3);
  std::vector<Example> examples;
  std::size_t targets = 0;
  for (int i = 0; i < 8; ++i) {
    examples.push_back(course.supervised_example(rng).value());
    for (const auto& allowed : examples.back().output.allowed) targets += allowed.size() > 1 ? 1 : 0;
  }
  const Batch batch(examples);
  EXPECT_EQ(batch.targets(), targets);
  const auto& view = batch.view();
  for (int t = 0; t < view.targets; ++t) {
    const int sequence = view.at[t] / view.length, position = view.at[t] % view.length;
    EXPECT_EQ(sequence, view.sequence[t]);
    const auto& example = examples[static_cast<std::size_t>(sequence)];
    const auto first = static_cast<int>(example.prompt.tokens.size());
    EXPECT_EQ(view.token[t], example.output.tokens[static_cast<std::size_t>(position - first + 1)]);
    EXPECT_GT(view.allowed_begin[t + 1], view.allowed_begin[t] + 1);
  }
}

}  // namespace
}  // namespace warpsmith::train
