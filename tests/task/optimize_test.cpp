// The search on a task end to end on the CPU: shipped references give known values, shipped candidates are accepted,
// what was tried is kept and not tried again.
#include "task/optimize.h"

#include <cmath>

#include "archive/archive.h"
#include "fixture.h"
#include "task/finish.h"

namespace warpsmith::task {
namespace {

class OptimizeTaskTest : public SessionTest {};

TEST_F(OptimizeTaskTest, SearchesRecordsAndResumes) {
  const auto archive_path = directory_ / "archive.sqlite";
  auto archive = Archive::open(archive_path);
  ASSERT_TRUE(archive.ok());
  const std::string fields = R"(, "tune": {"UNROLL": [1, 2, 4]})";
  const std::string honest =
      std::string(kHonest) + "extern \"C\" void scale(const Arguments& t) { honest(t, t.count); }\n";
  const std::string lazy = "extern \"C\" void scale(const Arguments& t) { t.y[0] = UNROLL; }\n";
  const std::vector<TaskCandidate> candidates = {candidate(honest + "// UNROLL\n", fields), candidate(lazy, fields)};
  const std::atomic<bool> stop{false};
  OptimizeTaskOptions options;
  options.max_candidates = 4;
  int notices = 0;
  const auto first = optimize_task(
      *session_, candidates, **archive, options, [&](const TaskProgress&) { ++notices; }, stop);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->tried, 4);
  EXPECT_EQ(notices, 4);
  EXPECT_GE(first->by_kind.at("accepted"), 1);
  EXPECT_GE(first->by_kind.at("wrong"), 1);
  ASSERT_TRUE(first->best.has_value());
  ASSERT_TRUE(first->winner.has_value());
  EXPECT_EQ(first->winner->identity(), first->best->recipe);
  // The other combinations, and no one twice: six in all.
  options.max_candidates = 0;
  const auto second = optimize_task(
      *session_, candidates, **archive, options, [](const TaskProgress&) {}, stop);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->resumed, 4);
  EXPECT_EQ(second->tried, 2);
  EXPECT_TRUE(second->exhausted);
  const auto scopes = (*archive)->task_scopes();
  ASSERT_TRUE(scopes.ok());
  ASSERT_EQ(scopes->size(), 1U);
  EXPECT_EQ(scopes->front().task, session_->task().identity);
  EXPECT_TRUE((*archive)->scopes()->empty());  // no matrix product among them
  const auto history = (*archive)->history(scopes->front());
  ASSERT_TRUE(history.ok());
  ASSERT_EQ(history->size(), 6U);
  EXPECT_EQ(history->front().policy, "tuned");
  EXPECT_EQ(history->front().recipe.substr(0, 5), "free ");
}

SanitizerReport sanitizer_says(SanitizerCheck::Outcome outcome) {
  SanitizerReport report;
  report.checks = {{"memcheck", SanitizerCheck::Outcome::passed, "", 0}, {"racecheck", outcome, "a race", 0}};
  return report;
}

TEST_F(OptimizeTaskTest, AFinalistWithAFindingIsPassedOver) {
  auto archive = Archive::open(directory_ / "finish.sqlite");
  ASSERT_TRUE(archive.ok());
  const std::string once =
      std::string(kHonest) + "extern \"C\" void scale(const Arguments& t) { honest(t, t.count); }\n";
  const std::string often =
      std::string(kHonest) +
      "extern \"C\" void scale(const Arguments& t) {\n"
      "  for (volatile int i = 0; i < 1; ++i) honest(t, t.count / 2);\n  honest(t, t.count);\n}\n";
  const std::vector<TaskCandidate> candidates = {candidate(often), candidate(once)};
  const std::atomic<bool> stop{false};
  OptimizeTaskOptions search;
  search.max_candidates = 2;
  const auto found = optimize_task(
      *session_, candidates, **archive, search, [](const TaskProgress&) {}, stop);
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->by_kind.at("accepted"), 2);
  std::vector<std::string> watched;
  FinishOptions options;
  options.seconds = 0.05;
  options.sanitize = [&](const TaskCandidate& one) {
    watched.push_back(one.identity());
    return sanitizer_says(watched.size() == 1 ? SanitizerCheck::Outcome::failed : SanitizerCheck::Outcome::not_run);
  };
  const auto silent = [](const std::string&) {};
  const auto second = finish(*session_, **archive, candidates, options, silent);
  ASSERT_TRUE(second.ok()) << second.error().message;
  ASSERT_EQ(watched.size(), 2U);
  EXPECT_NE(watched[0], watched[1]);
  EXPECT_EQ(second->winner.identity(), watched[1]);
  ASSERT_NE(second->verdict.accepted(), nullptr);
  EXPECT_EQ(second->sanitizer.checks.at(1).outcome, SanitizerCheck::Outcome::not_run);
  // The finding is a row, and what was wrong once is no finalist again.
  const auto history = (*archive)->history(session_->scope());
  ASSERT_TRUE(history.ok());
  ASSERT_EQ(history->size(), 5U);  // two tried, two measured again, the finding
  EXPECT_EQ(history->back().recipe, watched[0]);
  EXPECT_EQ(history->back().policy, "finalist");
  EXPECT_EQ(history->back().verdict.describe(), "wrong (gate sanitizer/racecheck): a race");
  options.sanitize = [&](const TaskCandidate& one) {
    EXPECT_EQ(one.identity(), watched[1]);
    return sanitizer_says(SanitizerCheck::Outcome::failed);
  };
  const auto none = finish(*session_, **archive, candidates, options, silent);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::failed);
  EXPECT_NE(none.error().message.find("sanitizer/racecheck"), std::string::npos) << none.error().message;
}

TEST_F(OptimizeTaskTest, ATaskWithoutCandidatesSaysSo) {
  auto archive = Archive::open(directory_ / "empty.sqlite");
  ASSERT_TRUE(archive.ok());
  const std::atomic<bool> stop{false};
  const auto result = optimize_task(
      *session_, {}, **archive, {}, [](const TaskProgress&) {}, stop);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
}

TEST_F(OptimizeTaskTest, ShippedCandidatesForTheCpuAreAccepted) {
  int accepted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WARPSMITH_TASKS)) {
    if (!entry.is_directory()) continue;
    const auto session = open(entry.path());
    ASSERT_NE(session, nullptr);
    const auto candidates = load_candidates(session->task(), entry.path() / "candidates", Target::cpu);
    ASSERT_TRUE(candidates.ok()) << candidates.error().message;
    EXPECT_FALSE(candidates->empty()) << entry.path();
    for (const TaskCandidate& one : *candidates) {
      TimingEffort effort;
      effort.seconds = 0.02;
      const Verdict verdict = session->evaluate(one, 0, effort).verdict;
      EXPECT_NE(verdict.accepted(), nullptr) << entry.path() << " " << one.short_name() << ": " << verdict.describe();
      accepted += verdict.accepted() != nullptr ? 1 : 0;
    }
  }
  EXPECT_GE(accepted, 12);
}

}  // namespace
}  // namespace warpsmith::task
