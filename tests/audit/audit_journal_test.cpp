// What an interrupted audit leaves behind is known to the next one, and only where it is of the same file.
#include "audit_journal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace warpsmith::cli {
namespace {

namespace fs = std::filesystem;

class AuditJournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-journal-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
  }
  void TearDown() override { fs::remove_all(home_); }

  fs::path path() const { return home_ / "cards.json.partial"; }
  static audit::CandidateFacts facts(const std::string& name, const std::string& sha256) {
    audit::CandidateFacts facts;
    facts.path = name;
    facts.sha256 = sha256;
    facts.kind = "cuda-source";
    facts.findings = {{audit::Severity::note, "clocks", "can read clocks: time"}};
    return facts;
  }
  static audit::ProblemReport report(const char* problem, audit::Outcome outcome) {
    audit::ProblemReport report;
    report.problem = *parse_problem(problem);
    report.status = outcome;
    report.checks = {"gates"};
    return report;
  }

  fs::path home_;
  const nlohmann::json identity_ = {{"warpsmith_audit", 1}, {"options", {{"seed", 1}}}};
};

TEST_F(AuditJournalTest, KnowsWhatWasJudged) {
  const auto good = facts("good.cu", "aa"), bad = facts("bad.cu", "bb");
  {
    auto journal = AuditJournal::open(path(), identity_);
    ASSERT_TRUE(journal.ok()) << journal.error().message;
    ASSERT_TRUE(journal->add({good, ""}).ok());
    ASSERT_TRUE(journal->add(good, report("64x64x64 nn", audit::Outcome::right)).ok());
    ASSERT_TRUE(journal->add(good, report("64x64x64 tn", audit::Outcome::failed)).ok());
    ASSERT_TRUE(journal->add({bad, "does not compile"}).ok());
  }
  std::ofstream(path(), std::ios::app) << R"({"path": "good.cu", "sha2)";  // it was killed while it wrote
  auto journal = AuditJournal::open(path(), identity_);
  ASSERT_TRUE(journal.ok()) << journal.error().message;
  ASSERT_NE(journal->candidate("good.cu", "aa"), nullptr);
  EXPECT_EQ(nlohmann::json(journal->candidate("good.cu", "aa")->facts), nlohmann::json(good));
  EXPECT_EQ(journal->candidate("good.cu", "cc"), nullptr) << "the file has changed since";
  EXPECT_EQ(journal->candidate("bad.cu", "bb")->rejected, "does not compile");
  const auto* known = journal->report(good, *parse_problem("64x64x64 nn"));
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(nlohmann::json(*known), nlohmann::json(report("64x64x64 nn", audit::Outcome::right)));
  EXPECT_EQ(journal->report(good, *parse_problem("64x64x64 tn")), nullptr) << "the machine's failure is tried again";
  EXPECT_EQ(journal->report(good, *parse_problem("128x64x64 nn")), nullptr);
  EXPECT_EQ(journal->report(bad, *parse_problem("64x64x64 nn")), nullptr);
  journal->remove();
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(AuditJournalTest, RefusesWhatIsOfAnotherRun) {
  ASSERT_TRUE(AuditJournal::open(path(), identity_).ok());
  nlohmann::json other = identity_;
  other["options"]["seed"] = 2;
  EXPECT_EQ(AuditJournal::open(path(), other).error().kind, ErrorKind::bad_input);
  EXPECT_EQ(AuditJournal::open(path(), {{"warpsmith_bench", 1}}).error().kind, ErrorKind::bad_input);
  std::ofstream(path(), std::ios::app) << R"({"path": "good.cu", "sha256": "aa", "report": {}})"
                                       << "\n";
  const auto spoilt = AuditJournal::open(path(), identity_);
  ASSERT_FALSE(spoilt.ok());
  EXPECT_NE(spoilt.error().message.find("remove the file"), std::string::npos) << spoilt.error().message;
}

TEST_F(AuditJournalTest, WithoutAFileNothingIsKnown) {
  AuditJournal journal;
  EXPECT_TRUE(journal.add({facts("good.cu", "aa"), ""}).ok());
  EXPECT_EQ(journal.candidate("good.cu", "aa"), nullptr);
}

}  // namespace
}  // namespace warpsmith::cli
