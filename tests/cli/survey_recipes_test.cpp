// Which kernels a survey takes, and the file of the baselines' choices.
#include "survey_recipes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "../search/test_machine.h"
#include "base/hash.h"
#include "codegen/generate.h"
#include "temporary_directory.h"

namespace warpsmith::cli {
namespace {

Machine machine_of(const std::string& driver = "1") {
  Machine machine = test_machine();
  machine.versions = {{"driver", driver}, {"cublaslt", "13.1"}};
  return machine;
}

class SurveyRecipes : public TemporaryDirectory {
 protected:
  void SetUp() override {
    TemporaryDirectory::SetUp();
    auto archive = Archive::open(home_ / "archive.sqlite");
    ASSERT_TRUE(archive.ok()) << archive.error().message;
    archive_ = std::move(*archive);
    starts_ = cpu_family().starting_points(problem_, machine_);
    ASSERT_GE(starts_.size(), 3u);
  }
  void TearDown() override {
    archive_.reset();
    TemporaryDirectory::TearDown();
  }

  void record(const Recipe& recipe, double cold_us, const Problem& problem, bool today = true) {
    AttemptRecord attempt;
    attempt.recipe = to_string(recipe);
    attempt.source_hash = today ? sha256_hex(generate(recipe, problem, machine_)->source) : "another";
    Measurement measurement;
    measurement.cold.median_us = cold_us;
    attempt.verdict.outcome = verdict::Accepted{measurement};
    ASSERT_TRUE(archive_->record({problem, machine_, Target::cpu, 2}, attempt).ok());
  }
  std::vector<ChosenRecipe> choose(std::optional<Wisdom> wisdom = std::nullopt) {
    const RecipeSource source(machine_, Target::cpu, 2, std::move(wisdom), archive_.get(), false);
    const auto chosen = source.choose(problem_);
    EXPECT_TRUE(chosen.ok());
    return chosen ? *chosen : std::vector<ChosenRecipe>();
  }

  Machine machine_ = machine_of();
  Problem problem_{96, 64, 80, Layout::nn};
  std::vector<Recipe> starts_;
  std::unique_ptr<Archive> archive_;
};

TEST_F(SurveyRecipes, TakesTheFastestOfTheArchive) {
  record(starts_[0], 5, problem_);
  record(starts_[1], 3, problem_);
  record(starts_[2], 1, problem_);
  record(starts_[2], 4, problem_);  // the latest counts
  const auto chosen = choose();
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_EQ(chosen[0].recipe, starts_[1]);
  EXPECT_EQ(chosen[0].origin, "archive");
  EXPECT_DOUBLE_EQ(chosen[0].cold_us, 3);
  EXPECT_EQ(chosen[1].recipe, starts_[2]);
}

TEST_F(SurveyRecipes, PrefersTodaysSources) {
  record(starts_[0], 1, problem_, false);
  auto chosen = choose();
  ASSERT_FALSE(chosen.empty());
  EXPECT_EQ(chosen[0].recipe, starts_[0]);
  EXPECT_EQ(chosen[0].origin, "archive, of an earlier source");
  record(starts_[1], 3, problem_);
  chosen = choose();
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].recipe, starts_[1]);
}

TEST_F(SurveyRecipes, AsksWisdomAndThenTheOtherLayout) {
  Problem other = problem_;
  other.layout = Layout::tn;
  const auto both = std::find_if(starts_.begin(), starts_.end(),
                                 [&](const Recipe& recipe) { return is_legal(recipe, other, machine_); });
  ASSERT_NE(both, starts_.end());
  record(*both, 3, other);
  auto chosen = choose();
  ASSERT_FALSE(chosen.empty());
  EXPECT_EQ(chosen[0].recipe, *both);
  EXPECT_EQ(chosen[0].origin, "archive of tn");
  Wisdom wisdom(wisdom_header(machine_, Target::cpu, 2));
  WisdomEntry entry;
  entry.problem = problem_;
  entry.recipe = to_string(starts_[2]);
  entry.cold_us = 2;
  entry.pdl_recipe = "some";
  ASSERT_TRUE(wisdom.merge(entry));
  chosen = choose(wisdom);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].recipe, starts_[2]);
  EXPECT_EQ(chosen[0].origin, "wisdom");
  EXPECT_EQ(chosen[0].pdl_recipe, "some");
}

TEST_F(SurveyRecipes, FallsBackToStartingPoints) {
  const auto chosen = choose();
  ASSERT_FALSE(chosen.empty());
  EXPECT_EQ(chosen[0].recipe, starts_[0]);
  EXPECT_EQ(chosen[0].origin, "starting point");
}

TEST_F(SurveyRecipes, ChoicesOfBaselinesHoldOnTheirDeviceAlone) {
  const auto path = home_ / "choices" / "baselines.jsonl";
  const nlohmann::json choices = {{"nn", {"algorithm 7"}}};
  {
    auto file = BaselineChoiceFile::open(path, machine_of());
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->find(problem_).is_null());
    ASSERT_TRUE(file->keep(problem_, choices).ok());
    ASSERT_TRUE(file->keep(problem_, nullptr).ok());
  }
  std::ofstream(path, std::ios::app) << "{\"on\": cut sho";
  auto again = BaselineChoiceFile::open(path, machine_of());
  ASSERT_TRUE(again.ok()) << again.error().message;
  Problem other = problem_;
  other.layout = Layout::tn;
  EXPECT_EQ(again->find(other), choices);  // of the shape
  auto elsewhere = BaselineChoiceFile::open(path, machine_of("2"));
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_TRUE(elsewhere->find(problem_).is_null());
  std::ofstream(path) << "{}\n{}\n";
  EXPECT_FALSE(BaselineChoiceFile::open(path, machine_of()).ok());
}

}  // namespace
}  // namespace warpsmith::cli
