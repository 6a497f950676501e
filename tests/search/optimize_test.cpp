// The optimise loop over scripted trials: budgets, resuming, stopping, and what reaches the archive.
#include "search/optimize.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <set>

#include "test_machine.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

Verdict accepted(double time_us) {
  Measurement measurement;
  measurement.subject = "candidate";
  measurement.cold.median_us = measurement.warm.median_us = time_us;
  Verdict verdict;
  verdict.outcome = verdict::Accepted{measurement};
  return verdict;
}

// Judges by a function; counts what it was asked.
class ScriptedTrials : public Trials {
 public:
  explicit ScriptedTrials(std::function<Verdict(int)> judge) : machine_(test_machine()), judge_(std::move(judge)) {}
  const Machine& machine() const override { return machine_; }
  int wanted() const override { return queue_.size() < 3 ? 1 : 0; }
  void submit(const Recipe& recipe) override {
    queue_.push_back(recipe);
    submitted.insert(to_string(recipe));
    ++submissions;
  }
  bool pending() const override { return !queue_.empty(); }
  Trial next(double best_us) override {
    best_seen.push_back(best_us);
    Trial trial{queue_.front(), judge_(judged_++), {}, 0};
    queue_.erase(queue_.begin());
    return trial;
  }

  std::set<std::string> submitted;
  std::vector<double> best_seen;
  int submissions = 0;

 private:
  Machine machine_;
  std::function<Verdict(int)> judge_;
  std::vector<Recipe> queue_;
  int judged_ = 0;
};

class Optimize : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-search-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    auto archive = Archive::open(directory_ / "archive.sqlite");
    ASSERT_TRUE(archive.ok()) << archive.error().message;
    archive_ = std::move(*archive);
    options_.scope = {{.m = 64, .n = 64, .k = 64}, test_machine(), Target::cpu, 2};
  }
  void TearDown() override {
    archive_.reset();
    fs::remove_all(directory_);
  }

  Result<OptimizeResult> run(ScriptedTrials& trials) {
    return optimize(
        options_, trials, *archive_, [this](const OptimizeProgress& progress) { progress_ = progress; }, stop_);
  }

  fs::path directory_;
  std::unique_ptr<Archive> archive_;
  OptimizeOptions options_;
  OptimizeProgress progress_;
  std::atomic<bool> stop_{false};
};

TEST_F(Optimize, StopsAtTheNumberOfCandidatesAndRecordsEach) {
  options_.max_candidates = 7;
  ScriptedTrials trials([](int i) { return accepted(10.0 + (i == 3 ? -5 : i)); });
  const auto result = run(trials);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tried, 7);
  EXPECT_EQ(trials.submissions, 7);
  EXPECT_EQ(trials.submitted.size(), 7u);  // none twice
  ASSERT_TRUE(result->best.has_value());
  EXPECT_DOUBLE_EQ(result->best->cold_us, 5.0);
  EXPECT_EQ(*archive_->attempt_count(), 7);
  EXPECT_EQ(progress_.tried, 7);
  EXPECT_DOUBLE_EQ(*progress_.best_us, 5.0);
  // The best so far is handed on for the early stop.
  EXPECT_DOUBLE_EQ(trials.best_seen[0], 0.0);
  EXPECT_DOUBLE_EQ(trials.best_seen[6], 5.0);
}

TEST_F(Optimize, ResumesWithoutRepeating) {
  options_.max_candidates = 5;
  ScriptedTrials first([](int i) { return accepted(20.0 - i); });
  ASSERT_TRUE(run(first).ok());
  ScriptedTrials second([](int) { return accepted(30.0); });
  const auto result = run(second);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->resumed, 5);
  EXPECT_EQ(result->by_kind.at("accepted"), 10);
  EXPECT_DOUBLE_EQ(result->best->cold_us, 16.0);
  EXPECT_DOUBLE_EQ(second.best_seen[0], 16.0);
  for (const std::string& recipe : second.submitted) EXPECT_EQ(first.submitted.count(recipe), 0u) << recipe;
}

TEST_F(Optimize, CountsRejectionsByKindAndGate) {
  options_.max_candidates = 4;
  ScriptedTrials trials([](int i) -> Verdict {
    Verdict verdict;
    if (i == 0) {
      verdict.outcome = verdict::Wrong{{"exact", false, "row 0, column 0", 0}};
    } else if (i == 1) {
      verdict.outcome = verdict::Crashed{"gates", "signal 11"};
    } else if (i == 2) {
      verdict.outcome = verdict::TooSlow{30, 3};
    } else {
      return accepted(1.0);
    }
    return verdict;
  });
  const auto result = run(trials);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->by_kind.at("wrong"), 1);
  EXPECT_EQ(result->by_kind.at("crashed"), 1);
  EXPECT_EQ(result->by_kind.at("too-slow"), 1);
  EXPECT_EQ(result->by_kind.at("accepted"), 1);
  EXPECT_EQ(result->wrong_by_gate.at("exact"), 1);
}

TEST_F(Optimize, GivesUpWhenTheEnvironmentKeepsFailing) {
  options_.max_candidates = 50;
  ScriptedTrials trials([](int) {
    Verdict verdict;
    verdict.outcome = verdict::Failed{"the device is gone"};
    return verdict;
  });
  const auto result = run(trials);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::environment);
  EXPECT_NE(result.error().message.find("the device is gone"), std::string::npos);
}

TEST_F(Optimize, StopsWhenInterruptedAndKeepsWhatWasJudged) {
  ScriptedTrials trials([this](int i) {
    if (i == 2) stop_ = true;
    return accepted(5.0);
  });
  const auto result = run(trials);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->interrupted);
  EXPECT_EQ(result->tried, 3);
  EXPECT_EQ(*archive_->attempt_count(), 3);
}

TEST_F(Optimize, StopsWhenTheBudgetIsSpent) {
  options_.budget_seconds = 1e-9;
  ScriptedTrials trials([](int) { return accepted(5.0); });
  const auto result = run(trials);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tried, 0);
  EXPECT_FALSE(result->best.has_value());
}

TEST_F(Optimize, RefusesAnUnknownPolicy) {
  options_.policy = "oracle";
  ScriptedTrials trials([](int) { return accepted(5.0); });
  const auto result = run(trials);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
}

}  // namespace
}  // namespace warpsmith
