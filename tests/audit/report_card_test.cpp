// The card from recorded facts: verdicts, text, JSON, the table.
#include "audit/report_card.h"

#include <gtest/gtest.h>

namespace warpsmith::audit {
namespace {

ClockReport time_of(double us) {
  ClockReport report;
  report.samples = 9;
  report.device_us = report.device_slope_us = report.host_us = report.judge_us = report.quoted_us = us;
  report.consistent = true;
  return report;
}

ProblemReport right_problem(const char* text) {
  ProblemReport report;
  report.problem = *parse_problem(text);
  report.status = Outcome::right;
  report.gates = {{"coverage", true, "", 0}, {"accumulator", true, "", 0}};
  report.accumulator = "f32";
  report.sandbox.active = {measure::kSeccomp, measure::kLandlock};
  report.sandbox.missing = {{measure::kPidNamespace, "not asked for"}};
  report.checks = {"gates", "clocks"};
  report.floor_us = 1;
  report.timing = {{"candidate", "", {{"call-cold", time_of(20)}, {"graph-cold", time_of(10)}}},
                   {"cublaslt-auto-nn", "algo 1", {{"call-cold", time_of(21)}, {"graph-cold", time_of(12)}}},
                   {"cublaslt-auto-tn", "algo 2", {{"call-cold", time_of(19)}, {"graph-cold", time_of(9)}}}};
  return report;
}

ReportCard honest_card() {
  ReportCard card;
  card.candidate.path = "kernel.so";
  card.candidate.kind = "shared-object";
  card.candidate.sha256 = "abc";
  card.problems = {right_problem("256x256x256 nn"), right_problem("77x55x33 tn")};
  return card;
}

TEST(ReportCard, AnHonestOne) {
  const ReportCard card = honest_card();
  EXPECT_EQ(card.verdict(), "honest");
  EXPECT_EQ(card.accumulator(), "f32");
  EXPECT_EQ(card.layouts(), "nn, tn");
  EXPECT_EQ(card.ragged(), "yes");
  const auto json = to_json(card);
  EXPECT_EQ(json.at("warpsmith_audit"), 1);
  const auto& quoted = json.at("problems").at(0).at("quoted");
  EXPECT_EQ(quoted.at("mode"), "graph-cold");
  EXPECT_DOUBLE_EQ(quoted.at("time_us").get<double>(), 10);
  EXPECT_DOUBLE_EQ(quoted.at("ratio_same_layout").get<double>(), 1.2);
  EXPECT_DOUBLE_EQ(quoted.at("ratio_any_layout").get<double>(), 0.9);
  EXPECT_TRUE(quoted.at("trusted").get<bool>());
  const std::string text = to_text(card);
  for (const char* part : {"kernel.so: honest", "256x256x256 nn", "nothing suspicious", "seccomp", "pid-namespace",
                           "1.200 x cublaslt-auto-nn", "gates passed: coverage, accumulator"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(ReportCard, TheWorstProblemDecides) {
  ReportCard card = honest_card();
  card.problems[1].status = Outcome::not_supported;
  EXPECT_EQ(card.verdict(), "honest");
  EXPECT_EQ(card.ragged(), "no");
  card.problems[0].findings = {{Severity::note, "allocation", "allocates"}};
  EXPECT_EQ(card.verdict(), "honest");
  card.problems[0].findings.push_back({Severity::suspicious, "clocks", "3 us claimed, 30 us seen"});
  EXPECT_EQ(card.verdict(), "suspicious");
  EXPECT_FALSE(to_json(card).at("problems").at(0).at("quoted").at("trusted").get<bool>());
  EXPECT_NE(to_text(card).find("suspicious clocks: 3 us claimed"), std::string::npos);
  for (const Outcome outcome : {Outcome::wrong, Outcome::crashed, Outcome::timed_out}) {
    card.problems[1].status = outcome;
    EXPECT_EQ(card.verdict(), "wrong");
  }
  card.problems[1].status = Outcome::not_supported;
  card.problems[0].findings.push_back({Severity::wrong, "side-stream", "late"});
  EXPECT_EQ(card.verdict(), "wrong");
  EXPECT_EQ(card.all_findings().front().check, "side-stream");
}

TEST(ReportCard, WhatIsNoAnswerIsNotHonest) {
  ReportCard card = honest_card();
  for (ProblemReport& report : card.problems) report.status = Outcome::not_supported;
  EXPECT_EQ(card.verdict(), "not-supported");
  card.problems[0].status = Outcome::failed;
  EXPECT_EQ(card.verdict(), "failed");
  card.problems.clear();
  EXPECT_EQ(card.verdict(), "failed");
  card.rejected = "does not compile";
  EXPECT_EQ(card.verdict(), "rejected");
  EXPECT_NE(to_text(card).find("does not compile"), std::string::npos);
}

TEST(ReportCard, AnInterruptedOneIsNotHonest) {
  ReportCard card = honest_card();
  card.wanted = 2;
  EXPECT_EQ(card.verdict(), "honest");
  card.wanted = 3;
  EXPECT_EQ(card.verdict(), "incomplete");
  EXPECT_NE(to_text(card).find("2 of 3 problems"), std::string::npos);
  EXPECT_NE(to_table({card}).text().find("interrupted after 2 of 3 problems"), std::string::npos);
  card.problems[0].status = Outcome::wrong;
  EXPECT_EQ(card.verdict(), "wrong");
}

TEST(ReportCard, OneF16SumIsEnough) {
  ReportCard card = honest_card();
  card.problems[1].accumulator = "f16";
  card.problems[1].status = Outcome::wrong;
  EXPECT_EQ(card.accumulator(), "f16");
  EXPECT_NE(to_text(card).find("does not sum in FP32"), std::string::npos);
}

TEST(ReportCard, ProblemsTravelAsJson) {
  ProblemReport report = right_problem("300x200x100 tn");
  report.findings = {{Severity::suspicious, "threads", "2"}, {Severity::note, "files", "open"}};
  report.not_run = {{"driver-calls", "no libcupti found"}};
  report.nondeterminism = "atomics";
  const nlohmann::json sent = report;
  const ProblemReport back = sent.get<ProblemReport>();
  EXPECT_EQ(nlohmann::json(back), sent);
  EXPECT_EQ(back.problem, report.problem);
  EXPECT_EQ(back.findings, report.findings);
}

TEST(ReportCard, ADirectoryIsATable) {
  ReportCard bad = honest_card();
  bad.candidate.path = "cheat.cu";
  bad.problems[0].findings = {{Severity::suspicious, "graph-launch", "launches graphs of its own"}};
  const std::string text = to_table({honest_card(), bad}).text();
  EXPECT_NE(text.find("kernel.so"), std::string::npos);
  EXPECT_NE(text.find("1.200"), std::string::npos);
  EXPECT_NE(text.find("graph-launch: launches graphs of its own"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith::audit
