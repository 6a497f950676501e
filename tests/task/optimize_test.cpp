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
      "  for (volatile int i = 0; i < 1; ++i) honest(t, t.count / 16);\n  honest(t, t.count);\n}\n";
  const std::vector<TaskCandidate> candidates = {candidate(often), candidate(once)};
  // Each by itself: in a search the second could be given up as too slow beside the first.
  for (const TaskCandidate& one : candidates) {
    const TaskOutcome outcome = session_->evaluate(one, 0, {0.05, 5});
    ASSERT_NE(outcome.verdict.accepted(), nullptr) << outcome.verdict.describe();
    ASSERT_TRUE(record_attempt(**archive, *session_, one, outcome, "tuned", 1).ok());
  }
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

Verdict evaluate_for(const std::unique_ptr<TaskSession>& session, const std::string& source, const std::string& entry,
                     const std::string& fields = "") {
  const auto parsed = session->parse(
      source, R"({"warpsmith_candidate": 1, "source": "x.cpp", "entry": ")" + entry + "\"" + fields + "}");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  TimingEffort effort;
  effort.seconds = 0.02;
  return session->evaluate(*parsed, 0, effort).verdict;
}

// One pass over a row, in which the square of a large mean is subtracted from the mean of large squares.
TEST_F(OptimizeTaskTest, AVarianceThatCancelsIsWrong) {
  const auto session = open(std::filesystem::path(WARPSMITH_TASKS) / "layernorm");
  ASSERT_NE(session, nullptr);
  const std::string kernel = R"(#include <cmath>
extern "C" void layernorm(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* x = t.x + row * t.columns;
    SUM sums[16] = {}, squares[16] = {};
    for (std::int64_t i = 0; i < t.columns; ++i) {
      const SUM value = static_cast<SUM>(x[i]);
      sums[i % 16] += value;
      squares[i % 16] += value * value;
    }
    for (int i = 1; i < 16; ++i) { sums[0] += sums[i]; squares[0] += squares[i]; }
    const SUM mean = sums[0] / t.columns;
    const float variance = static_cast<float>(squares[0] / t.columns - mean * mean);
    const float factor = 1 / std::sqrt((variance < 0 ? 0 : variance) + static_cast<float>(t.epsilon));
    for (std::int64_t i = 0; i < t.columns; ++i) {
      const float y = (static_cast<float>(x[i]) - static_cast<float>(mean)) * factor;
      t.y[row * t.columns + i] = static_cast<f16>(y * static_cast<float>(t.weight[i]) + static_cast<float>(t.bias[i]));
    }
  }
})";
  const Verdict single = evaluate_for(session, "#define SUM float\n" + kernel, "layernorm");
  const auto* wrong = std::get_if<verdict::Wrong>(&single.outcome);
  ASSERT_NE(wrong, nullptr) << single.describe();
  EXPECT_EQ(wrong->gate.gate, "bound/offset") << "and no other data show it: " << single.describe();
  const Verdict twice = evaluate_for(session, "#define SUM double\n" + kernel, "layernorm");
  EXPECT_NE(twice.accepted(), nullptr) << "the same in double precision is right: " << twice.describe();
}

// As one that begins with 0, in place of the least value, in a list of the best.
TEST_F(OptimizeTaskTest, ATopKThatForgetsNegativeValuesIsWrong) {
  const auto session = open(std::filesystem::path(WARPSMITH_TASKS) / "top_k");
  ASSERT_NE(session, nullptr);
  const std::string kernel = R"(
extern "C" void top_k(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* x = t.x + row * t.columns;
    auto* taken = static_cast<char*>(t.workspace);
    for (std::int64_t i = 0; i < t.columns; ++i) taken[i] = 0;
    for (std::int64_t n = 0; n < t.k; ++n) {
      float best = LEAST;
      std::int64_t at = 0;
      for (std::int64_t i = 0; i < t.columns; ++i) {
        if (taken[i] || !(static_cast<float>(x[i]) > best)) continue;
        best = static_cast<float>(x[i]);
        at = i;
      }
      taken[at] = 1;
      t.values[row * t.k + n] = x[at];
      t.indices[row * t.k + n] = static_cast<std::int32_t>(at);
    }
  }
})";
  const std::string fields = R"(, "workspace_bytes": "columns")";
  const Verdict wrong = evaluate_for(session, "#define LEAST -0x1p-24f\n" + kernel, "top_k", fields);
  EXPECT_TRUE(std::holds_alternative<verdict::Wrong>(wrong.outcome)) << wrong.describe();
  EXPECT_NE(wrong.describe().find("k=16"), std::string::npos) << wrong.describe();
  const Verdict right = evaluate_for(session, "#define LEAST -1e30f\n" + kernel, "top_k", fields);
  EXPECT_NE(right.accepted(), nullptr) << right.describe();
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
