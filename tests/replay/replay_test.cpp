// Replay tables: round trip through a file, errors with their line, look-ups, and the way from an archive.
#include "evaluate/replay/replay.h"

#include "evaluate/replay/kernel_tuner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

namespace warpsmith {
namespace {

constexpr const char* kHeader =
    R"({"warpsmith_replay":1,"machine":{"name":"GPU","kind":"cuda","units":132},"target":"sm90","threads":1,"provenance":{"date":"2025-01-01"}})";

class ReplayTest : public ::testing::Test {
 protected:
  ~ReplayTest() override { std::filesystem::remove_all(directory_); }

  static Machine make_machine() {
    Machine machine;
    machine.name = "Test machine";
    machine.kind = "cpu";
    machine.units = 2;
    machine.versions = {{"c++", "12.2"}};
    return machine;
  }

  // A recipe that differs from the family's default in one choice of one field.
  static Recipe variant(std::size_t number) {
    const Family& family = *families().front();
    Recipe recipe(family);
    const auto fields = family.fields();
    std::size_t seen = 0;
    for (std::size_t field = 0; field < fields.size(); ++field) {
      for (std::size_t choice = 0; choice < fields[field]->values.size(); ++choice) {
        if (static_cast<int>(choice) == recipe.choice(field) || seen++ != number) continue;
        recipe.set_choice(field, static_cast<int>(choice));
        return recipe;
      }
    }
    throw std::out_of_range("no such variant");
  }

  Result<ReplayTable> load(const std::string& text) {
    std::ofstream(path_) << text;
    return ReplayTable::load(path_);
  }

  void expect_error(const std::string& text, int line, const std::string& words) {
    const auto table = load(text);
    ASSERT_FALSE(table.ok()) << text;
    const std::string& message = table.error().message;
    EXPECT_EQ(table.error().kind, ErrorKind::bad_input) << message;
    EXPECT_EQ(message.rfind(path_.string() + ":" + std::to_string(line) + ": ", 0), 0u) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }

  std::filesystem::path directory_ = [] {
    std::string name = (std::filesystem::temp_directory_path() / "warpsmith-replay-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create a temporary directory");
    return name;
  }();
  std::filesystem::path path_ = directory_ / "table.jsonl";
  Problem problem_{.m = 64, .n = 128, .k = 256};
};

TEST_F(ReplayTest, RoundTripsEveryKind) {
  ReplayTable table(make_machine(), Target::cpu, 2, {{"commit", "abc"}});
  const char* kinds[] = {"illegal",   "compile-error", "wrong",      "crashed",
                         "timed-out", "too-slow",      "suspicious", "accepted"};
  for (std::size_t i = 0; i < 8; ++i) {
    ReplayTable::Entry entry{kinds[i], std::nullopt, std::nullopt};
    if (i >= 5) entry.cold_us = 10.0 + static_cast<double>(i) / 3;
    if (i == 7) entry.warm_us = 0.1 + 0.2;
    ASSERT_TRUE(table.add(problem_, to_string(variant(i)), entry).ok());
  }
  ASSERT_TRUE(table.save(path_).ok());
  const auto loaded = ReplayTable::load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->machine().id(), make_machine().id());
  EXPECT_EQ(loaded->machine().versions, make_machine().versions);
  EXPECT_EQ(loaded->target(), Target::cpu);
  EXPECT_EQ(loaded->threads(), 2);
  EXPECT_EQ(loaded->provenance().at("commit"), "abc");
  EXPECT_EQ(loaded->size(), 8u);
  EXPECT_EQ(loaded->problems(), std::vector<Problem>{problem_});
  EXPECT_EQ(loaded->recipes(problem_).size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(loaded->lookup(problem_, variant(i)).kind(), kinds[i]);
  }
  const Verdict accepted = loaded->lookup(problem_, variant(7));
  EXPECT_EQ(accepted.accepted()->measurement.cold.median_us, 10.0 + 7.0 / 3);
  EXPECT_EQ(accepted.accepted()->measurement.warm.median_us, 0.1 + 0.2) << "numbers keep every bit";
  EXPECT_EQ(std::get<verdict::TooSlow>(loaded->lookup(problem_, variant(5)).outcome).time_us, 10.0 + 5.0 / 3);
}

TEST_F(ReplayTest, EqualTablesAreEqualFiles) {
  ReplayTable forward(make_machine(), Target::cpu, 1), backward(make_machine(), Target::cpu, 1);
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(forward.add(problem_, to_string(variant(i)), {"wrong", {}, {}}).ok());
    ASSERT_TRUE(backward.add(problem_, to_short_string(variant(5 - i)), {"wrong", {}, {}}).ok());
  }
  const auto bytes = [&](const ReplayTable& table) {
    EXPECT_TRUE(table.save(path_).ok());
    std::ifstream file(path_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(bytes(forward), bytes(backward));
}

TEST_F(ReplayTest, WhatWasNotRecordedFails) {
  ReplayTable table(make_machine(), Target::cpu, 1);
  ASSERT_TRUE(table.add(problem_, to_string(variant(0)), {"accepted", 5.0, 4.0}).ok());
  const Verdict other_recipe = table.lookup(problem_, variant(1));
  ASSERT_EQ(other_recipe.kind(), "failed");
  EXPECT_NE(std::get<verdict::Failed>(other_recipe.outcome).reason.find("not recorded"), std::string::npos);
  Problem transposed = problem_;
  transposed.layout = Layout::tn;
  EXPECT_EQ(table.lookup(transposed, variant(0)).kind(), "failed");
  EXPECT_TRUE(table.recipes(transposed).empty());
}

TEST_F(ReplayTest, ShortRecipesBlankLinesAndNullTimesAreFine) {
  const std::string recipe = to_short_string(variant(3));
  const auto table = load(fmt::format(
      "{}\n\n{{\"problem\":\"8x8x8\",\"recipe\":\"{}\",\"kind\":\"accepted\",\"cold_us\":2,\"warm_us\":null}}\r\n",
      kHeader, recipe));
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->provenance().at("date"), "2025-01-01");
  EXPECT_EQ(table->lookup({.m = 8, .n = 8, .k = 8}, variant(3)).accepted()->measurement.cold.median_us, 2);
}

TEST_F(ReplayTest, ErrorsNameFileAndLine) {
  const std::string header = std::string(kHeader) + "\n";
  const std::string recipe = to_short_string(variant(0));
  const auto entry = [&](const std::string& problem, const std::string& text, const std::string& rest) {
    return fmt::format("{{\"problem\":\"{}\",\"recipe\":\"{}\",\"kind\":{}}}\n", problem, text, rest);
  };
  const std::string good = entry("8x8x8", recipe, R"("accepted","cold_us":2)");
  expect_error("", 1, "empty file");
  expect_error("hello\n", 1, "parse error");
  expect_error("[1]\n", 1, "not a replay table");
  expect_error("{\"a\":1}\n", 1, "not a replay table");
  expect_error(R"({"warpsmith_replay":2})", 1, "format version 2 is not known; accepted: 1");
  expect_error(R"({"warpsmith_replay":1,"target":"sm90"})", 1, "machine");
  expect_error(R"({"warpsmith_replay":1,"target":"sm70","machine":{"name":"a","kind":"cpu"}})", 1, "unknown target");
  expect_error(R"({"warpsmith_replay":1,"target":"cpu","threads":0,"machine":{"name":"a","kind":"cpu"}})", 1,
               "threads");
  expect_error(header + good + "{\"problem\":", 3, "parse error");
  expect_error(header + good + "{}\n", 3, "problem");
  expect_error(header + good + "7\n", 3, "");
  expect_error(header + entry("0x8x8", recipe, R"("wrong")"), 2, "out of range");
  expect_error(header + entry("8x8x8", "sm70 a=1", R"("wrong")"), 2, "unknown family");
  expect_error(header + entry("8x8x8", recipe, R"("great")"), 2, "unknown kind 'great'");
  expect_error(header + entry("8x8x8", recipe, R"("failed")"), 2, "unknown kind 'failed'");
  expect_error(header + entry("8x8x8", recipe, R"("accepted")"), 2, "needs cold_us");
  expect_error(header + entry("8x8x8", recipe, R"("accepted","cold_us":-1)"), 2, "positive");
  expect_error(header + entry("8x8x8", recipe, R"("accepted","cold_us":1e999)"), 2, "");
  expect_error(header + entry("8x8x8", recipe, R"("accepted","cold_us":"2")"), 2, "number");
  expect_error(header + good + "\n" + good, 4, "second entry");
}

TEST_F(ReplayTest, KeepsErrorsReferencesAndWhatIsHeldOut) {
  ReplayTable table(make_machine(), Target::cpu, 1);
  const Problem other{.m = 96, .n = 64, .k = 64};
  ASSERT_TRUE(table.add(problem_, to_string(variant(0)), {"accepted", 10, std::nullopt, 0.25}).ok());
  EXPECT_FALSE(table.add(problem_, to_string(variant(1)), {"accepted", 10, std::nullopt, -1.0}).ok());
  ASSERT_TRUE(table.set_reference(problem_, 12.5).ok());
  EXPECT_FALSE(table.set_reference(problem_, 0).ok());
  table.set_held_out({other});
  ASSERT_TRUE(table.save(path_).ok());
  const auto loaded = ReplayTable::load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->reference_us(problem_), 12.5);
  EXPECT_EQ(loaded->reference_us(other), 0);
  EXPECT_EQ(loaded->held_out(), (std::vector<Problem>{other}));
  const Verdict verdict = loaded->lookup(problem_, variant(0));
  ASSERT_EQ(verdict.gates.size(), 1u);
  EXPECT_EQ(verdict.gates[0].worst_error, 0.25);
}

TEST_F(ReplayTest, ExportsOneProblemToKernelTuner) {
  ReplayTable table(make_machine(), Target::cpu, 1);
  ASSERT_TRUE(table.add(problem_, to_string(variant(0)), {"accepted", 1500, std::nullopt}).ok());
  ASSERT_TRUE(table.add(problem_, to_string(variant(1)), {"wrong", std::nullopt, std::nullopt}).ok());
  const auto cache = kernel_tuner_cache(table, problem_);
  ASSERT_TRUE(cache.ok()) << cache.error().message;
  const auto& keys = cache->at("tune_params_keys");
  EXPECT_EQ(keys.size(), variant(0).size());
  EXPECT_EQ(cache->at("problem_size"), (std::vector<std::int64_t>{problem_.m, problem_.n, problem_.k}));
  ASSERT_EQ(cache->at("cache").size(), 2u);
  int timed = 0, failed = 0;
  for (const auto& [key, entry] : cache->at("cache").items()) {
    std::string expected;
    for (const auto& name : keys) {
      const auto& value = entry.at(name.get<std::string>());
      expected += (expected.empty() ? "" : ",") + (value.is_string() ? value.get<std::string>() : value.dump());
      const auto& values = cache->at("tune_params").at(name.get<std::string>());
      EXPECT_NE(std::find(values.begin(), values.end(), value), values.end());
    }
    EXPECT_EQ(key, expected);
    timed += entry.at("time") == 1.5 ? 1 : 0;
    failed += entry.at("time") == "RuntimeFailedConfig" ? 1 : 0;
  }
  EXPECT_EQ(timed, 1);
  EXPECT_EQ(failed, 1);
  const std::string text = kernel_tuner_text(*cache);
  EXPECT_EQ(nlohmann::json::parse(text), *cache);
  EXPECT_TRUE(text.ends_with("}}}"));
  EXPECT_FALSE(kernel_tuner_cache(table, {.m = 1, .n = 1, .k = 1}).ok());
  ASSERT_TRUE(table.add(problem_, to_string(Recipe(tiny_family())), {"accepted", 9, std::nullopt}).ok());
  const auto several = kernel_tuner_cache(table, problem_);
  EXPECT_TRUE(several->at("tune_params").contains("family"));
  EXPECT_TRUE(several->at("tune_params").contains("tiny.tile_m"));
}

TEST_F(ReplayTest, LoaderSurvivesDamagedFiles) {
  std::mt19937_64 random(1);
  std::string text = std::string(kHeader) + "\n";
  for (std::size_t i = 0; i < 3; ++i) {
    text += fmt::format("{{\"problem\":\"64x64x64 tn\",\"recipe\":\"{}\",\"kind\":\"accepted\",\"cold_us\":2.5}}\n",
                        to_string(variant(i)));
  }
  for (int i = 0; i < 1500; ++i) {
    std::string damaged = text;
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (i % 3 == 0) damaged.resize(random() % damaged.size());
    const auto table = load(damaged);
    if (!table) {
      EXPECT_EQ(table.error().kind, ErrorKind::bad_input);
      EXPECT_EQ(table.error().message.find('\n'), std::string::npos);
    }
  }
}

TEST_F(ReplayTest, MissingFileIsAnEnvironmentError) {
  const auto table = ReplayTable::load(directory_ / "none.jsonl");
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().kind, ErrorKind::environment);
}

class ExportTest : public ReplayTest {
 protected:
  void record(const std::string& recipe, const Verdict& verdict) {
    AttemptRecord attempt;
    attempt.recipe = recipe;
    attempt.verdict = verdict;
    ASSERT_TRUE(archive_->record(scope_, attempt).ok());
  }
  static Verdict accepted(double cold_us) {
    Measurement measurement;
    measurement.cold.median_us = cold_us;
    measurement.warm.median_us = cold_us / 2;
    Verdict verdict;
    verdict.outcome = verdict::Accepted{measurement};
    return verdict;
  }
  template <class Outcome>
  static Verdict rejected(Outcome outcome) {
    Verdict verdict;
    verdict.outcome = std::move(outcome);
    return verdict;
  }
  ReplaySelection selection() const { return {scope_.machine.id(), scope_.target, scope_.threads}; }

  std::unique_ptr<Archive> archive_ = std::move(Archive::open(directory_ / "archive.db").value());
  Archive::Scope scope_{problem_, make_machine(), Target::cpu, 1};
};

TEST_F(ExportTest, TakesTheLatestVerdictOfEachRecipe) {
  record(to_string(variant(0)), accepted(10));
  record(to_string(variant(1)), rejected(verdict::Wrong{}));
  record(to_string(variant(0)), accepted(8));
  record(to_string(variant(0)), rejected(verdict::Failed{"the disk was full"}));
  record(to_string(variant(2)), rejected(verdict::TooSlow{30, 20}));
  record(to_string(variant(3)), rejected(verdict::Failed{"the disk was full"}));
  record("cpu no_such_knob=1", accepted(1));
  scope_.problem.m = 96;
  record(to_string(variant(0)), accepted(20));
  scope_.threads = 2;
  record(to_string(variant(4)), accepted(5));
  scope_.threads = 1;

  const auto table = export_replay_table(*archive_, selection(), {{"note", "test"}});
  ASSERT_TRUE(table.ok()) << table.error().message;
  ASSERT_TRUE(table->save(path_).ok());
  const auto loaded = ReplayTable::load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->provenance().at("note"), "test");
  EXPECT_EQ(loaded->size(), 4u);
  const auto verdict = loaded->lookup(problem_, variant(0));
  ASSERT_NE(verdict.accepted(), nullptr);
  EXPECT_EQ(verdict.accepted()->measurement.cold.median_us, 8);
  EXPECT_EQ(verdict.accepted()->measurement.warm.median_us, 4);
  EXPECT_EQ(loaded->lookup(problem_, variant(1)).kind(), "wrong");
  EXPECT_EQ(loaded->lookup(problem_, variant(2)).kind(), "too-slow");
  EXPECT_EQ(loaded->lookup(problem_, variant(3)).kind(), "failed");
  EXPECT_EQ(loaded->lookup(scope_.problem, variant(0)).accepted()->measurement.cold.median_us, 20);
}

TEST_F(ExportTest, AnAcceptanceThatDoesNotStandGivesWayToTheRejection) {
  record(to_string(variant(0)), rejected(verdict::Wrong{}));
  record(to_string(variant(0)), accepted(8));
  record(to_string(variant(1)), accepted(9));
  const auto table = export_replay_table(*archive_, selection());
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->lookup(problem_, variant(0)).kind(), "wrong");
  EXPECT_EQ(table->lookup(problem_, variant(1)).kind(), "accepted");
}

TEST_F(ExportTest, TheReferenceIsTheFastestBaselineOfTheProblemsLayout) {
  record(to_string(variant(0)), accepted(10));
  const auto timed = [](const char* subject, double cold_us) {
    Measurement measurement;
    measurement.subject = subject;
    measurement.cold.median_us = cold_us;
    return measurement;
  };
  const std::string layout(to_string(scope_.problem.layout)), other = layout == "nn" ? "tn" : "nn";
  const std::vector<Measurement> subjects = {timed("candidate", 1), timed(("blas-" + other).c_str(), 2),
                                             timed(("blas-" + layout).c_str(), 4),
                                             timed(("lt-" + layout + "-2t").c_str(), 3)};
  ASSERT_TRUE(archive_->record_comparison(scope_, {to_string(variant(0)), {{"subjects", subjects}}, {}}).ok());
  const auto table = export_replay_table(*archive_, selection());
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->reference_us(problem_), 3);
}

TEST_F(ExportTest, ImportAddsWhatTheArchiveLacks) {
  record(to_string(variant(0)), accepted(10));
  record(to_string(variant(1)), rejected(verdict::Wrong{}));
  auto table = export_replay_table(*archive_, selection());
  ASSERT_TRUE(table.ok()) << table.error().message;

  const auto path = directory_ / "other.db";
  {
    const auto other = Archive::open(path);
    ASSERT_TRUE(other.ok());
    AttemptRecord known;
    known.recipe = to_string(variant(0));
    known.source_hash = "measured here";
    known.verdict = accepted(12);
    ASSERT_TRUE((*other)->record(scope_, known).ok());
    EXPECT_EQ(import_replay_table(**other, *table).value(), 1);
    EXPECT_EQ(import_replay_table(**other, *table).value(), 0);
  }
  const auto other = Archive::open(path);
  ASSERT_TRUE(other.ok());
  const auto summaries = (*other)->summaries(scope_);
  ASSERT_TRUE(summaries.ok());
  ASSERT_EQ(summaries->size(), 2u);
  EXPECT_EQ((*summaries)[0].source_hash, "measured here");
  EXPECT_EQ((*summaries)[0].cold_us, 12);
  EXPECT_EQ((*summaries)[1].recipe, to_string(variant(1)));
  EXPECT_EQ((*summaries)[1].kind, "wrong");
  EXPECT_EQ((*summaries)[1].source_hash, "");  // no source of today: to be measured again
}

TEST_F(ExportTest, SaysWhatIsThereWhenNothingFits) {
  record(to_string(variant(0)), accepted(10));
  ReplaySelection other = selection();
  other.target = Target::sm90;
  const auto table = export_replay_table(*archive_, other);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().kind, ErrorKind::bad_input);
  EXPECT_NE(table.error().message.find(scope_.machine.id()), std::string::npos) << table.error().message;
}

}  // namespace
}  // namespace warpsmith
