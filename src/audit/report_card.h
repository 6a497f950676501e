// The report card: what was found about one candidate on each problem, its text and JSON forms, the verdict.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/clocks.h"
#include "audit/findings.h"
#include "audit/sandbox.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "report/table.h"

namespace warpsmith::audit {

// How far a problem came.
enum class Outcome {
  right,          // every gate passed
  wrong,          // a gate failed
  not_supported,  // the entry says so
  crashed,        // its process ended, or the device reported an error
  timed_out,
  failed,  // the environment, not the candidate
};
std::string_view to_string(Outcome status);

// One subject in one problem, by three clocks. "call": calls one after the other, as made from the host; "graph": the
// same captured in a CUDA graph, which leaves out what the host costs.
struct SubjectTiming {
  std::string subject, detail;               // "candidate", "cublaslt-auto-nn"
  std::map<std::string, ClockReport> modes;  // "call-cold", "call-warm", "graph-cold", "graph-warm"
};

struct ProblemReport {
  Problem problem;
  Outcome status = Outcome::failed;
  std::string detail;  // why not right
  std::vector<GateResult> gates;
  std::string accumulator = "unknown";  // "f32" or "f16", by the probe
  std::string nondeterminism;           // its declared reason
  std::vector<Finding> findings;
  std::vector<SubjectTiming> timing;  // the candidate first; empty: not timed
  double floor_us = 0;                // no kernel is faster with cold operands
  double clock_mhz = 0;
  Confinement sandbox;
  std::vector<std::string> checks;             // those that ran
  std::map<std::string, std::string> not_run;  // check -> reason
  double seconds = 0;

  const SubjectTiming* candidate() const { return timing.empty() ? nullptr : &timing.front(); }
  // The fastest baseline in a mode; of one layout where `layout` is not empty.
  const SubjectTiming* fastest_baseline(const std::string& mode, const std::string& layout = {}) const;
};
void to_json(nlohmann::json& json, const ProblemReport& report);
void from_json(const nlohmann::json& json, ProblemReport& report);

struct CandidateFacts {
  std::string path, sha256, kind;  // kind: "shared-object" or "cuda-source"
  std::string compiler;            // the command that built it
  double compile_seconds = 0;
  std::vector<std::string> needed;
  std::vector<Finding> findings;  // from the file alone
};
void to_json(nlohmann::json& json, const CandidateFacts& facts);
void from_json(const nlohmann::json& json, CandidateFacts& facts);

struct ReportCard {
  CandidateFacts candidate;
  std::string rejected;  // why it was not even run: it does not compile, has no entry, ...
  Machine machine;
  std::vector<ProblemReport> problems;
  std::size_t wanted = 0;  // problems that were asked for; fewer are there after an interruption

  bool incomplete() const { return rejected.empty() && problems.size() < wanted; }
  std::vector<Finding> all_findings() const;  // without repetitions, worst first
  // "honest": right everywhere it claims support, nothing suspicious. Else "suspicious", "wrong" (results, or crashed
  // or timed out), "rejected", "not-supported" (nowhere), "failed" (the environment), "incomplete" (interrupted, with
  // nothing against it so far).
  std::string verdict() const;
  std::string accumulator() const;
  std::string layouts() const;  // "nn, tn"
  std::string ragged() const;   // "yes", "no", "not tried"
};

nlohmann::json to_json(const ReportCard& card);
std::string to_text(const ReportCard& card);
// One row each: path, verdict, accumulator, best ratio to cuBLASLt of the same layout, the reason for the verdict.
Table to_table(const std::vector<ReportCard>& cards);

}  // namespace warpsmith::audit
