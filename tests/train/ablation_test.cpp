// The evaluation harness: arms stay inside the declared spaces, fractions rise with n, files and summaries agree.
#include "train/ablation.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>

#include "base/file.h"
#include "landscape.h"

namespace warpsmith::train {
namespace {

TEST(Ablation, RunsEveryArmInsideTheSpace) {
  const auto replay = make_replay_environment(testing::landscape_table(testing::small_grid(), 80), "landscape");
  AblationOptions options;
  for (const std::string& name : built_in_arm_names()) options.arms.push_back(built_in_arm(name).value());
  const auto& vocabulary = embedded::Vocabulary::standard();
  embedded::ModelShape shape;
  shape.vocabulary = vocabulary.size();
  shape.layers = 1;
  shape.width = 16;
  shape.heads = 2;
  shape.hidden = 16;
  const auto model = std::make_shared<embedded::LoadedModel>(embedded::LoadedModel{
      embedded::Transformer(shape, embedded::initial_weights(shape, vocabulary, 1)), &vocabulary, {}});
  options.arms.push_back(model_arm("untrained", model, embedded::ExemplarChoice::buckets, {}));
  options.seeds = 2;
  options.held_out_share = 0.3;
  options.smallest_space = 60;
  const auto ablation = run_ablation(options, *replay, [](double) {});
  ASSERT_TRUE(ablation.ok()) << ablation.error().message;
  EXPECT_GT(ablation->problems, 2u);
  EXPECT_EQ(ablation->rows.size(), options.arms.size() * 2 * ablation->problems * kAblationCounts.size());
  double last = 0;
  for (const AblationRow& row : ablation->rows) {
    EXPECT_GE(row.fraction_of_best, row.n == 1 ? 0 : last) << row.arm;
    EXPECT_LE(row.fraction_of_best, 1);
    if (row.n == 256) {
      EXPECT_EQ(row.fraction_of_best, 1) << row.arm;  // the space holds 80 recipes
    }
    last = row.fraction_of_best;
  }
  for (const auto& [arm, kinds] : ablation->verdicts) EXPECT_EQ(kinds.count("outside"), 0u) << arm;

  const auto path = std::filesystem::path(::testing::TempDir()) / ("ablation" + std::to_string(getpid()) + ".csv");
  ASSERT_TRUE(write_file_atomic(path, ablation_csv(ablation->rows)).ok());
  const auto back = read_ablation_csv(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), ablation->rows.size());
  const auto summary = summarise(*back);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->arms.size(), options.arms.size());
  EXPECT_EQ(summary->figures.at("random").at(256).mean, 1);
  EXPECT_NE(summary_markdown(*summary).find("| untrained |"), std::string::npos);
}

TEST(Ablation, LeavesOutWhatWasNotMeasuredWhole) {
  ReplayTable table = testing::landscape_table(testing::small_grid(), 20);
  const Problem whole = testing::small_grid()[0], part = testing::small_grid()[1];
  table.set_held_out({whole, part});
  table.set_declared(whole, table.entries(whole), "digest");
  table.set_declared(part, table.entries(part) + 1, "digest");
  const auto replay = make_replay_environment(std::move(table), "landscape");
  AblationOptions options;
  options.arms = {built_in_arm("random").value()};
  options.seeds = 1;
  options.first_seed = 4;
  options.smallest_space = 20;
  const auto ablation = run_ablation(options, *replay, [](double) {});
  ASSERT_TRUE(ablation.ok()) << ablation.error().message;
  EXPECT_EQ(ablation->problems, 1u);
  for (const AblationRow& row : ablation->rows) EXPECT_EQ(row.seed, 4);
  ASSERT_EQ(ablation->left_out.size(), 1u);
  EXPECT_EQ(ablation->left_out.front(), to_string(part) + ": 20 of 21 recipes");
}

TEST(Ablation, DifferencesAreOfTheSameProblems) {
  std::vector<AblationRow> rows;
  for (int p = 0; p < 10; ++p) {
    const std::string problem = "p" + std::to_string(p);
    for (int seed = 1; seed <= 2; ++seed) {
      rows.push_back({"good", seed, problem, 1, 0.8 + 0.01 * p});
      rows.push_back({"poor", seed, problem, 1, 0.5 + 0.01 * p});
    }
  }
  const auto summary = summarise(rows).value();
  EXPECT_EQ(summary.arms.front(), "good");
  EXPECT_NEAR(summary.figures.at("good").at(1).mean, 0.845, 1e-12);
  const auto& difference = summary.differences.at({"good", "poor"}).at(1);
  EXPECT_NEAR(difference.difference, 0.3, 1e-12);
  EXPECT_GT(difference.interval.low, 0.29);
  EXPECT_LT(summary.differences.at({"poor", "good"}).at(1).interval.high, 0);
}

TEST(Ablation, RefusesWhatIsNoArm) {
  EXPECT_EQ(built_in_arm("magic").error().kind, ErrorKind::bad_input);
  const auto path = std::filesystem::path(::testing::TempDir()) / ("rows" + std::to_string(getpid()) + ".csv");
  ASSERT_TRUE(write_file_atomic(path, "arm,seed,problem,n,fraction_of_best\nx,1,p,1\n").ok());
  EXPECT_NE(read_ablation_csv(path).error().message.find(":2:"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace warpsmith::train
