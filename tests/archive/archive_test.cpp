// What is recorded comes back, per scope, in order, and ranked.
#include "archive/archive.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <regex>
#include <thread>

#include "fixtures.h"

namespace warpsmith {
namespace {

using testing::make_accepted;
using testing::make_rejected;
using testing::make_scope;
using testing::open_archive;
using testing::TemporaryDirectory;

class ArchiveTest : public ::testing::Test {
 protected:
  void record(const Archive::Scope& scope, const AttemptRecord& attempt) {
    const Status status = archive_->record(scope, attempt);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  void reopen() {
    archive_.reset();
    archive_ = open_archive(path_);
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "archive.db";
  std::unique_ptr<Archive> archive_ = open_archive(path_);
  Archive::Scope scope_ = make_scope();
};

TEST_F(ArchiveTest, NewArchiveIsEmpty) {
  EXPECT_EQ(archive_->attempt_count().value(), 0);
  EXPECT_FALSE(archive_->best(scope_).value().has_value());
  EXPECT_TRUE(archive_->history(scope_).value().empty());
  EXPECT_TRUE(archive_->summaries(scope_).value().empty());
  EXPECT_TRUE(archive_->buckets(scope_, 10, 0.1).value().empty());
  EXPECT_FALSE(archive_->last_comparison(scope_).value().has_value());
  EXPECT_TRUE(archive_->scopes().value().empty());
  EXPECT_TRUE(archive_->check_integrity().ok());
}

TEST_F(ArchiveTest, WhatWasEverFoundWrongDoesNotStand) {
  const auto rejected = [](const char* recipe, const char* source, auto outcome) {
    AttemptRecord attempt = make_rejected(recipe);
    attempt.source_hash = source;
    attempt.verdict.outcome = std::move(outcome);
    return attempt;
  };
  const auto accepted = [](const char* recipe, const char* source, double cold_us) {
    AttemptRecord attempt = make_accepted(recipe, cold_us);
    attempt.source_hash = source;
    return attempt;
  };
  record(scope_, accepted("racy", "1", 1));
  record(scope_, rejected("racy", "1", verdict::Wrong{{"sanitizer/racecheck", false, "", 0}}));
  record(scope_, accepted("racy", "1", 1.1));
  record(scope_, accepted("mended", "2", 2));
  record(scope_, rejected("mended", "1", verdict::Wrong{}));
  record(scope_, accepted("imported", "", 3));
  record(scope_, rejected("imported", "1", verdict::Crashed{"gates", "illegal address"}));
  record(scope_, accepted("doubted", "1", 4));
  record(scope_, rejected("doubted", "1", verdict::Suspicious{"too fast", 0.1}));
  record(scope_, accepted("slow later", "1", 5));
  record(scope_, rejected("slow later", "1", verdict::TooSlow{6, 5}));
  const auto best = archive_->best(scope_).value();
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->recipe, "mended");
  std::vector<std::string> standing, in_buckets;
  const auto summaries = archive_->summaries(scope_).value();
  for (const AttemptSummary& attempt : summaries) {
    if (attempt.cold_us) standing.push_back(attempt.recipe);
  }
  EXPECT_EQ(standing, (std::vector<std::string>{"mended", "slow later"}));
  EXPECT_EQ(summaries.size(), 11u) << "nothing is forgotten";
  const auto buckets = archive_->buckets(scope_, 10, 1).value();
  for (const Bucket& bucket : buckets) {
    for (const AttemptRecord& attempt : bucket.attempts) in_buckets.push_back(attempt.recipe);
  }
  EXPECT_EQ(in_buckets, standing);
}

TEST_F(ArchiveTest, HistoryReturnsEveryFieldInOrder) {
  AttemptRecord first = make_rejected("cpu tile=1x2");
  first.verdict.gates = {{"bound/normal", false, "row 3, column 4: 1 instead of 2", 17.5}};
  first.seed = std::numeric_limits<std::uint64_t>::max();
  record(scope_, first);
  record(scope_, make_accepted("cpu tile=2x2", 12.5));
  reopen();
  const auto history = archive_->history(scope_).value();
  ASSERT_EQ(history.size(), 2u);
  EXPECT_LT(history[0].id, history[1].id);
  EXPECT_EQ(history[0].recipe, "cpu tile=1x2");
  EXPECT_EQ(history[0].source_hash, "");
  EXPECT_EQ(history[0].policy, "random");
  EXPECT_EQ(history[0].seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(history[0].verdict.kind(), "compile-error");
  ASSERT_EQ(history[0].verdict.gates.size(), 1u);
  EXPECT_EQ(history[0].verdict.gates[0].gate, "bound/normal");
  EXPECT_EQ(history[0].verdict.gates[0].worst_error, 17.5);
  EXPECT_EQ(history[1].source_hash, "abc123");
  ASSERT_NE(history[1].verdict.accepted(), nullptr);
  EXPECT_EQ(history[1].verdict.accepted()->measurement.cold.median_us, 12.5);
  EXPECT_EQ(history[1].verdict.accepted()->measurement.cold.samples, 9);
  EXPECT_TRUE(std::regex_match(history[1].created, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")))
      << history[1].created;
}

TEST_F(ArchiveTest, SummariesMatchHistory) {
  record(scope_, make_accepted("a", 3));
  record(scope_, make_rejected("b"));
  const auto summaries = archive_->summaries(scope_).value();
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries[0].recipe, "a");
  EXPECT_EQ(summaries[0].kind, "accepted");
  EXPECT_EQ(summaries[0].cold_us, 3.0);
  EXPECT_EQ(summaries[1].kind, "compile-error");
  EXPECT_FALSE(summaries[1].cold_us.has_value());
}

TEST_F(ArchiveTest, BestIsTheFastestAccepted) {
  record(scope_, make_accepted("slow", 20));
  record(scope_, make_accepted("fast", 10));
  record(scope_, make_accepted("equally fast, later", 10));
  record(scope_, make_rejected("broken"));
  const auto best = archive_->best(scope_).value();
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->recipe, "fast");
  EXPECT_EQ(best->cold_us, 10);
  EXPECT_EQ(best->attempt.recipe, "fast");
  EXPECT_EQ(best->attempt.verdict.kind(), "accepted");
}

TEST_F(ArchiveTest, TimesThatAreNoNumbersNeverWin) {
  record(scope_, make_accepted("nan", std::nan("")));
  record(scope_, make_accepted("zero", 0));
  record(scope_, make_accepted("real", 5));
  EXPECT_EQ(archive_->best(scope_).value()->recipe, "real");
  EXPECT_EQ(archive_->attempt_count().value(), 3);
}

TEST_F(ArchiveTest, ScopesAreApart) {
  std::vector<Archive::Scope> scopes(5, scope_);
  scopes[1].problem.layout = Layout::tn;
  scopes[2].machine.name = "Another CPU";
  scopes[3].threads = 2;
  scopes[4].problem.accumulator = AccumulatorType::f16;
  for (std::size_t i = 0; i < scopes.size(); ++i) record(scopes[i], make_accepted(fmt::format("r{}", i), 1));
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    const auto history = archive_->history(scopes[i]).value();
    ASSERT_EQ(history.size(), 1u);
    EXPECT_EQ(history[0].recipe, fmt::format("r{}", i));
  }
  EXPECT_EQ(archive_->attempt_count().value(), 5);
}

TEST_F(ArchiveTest, ANewDriverKeepsTheScope) {
  record(scope_, make_accepted("before", 1));
  Archive::Scope updated = scope_;
  updated.machine.versions["c++"] = "13.1";
  updated.machine.peak_gflops = 120;
  record(updated, make_accepted("after", 2));
  EXPECT_EQ(archive_->history(scope_).value().size(), 2u);
  const auto scopes = archive_->scopes().value();
  ASSERT_EQ(scopes.size(), 1u);
  EXPECT_EQ(scopes[0].problem, scope_.problem);
  EXPECT_EQ(scopes[0].machine.id(), scope_.machine.id());
  EXPECT_EQ(scopes[0].machine.versions.at("c++"), "13.1");
  EXPECT_EQ(scopes[0].machine.peak_gflops, 120);
}

TEST_F(ArchiveTest, ThreadsDoNotSplitCudaScopes) {
  Archive::Scope scope = scope_;
  scope.target = Target::sm90;
  scope.threads = 8;
  record(scope, make_accepted("a", 1));
  scope.threads = 1;
  EXPECT_EQ(archive_->history(scope).value().size(), 1u);
}

TEST_F(ArchiveTest, BucketsRankBySpeedUp) {
  for (const double cold_us : {10.0, 5.0, 4.9, 20.0, 9.9}) {
    record(scope_, make_accepted(std::to_string(cold_us), cold_us));
  }
  record(scope_, make_rejected("broken"));
  const auto buckets = archive_->buckets(scope_, 10, 0.25).value();  // speed-ups 1, 2, 2.04, 0.5, 1.01
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_DOUBLE_EQ(buckets[0].low, 2.0);
  EXPECT_DOUBLE_EQ(buckets[0].high, 2.25);
  ASSERT_EQ(buckets[0].attempts.size(), 2u);
  EXPECT_EQ(buckets[0].attempts[0].verdict.accepted()->measurement.cold.median_us, 4.9);
  EXPECT_EQ(buckets[0].attempts[1].verdict.accepted()->measurement.cold.median_us, 5.0);
  EXPECT_DOUBLE_EQ(buckets[1].low, 1.0);
  EXPECT_EQ(buckets[1].attempts.size(), 2u);
  EXPECT_DOUBLE_EQ(buckets[2].low, 0.5);
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    EXPECT_EQ(archive_->buckets(scope_, bad, 0.1).error().kind, ErrorKind::bad_input);
    EXPECT_EQ(archive_->buckets(scope_, 10, bad).error().kind, ErrorKind::bad_input);
  }
}

TEST_F(ArchiveTest, LastComparisonWins) {
  ASSERT_TRUE(archive_->record_comparison(scope_, {"a", {{"speedup", 1.5}}, ""}).ok());
  ASSERT_TRUE(archive_->record_comparison(scope_, {"b", {{"speedup", 1.75}, {"rows", {1, 2}}}, ""}).ok());
  reopen();
  const auto comparison = archive_->last_comparison(scope_).value();
  ASSERT_TRUE(comparison.has_value());
  EXPECT_EQ(comparison->recipe, "b");
  EXPECT_EQ(comparison->result, (nlohmann::json{{"speedup", 1.75}, {"rows", {1, 2}}}));
  EXPECT_FALSE(comparison->created.empty());
}

TEST_F(ArchiveTest, KeepsCompilerMessagesThatAreNotUtf8) {
  record(scope_, make_rejected("r", "stray byte \xff\xfe in \"source\"\n"));
  const auto history = archive_->history(scope_).value();
  ASSERT_EQ(history.size(), 1u);
  const auto& message = std::get<verdict::CompileError>(history[0].verdict.outcome).message;
  EXPECT_NE(message.find("stray byte"), std::string::npos);
}

TEST_F(ArchiveTest, InfiniteErrorsDoNotMakeTheArchiveUnreadable) {
  AttemptRecord attempt = make_rejected("r");
  attempt.verdict.gates = {{"bound/normal", false, "inf", std::numeric_limits<double>::infinity()},
                           {"exact", false, "nan", std::nan("")}};
  record(scope_, attempt);
  const auto history = archive_->history(scope_);
  ASSERT_TRUE(history.ok()) << history.error().message;
  EXPECT_EQ(history->at(0).verdict.gates.size(), 2u);
}

TEST_F(ArchiveTest, OpensInMissingDirectories) {
  const auto path = directory_ / "a/b/c/archive.db";
  const auto archive = Archive::open(path);
  ASSERT_TRUE(archive.ok()) << archive.error().message;
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(ArchiveTest, ServesSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 25; ++i) {
        EXPECT_TRUE(archive_->record(scope_, make_accepted(fmt::format("t{}", t), 1 + i)).ok());
        EXPECT_TRUE(archive_->best(scope_).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(archive_->attempt_count().value(), 100);
}

TEST_F(ArchiveTest, KeepsFreeFormsUnderTheirNames) {
  ASSERT_TRUE(archive_->record_free_form({"free 12", "source\n", "{}"}).ok());
  ASSERT_TRUE(archive_->record_free_form({"free 12", "source\n", "{}"}).ok()) << "again";
  const auto found = archive_->find_free_form("free 12");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->source, "source\n");
  EXPECT_EQ((*found)->descriptor, "{}");
  EXPECT_FALSE(archive_->find_free_form("free 13")->has_value());
}

TEST_F(ArchiveTest, KeepsExchangesWithModels) {
  ExchangeRecord sent;
  sent.purpose = "propose";
  sent.url = "http://localhost/v1";
  sent.model = "small";
  sent.messages = {{{"role", "user"}, {"content", "stray byte \xff"}}};
  sent.reply = "## Code";
  sent.finish_reason = "stop";
  sent.prompt_tokens = 12;
  sent.completion_tokens = 3;
  sent.tokens_estimated = true;
  sent.attempts = 2;
  sent.seconds = 1.5;
  sent.cost = 0.25;
  sent.name = "free 12";
  sent.outcome = "wrong";
  ASSERT_TRUE(archive_->record_exchange(scope_, sent).ok());
  sent.purpose = "repair";
  sent.error = "timed out";
  ASSERT_TRUE(archive_->record_exchange(scope_, sent).ok());
  const auto kept = archive_->exchanges(scope_);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  ASSERT_EQ(kept->size(), 2u);
  const ExchangeRecord& first = kept->front();
  EXPECT_EQ(first.purpose, "propose");
  EXPECT_EQ(first.url, sent.url);
  EXPECT_EQ(first.model, "small");
  EXPECT_EQ(first.messages.at(0).at("role"), "user");
  EXPECT_EQ(first.reply, "## Code");
  EXPECT_EQ(first.error, "");
  EXPECT_EQ(first.finish_reason, "stop");
  EXPECT_EQ(first.prompt_tokens, 12);
  EXPECT_EQ(first.completion_tokens, 3);
  EXPECT_TRUE(first.tokens_estimated);
  EXPECT_EQ(first.attempts, 2);
  EXPECT_EQ(first.seconds, 1.5);
  EXPECT_EQ(first.cost, 0.25);
  EXPECT_EQ(first.name, "free 12");
  EXPECT_EQ(first.outcome, "wrong");
  EXPECT_FALSE(first.created.empty());
  EXPECT_EQ(kept->back().error, "timed out");
  Archive::Scope other = scope_;
  other.problem.m = 1;
  EXPECT_TRUE(archive_->exchanges(other)->empty());
}

// The budget for all bookkeeping of a candidate is 20 ms. The median, because a shared disk may hold up single writes.
TEST_F(ArchiveTest, RecordingIsQuick) {
  std::vector<double> milliseconds;
  for (int i = 0; i < 101; ++i) {
    const auto start = std::chrono::steady_clock::now();
    record(scope_, make_accepted(fmt::format("r{}", i), 1 + i));
    milliseconds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + 50, milliseconds.end());
  ::testing::Test::RecordProperty("median_ms", std::to_string(milliseconds[50]));
  EXPECT_LT(milliseconds[50], 20);
}

}  // namespace
}  // namespace warpsmith
