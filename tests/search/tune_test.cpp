// Tuning many problems: what is planned, what is passed on between neighbours, the schedule, resuming, interruption,
// and the end of a problem. A bench that judges by a function stands for compilers and devices.
#include "search/tune.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "base/hash.h"
#include "search/tune_finish.h"
#include "test_machine.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

std::vector<Problem> grid() {
  std::vector<Problem> problems;
  for (const std::int64_t m : {64, 128, 1024}) {
    for (const std::int64_t n : {64, 128}) {
      for (const Layout layout : {Layout::nn, Layout::tn}) problems.push_back({m, n, 64, layout});
    }
  }
  return problems;
}

Measurement timed(const std::string& subject, double time_us) {
  Measurement measurement;
  measurement.subject = subject;
  measurement.cold.median_us = measurement.warm.median_us = time_us;
  return measurement;
}

Verdict accepted(double time_us) {
  Verdict verdict;
  verdict.outcome = verdict::Accepted{timed("candidate", time_us)};
  verdict.gates = {{"exact", true, "", 0}};
  return verdict;
}

// Between 1 and 2, and always the same.
double time_of(const Problem& problem, const Recipe& recipe) {
  return 1 + static_cast<double>(hash64(to_string(problem) + to_string(recipe)) % 1000) / 1000;
}

class FakeBench : public TuneBench {
 public:
  int devices() const override { return device_count; }
  std::string source_of(const Problem& problem, const Recipe& recipe) const override {
    return sha256_hex(version + std::string(to_string(problem.layout)) + to_string(recipe));
  }
  std::optional<Verdict> build(const Problem& problem, const Recipe& recipe) override {
    const std::lock_guard lock(mutex);
    ++builds[source_of(problem, recipe)];
    return refuse ? refuse(recipe) : std::nullopt;
  }
  Verdict measure(int device, const Problem& problem, const Recipe& recipe, double best_us,
                  const TimingEffort& effort) override {
    std::this_thread::sleep_for(pause);
    const std::lock_guard lock(mutex);
    screened_only += effort.screening && effort.seconds == 0 ? 1 : 0;
    EXPECT_GT(builds[source_of(problem, recipe)], 0) << "measured before it was built";
    EXPECT_TRUE(measured.insert(to_string(problem) + " " + to_string(recipe)).second || again) << "measured twice";
    order.push_back(to_string(problem));
    devices_seen.insert(device);
    best_seen.push_back(best_us);
    if (on_measure) on_measure();
    if (fails && fails(device)) {
      measured.erase(to_string(problem) + " " + to_string(recipe));
      Verdict verdict;
      verdict.outcome = verdict::Failed{"the device is gone"};
      return verdict;
    }
    return judge ? judge(problem, recipe) : accepted(time_of(problem, recipe));
  }
  Result<Comparison> compare(int, const Problem& problem, const Recipe& recipe, const TimingEffort&,
                             std::optional<Verdict>* refusal) override {
    ++comparisons;
    if (refuse_comparison && refuse_comparison(recipe)) {
      refusal->emplace().outcome = verdict::Wrong{{"exact", false, "", 0}};
      return failure("the candidate fails gate exact on fresh data");
    }
    return Comparison{{timed("candidate", time_of(problem, recipe)), timed("blas-nn", 3), timed("blas-tn", 4)},
                      {{"exact", true, "", 0}},
                      std::nullopt,
                      {}};
  }

  std::mutex mutex;
  std::chrono::milliseconds pause{0};  // that a measurement takes
  std::string version = "1";
  int device_count = 1;
  bool again = false;
  int comparisons = 0, screened_only = 0;
  std::map<std::string, int> builds;
  std::set<std::string> measured;
  std::vector<std::string> order;
  std::vector<double> best_seen;
  std::set<int> devices_seen;
  std::function<void()> on_measure;
  std::function<Verdict(const Problem&, const Recipe&)> judge;
  std::function<std::optional<Verdict>(const Recipe&)> refuse;
  std::function<bool(const Recipe&)> refuse_comparison;
  std::function<bool(int)> fails;  // of a device: whether its next measurement does
};

class Tune : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-tune-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    auto archive = Archive::open(directory_ / "archive.sqlite");
    ASSERT_TRUE(archive.ok()) << archive.error().message;
    archive_ = std::move(*archive);
    plan_options_.problems = grid();
    plan_options_.machine = options_.machine = test_machine();
    plan_options_.first_batch = 3;
    plan_options_.batch = 6;
    options_.budget_seconds = 60;
    options_.build_jobs = 2;
    options_.quiet_while_measuring = false;
  }
  void TearDown() override {
    archive_.reset();
    fs::remove_all(directory_);
  }

  TunePlan make_plan() {
    auto plan = TunePlan::create(plan_options_);
    EXPECT_TRUE(plan.ok());
    return std::move(*plan);
  }
  Result<TuneResult> run(TunePlan& plan, FakeBench& bench) {
    return tune(
        plan, options_, bench, *archive_, [this](const TuneProgress& progress) { progress_ = progress; }, stop_);
  }
  std::set<std::string> recorded(const Problem& problem) {
    std::set<std::string> recipes;
    const auto history = archive_->summaries(options_.scope(problem));
    EXPECT_TRUE(history.ok());
    for (const auto& attempt : *history) recipes.insert(attempt.recipe);
    return recipes;
  }

  fs::path directory_;
  std::unique_ptr<Archive> archive_;
  TunePlanOptions plan_options_;
  TuneOptions options_;
  TuneProgress progress_;
  std::atomic<bool> stop_{false};
};

TEST_F(Tune, TimesOnlyLongKernelsInFull) {
  plan_options_.per_problem = 4;
  for (const double from_us : {0.0, 1e9}) {
    options_.full_from_us = from_us;
    FakeBench bench;
    TunePlan plan = make_plan();
    const auto result = run(plan, bench);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_GT(bench.measured.size(), 0u);
    EXPECT_EQ(bench.screened_only, from_us > 0 ? static_cast<int>(bench.measured.size()) : 0);
  }
}

TEST_F(Tune, RefusesAnUnknownPolicy) {
  plan_options_.policy = "oracle";
  const auto plan = TunePlan::create(plan_options_);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::bad_input);
}

TEST_F(Tune, BeginsWithEachFamilysBestGuess) {
  TunePlan plan = make_plan();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::vector<Recipe> batch = plan.next(i);
    ASSERT_EQ(batch.size(), 3u);
    EXPECT_EQ(batch.front(), cpu_family().starting_points(plan.problem(i), test_machine()).front());
    for (const Recipe& recipe : batch) EXPECT_TRUE(is_legal(recipe, plan.problem(i), test_machine()));
  }
}

TEST_F(Tune, PrefersStartingPointsWhoseSourceServesMany) {
  // Of one problem's later starting points, the last one has a source that all problems share.
  const auto starts = cpu_family().starting_points(grid().front(), test_machine());
  ASSERT_GT(starts.size(), 3u);
  plan_options_.source_of = [&](const Problem& problem, const Recipe& recipe) {
    return recipe == starts.back() ? std::string("shared") : to_string(problem) + to_string(recipe);
  };
  TunePlan plan = make_plan();
  const std::vector<Recipe> batch = plan.next(0);
  ASSERT_GE(batch.size(), 2u);
  EXPECT_EQ(batch[1], starts.back());
}

TEST_F(Tune, NeverProposesARecipeTwice) {
  TunePlan plan = make_plan();
  std::set<std::string> seen;
  for (int round = 0; round < 6; ++round) {
    for (const Recipe& recipe : plan.next(0)) {
      EXPECT_TRUE(seen.insert(to_string(recipe)).second) << to_string(recipe);
      plan.tell(0, recipe, {1.0 + round, "accepted"});
    }
  }
  EXPECT_GT(seen.size(), 20u);
}

TEST_F(Tune, TransfersTheBestOfTheNearestProblems) {
  TunePlan plan = make_plan();
  // 64x64x64 nn: its nearest is 128x64x64 or 64x128x64 in the same layout, the furthest 1024x128x64 tn.
  const auto& near = plan.neighbours(0);
  ASSERT_FALSE(near.empty());
  EXPECT_EQ(plan.problem(near.front()).layout, Layout::nn);
  EXPECT_EQ(plan.problem(near.front()).m + plan.problem(near.front()).n, 192);
  const auto starts = cpu_family().starting_points(plan.problem(0), test_machine());
  Recipe best = starts[0], second = starts[1], slow = starts[2];
  plan.tell(near.front(), slow, {9.0, "accepted"});
  plan.tell(near.front(), second, {1.05, "accepted"});
  plan.tell(near.front(), best, {1.0, "accepted"});
  const auto transfers = plan.transfers(0, 2);
  ASSERT_EQ(transfers.size(), 2u);
  EXPECT_EQ(transfers[0], best);
  EXPECT_EQ(transfers[1], second);
  // Those are not proposed again; one that is illegal here, or was rejected there, is not passed on.
  const auto more = plan.transfers(0, 2);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0], slow);
  plan.tell(near.front(), starts[3], {std::nullopt, "wrong"});
  EXPECT_TRUE(plan.transfers(0, 2).empty());
}

TEST_F(Tune, BeginsWithWhatWonOnANeighbour) {
  plan_options_.first_batch = 4;
  TunePlan plan = make_plan();
  const auto starts = cpu_family().starting_points(plan.problem(0), test_machine());
  ASSERT_GT(starts.size(), 4u);
  const Recipe& winner = starts.back();
  plan.tell(plan.neighbours(0).front(), winner, {1.0, "accepted"});
  const std::vector<Recipe> batch = plan.next(0);
  ASSERT_EQ(batch.size(), 4u);
  EXPECT_EQ(batch[0], winner);
  EXPECT_EQ(batch[1], starts.front());  // the family's best guess comes all the same
}

TEST_F(Tune, StopsAtTheLimitOfAProblem) {
  plan_options_.per_problem = 5;
  TunePlan plan = make_plan();
  FakeBench bench;
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->exhausted);
  for (const Problem& problem : grid()) EXPECT_EQ(recorded(problem).size(), 5u) << to_string(problem);
  EXPECT_EQ(result->progress.tried, 5 * static_cast<std::int64_t>(plan.size()));
  EXPECT_EQ(result->progress.covered, plan.size());
}

TEST_F(Tune, CoversAllProblemsBeforeItGoesDeeper) {
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.pause = std::chrono::milliseconds(2);  // a device that finds nothing else built goes deeper, as it should
  std::set<std::string> covered;
  bench.on_measure = [&] { stop_ = covered.insert(bench.order.back()).second && covered.size() == grid().size(); };
  ASSERT_TRUE(run(plan, bench).ok());
  // Until the last problem had its turn, no problem had more than its first batch and what came from neighbours.
  EXPECT_EQ(covered.size(), grid().size());
  for (const Problem& problem : grid()) {
    EXPECT_LE(std::count(bench.order.begin(), bench.order.end(), to_string(problem)), 3 + 4);
  }
  // All of a problem in one go.
  std::vector<std::string> visits = bench.order;
  visits.erase(std::unique(visits.begin(), visits.end()), visits.end());
  EXPECT_LE(visits.size(), grid().size() * 2);
}

TEST_F(Tune, BuildsASourceOnceAndSharesIt) {
  plan_options_.per_problem = 8;
  TunePlan plan = make_plan();
  FakeBench bench;
  ASSERT_TRUE(run(plan, bench).ok());
  for (const auto& [source, count] : bench.builds) EXPECT_EQ(count, 1);
  EXPECT_LT(bench.builds.size(), bench.measured.size());
}

TEST_F(Tune, PassesTheBestOnOnceItIsSettled) {
  plan_options_.problems = {grid().front()};
  plan_options_.per_problem = 8;
  TunePlan plan = make_plan();
  FakeBench bench;
  ASSERT_TRUE(run(plan, bench).ok());
  ASSERT_EQ(bench.best_seen.size(), 8u);
  EXPECT_DOUBLE_EQ(bench.best_seen[3], 0);
  EXPECT_GT(bench.best_seen[4], 0);
}

// Problem 0 is far short of its aim, the others are beyond theirs.
TEST_F(Tune, GivesTheMostTimeToWhatIsShortOfItsAim) {
  TunePlan plan = make_plan();
  options_.aims.assign(plan.size(), 1.2);
  options_.baseline_us.assign(plan.size(), 4);
  options_.baseline_us[0] = 1;
  FakeBench bench;
  bench.pause = std::chrono::milliseconds(2);  // measuring, not building, is what takes long
  bench.on_measure = [&] { stop_ = bench.order.size() == 240; };
  ASSERT_TRUE(run(plan, bench).ok());
  const auto measured = [&](std::size_t index) {
    return std::count(bench.order.begin(), bench.order.end(), to_string(plan.problem(index)));
  };
  for (std::size_t i = 1; i < plan.size(); ++i) {
    EXPECT_GT(measured(0), 2 * measured(i)) << to_string(plan.problem(i));
    EXPECT_GT(measured(i), 0) << to_string(plan.problem(i));
  }
}

TEST(TimeShare, GrowsWithTheShortfall) {
  EXPECT_DOUBLE_EQ(time_share(1.2, 1.2), 1);
  EXPECT_NEAR(time_share(1.0, 1.133), 2, 0.01);
  EXPECT_DOUBLE_EQ(time_share(0.5, 1.2), 4);
  EXPECT_DOUBLE_EQ(time_share(2.0, 1.2), 0.25);
}

TEST_F(Tune, ResumesWithoutRepeating) {
  plan_options_.per_problem = 4;
  FakeBench bench;  // refuses to measure anything twice
  {
    TunePlan plan = make_plan();
    ASSERT_TRUE(run(plan, bench).ok());
  }
  const std::size_t before = bench.measured.size();
  plan_options_.per_problem = 7;
  TunePlan plan = make_plan();
  const auto known = resume(plan, options_, bench, *archive_);
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(*known, static_cast<std::int64_t>(before));
  EXPECT_TRUE(plan.best_us(0).has_value());
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(bench.measured.size(), before + 3 * grid().size());
  EXPECT_EQ(result->progress.resumed, *known);
}

// The first of each problem's starting points, as its declared space.
std::vector<std::vector<Recipe>> small_spaces(std::size_t each) {
  std::vector<std::vector<Recipe>> spaces;
  for (const Problem& problem : grid()) {
    spaces.push_back(cpu_family().starting_points(problem, test_machine()));
    spaces.back().erase(spaces.back().begin() + static_cast<std::ptrdiff_t>(each), spaces.back().end());
  }
  return spaces;
}

TEST_F(Tune, MeasuresDeclaredSpacesWholeOneAfterTheOther) {
  plan_options_.spaces = small_spaces(4);
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.pause = std::chrono::milliseconds(10);  // all is built while the first one is measured
  bench.refuse = [&](const Recipe& recipe) {
    Verdict verdict;
    verdict.outcome = verdict::CompileError{"no"};
    return recipe == plan_options_.spaces[0][1] ? std::optional(verdict) : std::nullopt;
  };
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->exhausted);
  EXPECT_EQ(result->progress.exhausted, grid().size());
  EXPECT_EQ(result->progress.tried, 4 * static_cast<std::int64_t>(grid().size()));
  for (std::size_t i = 0; i < grid().size(); ++i) {
    std::set<std::string> declared;
    for (const Recipe& recipe : plan_options_.spaces[i]) declared.insert(to_string(recipe));
    EXPECT_EQ(recorded(grid()[i]), declared);
  }
  std::vector<std::string> visits = bench.order;
  visits.erase(std::unique(visits.begin(), visits.end()), visits.end());
  ASSERT_EQ(visits.size(), grid().size());
  std::vector<std::string> order;
  for (const Problem& problem : grid()) {
    if (to_string(problem) != visits.front()) order.push_back(to_string(problem));
  }
  EXPECT_EQ(std::vector<std::string>(visits.begin() + 1, visits.end()), order);
}

TEST_F(Tune, GoesOnWithADeclaredSpaceWhereItWasStopped) {
  plan_options_.spaces = small_spaces(5);
  FakeBench bench;  // refuses to measure anything twice
  bench.on_measure = [&] { stop_ = bench.order.size() == 13; };
  {
    TunePlan plan = make_plan();
    const auto result = run(plan, bench);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(result->interrupted);
    EXPECT_EQ(result->progress.tried, 13);
  }
  stop_ = false;
  bench.on_measure = nullptr;
  TunePlan plan = make_plan();
  EXPECT_EQ(resume(plan, options_, bench, *archive_).value(), 13) << "what was stopped is written";
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->exhausted);
  EXPECT_EQ(result->progress.tried, 5 * static_cast<std::int64_t>(grid().size()) - 13);
}

TEST_F(Tune, RecordsWhatOfADeclaredSpaceMakesNoKernel) {
  class Unable final : public FakeBench {
   public:
    std::string source_of(const Problem&, const Recipe&) const override { return {}; }
  };
  plan_options_.problems = {grid().front()};
  plan_options_.spaces = {small_spaces(3).front()};
  TunePlan plan = make_plan();
  Unable bench;
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->exhausted);
  EXPECT_EQ(result->by_kind.at("illegal"), 3);
  EXPECT_EQ(recorded(grid().front()).size(), 3u);
}

TEST_F(Tune, RefusesDeclaredSpacesOfOtherProblems) {
  plan_options_.spaces = {small_spaces(3).front()};
  EXPECT_FALSE(TunePlan::create(plan_options_).ok());
}

TEST_F(Tune, MeasuresAgainWhatAnotherSourceWon) {
  plan_options_.per_problem = 4;
  FakeBench bench;
  {
    TunePlan plan = make_plan();
    ASSERT_TRUE(run(plan, bench).ok());
  }
  bench.version = "2";  // the kernels have changed
  bench.again = true;
  TunePlan plan = make_plan();
  const auto known = resume(plan, options_, bench, *archive_);
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(*known, 0);
  EXPECT_FALSE(plan.best_us(0).has_value());
  const std::vector<Recipe> batch = plan.next(0);
  ASSERT_FALSE(batch.empty());
  double best_us = 9;
  std::string best;
  const auto history = archive_->summaries(options_.scope(plan.problem(0)));
  for (const auto& attempt : *history) {
    if (attempt.cold_us && *attempt.cold_us < best_us) {
      best_us = *attempt.cold_us;
      best = attempt.recipe;
    }
  }
  EXPECT_EQ(to_string(batch.front()), best);
}

TEST_F(Tune, InterruptionKeepsWhatWasMeasured) {
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.on_measure = [&] { stop_ = bench.order.size() == 17; };
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->interrupted);
  EXPECT_EQ(result->progress.tried, 17);
  EXPECT_EQ(*archive_->attempt_count(), 17);
}

TEST_F(Tune, SpreadsProblemsOverDevices) {
  plan_options_.per_problem = 6;
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.device_count = 3;
  bench.on_measure = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  ASSERT_TRUE(run(plan, bench).ok());
  EXPECT_EQ(bench.devices_seen, (std::set<int>{0, 1, 2}));
  for (const Problem& problem : grid()) EXPECT_EQ(recorded(problem).size(), 6u);
}

TEST_F(Tune, NothingIsBuiltWhileACpuIsTimed) {
  plan_options_.per_problem = 6;
  options_.quiet_while_measuring = true;
  TunePlan plan = make_plan();
  FakeBench bench;
  std::atomic<int> building{0}, overlaps{0};
  bench.refuse = [&](const Recipe&) -> std::optional<Verdict> {
    ++building;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --building;
    return std::nullopt;
  };
  bench.on_measure = [&] { overlaps += building > 0 ? 1 : 0; };
  ASSERT_TRUE(run(plan, bench).ok());
  EXPECT_EQ(overlaps, 0);
  for (const Problem& problem : grid()) EXPECT_EQ(recorded(problem).size(), 6u);
}

TEST_F(Tune, RecordsWhatCannotBeBuilt) {
  plan_options_.problems = {grid().front()};
  plan_options_.per_problem = 3;
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.refuse = [](const Recipe&) {
    Verdict verdict;
    verdict.outcome = verdict::CompileError{"too many registers"};
    return std::optional(verdict);
  };
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->by_kind.at("compile-error"), 3);
  EXPECT_TRUE(bench.measured.empty());
  EXPECT_EQ(result->progress.covered, 0u);
}

TEST_F(Tune, EndsWhenTheEnvironmentFails) {
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.judge = [](const Problem&, const Recipe&) {
    Verdict verdict;
    verdict.outcome = verdict::Failed{"the device is gone"};
    return verdict;
  };
  const auto result = run(plan, bench);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::environment);
  EXPECT_NE(result.error().message.find("the device is gone"), std::string::npos);
}

TEST_F(Tune, WhatADeviceCouldNotTryIsTriedAgain) {
  plan_options_.spaces = small_spaces(4);
  TunePlan plan = make_plan();
  FakeBench bench;
  int asked = 0;
  bench.fails = [&](int) { return ++asked % 3 == 1; };  // each third one, and none three times
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->exhausted);
  EXPECT_EQ(result->progress.unmeasured, 0);
  EXPECT_EQ(result->progress.exhausted, grid().size());
  EXPECT_EQ(result->by_kind.at("accepted"), 4 * static_cast<std::int64_t>(grid().size()));
}

TEST_F(Tune, ADeviceThatKeepsFailingLeavesTheWorkToTheOthers) {
  plan_options_.spaces = small_spaces(4);
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.device_count = 2;
  bench.pause = std::chrono::milliseconds(2);
  bench.fails = [](int device) { return device == 1; };
  const auto result = run(plan, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const auto failed = result->by_kind.find("failed");
  EXPECT_TRUE(failed == result->by_kind.end() || failed->second <= 5) << "then it is left alone";
  EXPECT_TRUE(result->exhausted);
  EXPECT_EQ(result->by_kind.at("accepted"), 4 * static_cast<std::int64_t>(grid().size()));
}

TEST_F(Tune, ReportsTheMeanOverKnownBaselines) {
  plan_options_.problems = {grid()[0], grid()[1]};
  plan_options_.per_problem = 3;
  options_.baseline_us = {4, 0};
  TunePlan plan = make_plan();
  FakeBench bench;
  bench.judge = [](const Problem&, const Recipe&) { return accepted(2); };
  ASSERT_TRUE(run(plan, bench).ok());
  EXPECT_EQ(progress_.compared, 1u);
  EXPECT_DOUBLE_EQ(progress_.geometric_mean, 2);
}

TEST_F(Tune, ReplaysRecordedVerdicts) {
  ReplayTable table(test_machine(), Target::cpu, 2);
  const Problem problem = grid().front();
  const auto starts = cpu_family().starting_points(problem, test_machine());
  ASSERT_TRUE(table.add(problem, to_string(starts[0]), {"accepted", 2.5, 2.0}).ok());
  plan_options_.problems = {problem};
  plan_options_.per_problem = 3;
  TunePlan plan = make_plan();
  const auto bench = make_replay_bench(table);
  const auto result = tune(
      plan, options_, *bench, *archive_, [](const TuneProgress&) {}, stop_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_DOUBLE_EQ(*plan.best_us(0), 2.5);
  EXPECT_EQ(result->by_kind.at("illegal"), 2);  // not recorded
}

class TuneFinish : public Tune {
 protected:
  void SetUp() override {
    Tune::SetUp();
    plan_options_.problems = {grid().front()};
    plan_options_.per_problem = 8;
    bench_.again = true;  // finalists are measured again
  }
  FinishOptions finish_;
  FakeBench bench_;
};

TEST_F(TuneFinish, ConcludesWithTheFastestAndRecordsIt) {
  finish_.provenance = [](int device) { return nlohmann::json{{"device", device}}; };
  TunePlan plan = make_plan();
  ASSERT_TRUE(run(plan, bench_).ok());
  const auto conclusion = finish_problem(plan, 0, 0, finish_, options_, bench_, *archive_);
  ASSERT_TRUE(conclusion.ok()) << conclusion.error().message;
  EXPECT_EQ(conclusion->recipe, to_string(plan.ranking(0).front().recipe));
  EXPECT_EQ(conclusion->subjects.size(), 3u);
  EXPECT_EQ(conclusion->considered.size(), 3u);
  const auto standing = standing_conclusion(plan, 0, finish_, options_, bench_, *archive_);
  ASSERT_TRUE(standing.ok());
  ASSERT_TRUE(standing->has_value());
  EXPECT_EQ((*standing)->recipe, conclusion->recipe);
  EXPECT_DOUBLE_EQ((*standing)->ours().cold.median_us, conclusion->ours().cold.median_us);
  EXPECT_EQ((*standing)->gates.size(), 1u);
  EXPECT_EQ((*standing)->provenance.at("device"), 0);
}

TEST_F(TuneFinish, AConclusionFallsWithItsSourceAndBeforeAFasterRecipe) {
  TunePlan plan = make_plan();
  ASSERT_TRUE(run(plan, bench_).ok());
  ASSERT_TRUE(finish_problem(plan, 0, 0, finish_, options_, bench_, *archive_).ok());
  bench_.version = "2";
  EXPECT_FALSE(standing_conclusion(plan, 0, finish_, options_, bench_, *archive_)->has_value());
  bench_.version = "1";
  EXPECT_TRUE(standing_conclusion(plan, 0, finish_, options_, bench_, *archive_)->has_value());
  plan.tell(0, plan.ranking(0).back().recipe, {0.5, "accepted"});
  EXPECT_FALSE(standing_conclusion(plan, 0, finish_, options_, bench_, *archive_)->has_value());
}

TEST_F(TuneFinish, ARefusedWinnerGivesWayToTheNext) {
  TunePlan plan = make_plan();
  ASSERT_TRUE(run(plan, bench_).ok());
  const Recipe first = plan.ranking(0)[0].recipe, second = plan.ranking(0)[1].recipe;
  bench_.refuse_comparison = [&](const Recipe& recipe) { return recipe == first; };
  const auto conclusion = finish_problem(plan, 0, 0, finish_, options_, bench_, *archive_);
  ASSERT_TRUE(conclusion.ok());
  EXPECT_EQ(conclusion->recipe, to_string(second));
  const auto best = archive_->best(options_.scope(plan.problem(0)));
  ASSERT_TRUE(best.ok() && best->has_value());
  EXPECT_NE((*best)->recipe, to_string(first)) << "what was refused was recorded";
  bench_.refuse_comparison = [](const Recipe&) { return true; };
  const auto none = finish_problem(plan, 0, 0, finish_, options_, bench_, *archive_);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::failed);
  EXPECT_NE(none.error().message.find("fails gate exact"), std::string::npos);
}

TEST_F(TuneFinish, WithoutBaselinesNothingIsCompared) {
  TunePlan plan = make_plan();
  ASSERT_TRUE(run(plan, bench_).ok());
  finish_.baselines = false;
  const auto conclusion = finish_problem(plan, 0, 0, finish_, options_, bench_, *archive_);
  ASSERT_TRUE(conclusion.ok());
  EXPECT_EQ(bench_.comparisons, 0);
  EXPECT_EQ(conclusion->subjects.size(), 1u);
  finish_.baselines = true;  // which that conclusion lacks
  EXPECT_FALSE(standing_conclusion(plan, 0, finish_, options_, bench_, *archive_)->has_value());
}

}  // namespace
}  // namespace warpsmith
