// JSON both ways (the judge writes a problem's report, the command line reads it), and the text that people read.
#include "audit/report_card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace warpsmith::audit {

namespace {

constexpr const char* kModes[] = {"call-cold", "call-warm", "graph-cold", "graph-warm"};

Outcome parse_status(const std::string& text) {
  for (const Outcome status :
       {Outcome::right, Outcome::wrong, Outcome::not_supported, Outcome::crashed, Outcome::timed_out}) {
    if (to_string(status) == text) return status;
  }
  return Outcome::failed;
}

bool is_ragged(const Problem& problem) { return problem.m % 16 != 0 || problem.n % 16 != 0 || problem.k % 16 != 0; }

double tflops(const Problem& problem, double time_us) { return time_us > 0 ? problem.flops() / time_us * 1e-6 : 0; }

std::string shape_text(const Problem& problem) {
  return fmt::format("{}x{}x{} {}", problem.m, problem.n, problem.k, to_string(problem.layout));
}

const ClockReport* mode_of(const SubjectTiming* subject, const std::string& mode) {
  if (subject == nullptr) return nullptr;
  const auto found = subject->modes.find(mode);
  return found == subject->modes.end() ? nullptr : &found->second;
}

// The mode that is quoted for a problem: from a graph where the candidate can be captured, else single calls; cold.
std::string quoted_mode(const ProblemReport& report) {
  return mode_of(report.candidate(), "graph-cold") != nullptr ? "graph-cold" : "call-cold";
}

// cuBLASLt's time over the candidate's: above 1 the candidate is faster. 0: unknown.
double ratio(const ProblemReport& report, const std::string& mode, bool same_layout) {
  const ClockReport* ours = mode_of(report.candidate(), mode);
  const ClockReport* theirs = mode_of(
      report.fastest_baseline(mode, same_layout ? std::string(to_string(report.problem.layout)) : std::string()), mode);
  return ours == nullptr || theirs == nullptr || !(ours->quoted_us > 0) ? 0 : theirs->quoted_us / ours->quoted_us;
}

std::string join_or(const std::vector<std::string>& words, const char* otherwise) {
  return words.empty() ? otherwise : fmt::format("{}", fmt::join(words, ", "));
}

void add_line(std::string& text, const std::string& name, const std::string& value) {
  text += fmt::format("  {:<13} {}\n", name, value);
}

std::string mode_line(const ProblemReport& report, const std::string& mode) {
  const ClockReport& ours = *mode_of(report.candidate(), mode);
  std::string line =
      fmt::format("{:<11} {:>9.3f} us {:>8.1f} TFLOP/s", mode, ours.quoted_us, tflops(report.problem, ours.quoted_us));
  if (const double same = ratio(report, mode, true); same > 0) {
    line += fmt::format("  {:.3f} x {}", same,
                        report.fastest_baseline(mode, std::string(to_string(report.problem.layout)))->subject);
  }
  if (const double any = ratio(report, mode, false); any > 0) line += fmt::format(", {:.3f} x the faster layout", any);
  return line +
         fmt::format("  (device {:.3f}, host {:.3f}, judge {:.3f})", ours.device_us, ours.host_us, ours.judge_us);
}

void add_problem(std::string& text, const ProblemReport& report) {
  text += fmt::format("\n  {}  {}{}\n", shape_text(report.problem), to_string(report.status),
                      report.detail.empty() ? "" : ": " + report.detail);
  std::vector<std::string> passed;
  for (const GateResult& gate : report.gates) {
    if (gate.passed) passed.push_back(gate.gate);
  }
  if (!passed.empty()) text += fmt::format("    gates passed: {}\n", fmt::join(passed, ", "));
  for (const GateResult& gate : report.gates) {
    if (!gate.passed) text += fmt::format("    gate FAILED: {}: {}\n", gate.gate, gate.detail);
  }
  for (const char* mode : kModes) {
    if (mode_of(report.candidate(), mode) != nullptr) text += "    " + mode_line(report, mode) + "\n";
  }
}

// Reasons that hold for every problem are said once.
std::map<std::string, std::string> not_run(const ReportCard& card) {
  std::map<std::string, std::string> all;
  for (const ProblemReport& report : card.problems) {
    for (const auto& [check, why] : report.not_run) all.emplace(check, why);
  }
  return all;
}

std::vector<std::string> checks_run(const ReportCard& card) {
  std::vector<std::string> all;
  for (const ProblemReport& report : card.problems) {
    for (const std::string& check : report.checks) {
      if (std::find(all.begin(), all.end(), check) == all.end()) all.push_back(check);
    }
  }
  return all;
}

// Why the verdict is not "honest"; empty where it is.
std::string reason(const ReportCard& card) {
  if (!card.rejected.empty()) return card.rejected;
  for (const ProblemReport& report : card.problems) {
    if (report.status != Outcome::right && report.status != Outcome::not_supported) return report.detail;
  }
  const auto findings = card.all_findings();
  if (card.verdict() == "incomplete") {
    return fmt::format("interrupted after {} of {} problems", card.problems.size(), card.wanted);
  }
  if (findings.empty() || findings.front().severity == Severity::note) return {};
  return findings.front().check + ": " + findings.front().detail;
}

bool timing_disagrees(const ProblemReport& report) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [](const Finding& finding) { return finding.severity != Severity::note; });
}

}  // namespace

std::string_view to_string(Outcome status) {
  switch (status) {
    case Outcome::right:
      return "right";
    case Outcome::wrong:
      return "wrong";
    case Outcome::not_supported:
      return "not-supported";
    case Outcome::crashed:
      return "crashed";
    case Outcome::timed_out:
      return "timed-out";
    case Outcome::failed:
      return "failed";
  }
  return "unknown";
}

const SubjectTiming* ProblemReport::fastest_baseline(const std::string& mode, const std::string& layout) const {
  const SubjectTiming* fastest = nullptr;
  for (std::size_t i = 1; i < timing.size(); ++i) {
    const ClockReport* clocks = mode_of(&timing[i], mode);
    if (clocks == nullptr || (!layout.empty() && !timing[i].subject.ends_with("-" + layout))) continue;
    if (fastest == nullptr || clocks->quoted_us < mode_of(fastest, mode)->quoted_us) fastest = &timing[i];
  }
  return fastest;
}

void to_json(nlohmann::json& json, const ProblemReport& report) {
  nlohmann::json timing = nlohmann::json::array();
  for (const SubjectTiming& subject : report.timing) {
    timing.push_back({{"subject", subject.subject}, {"detail", subject.detail}, {"modes", subject.modes}});
  }
  json = {{"problem", to_string(report.problem)},
          {"status", to_string(report.status)},
          {"detail", report.detail},
          {"gates", report.gates},
          {"accumulator", report.accumulator},
          {"nondeterminism", report.nondeterminism},
          {"findings", report.findings},
          {"timing", timing},
          {"floor_us", report.floor_us},
          {"clock_mhz", report.clock_mhz},
          {"sandbox", {{"active", report.sandbox.active}, {"missing", report.sandbox.missing}}},
          {"checks", report.checks},
          {"not_run", report.not_run},
          {"seconds", report.seconds}};
}

void from_json(const nlohmann::json& json, ProblemReport& report) {
  const auto problem = parse_problem(json.at("problem").get<std::string>());
  if (!problem) throw EnvironmentError("the judge named no problem: " + problem.error().message);
  report.problem = *problem;
  report.status = parse_status(json.at("status").get<std::string>());
  json.at("detail").get_to(report.detail);
  json.at("gates").get_to(report.gates);
  json.at("accumulator").get_to(report.accumulator);
  json.at("nondeterminism").get_to(report.nondeterminism);
  json.at("findings").get_to(report.findings);
  for (const nlohmann::json& subject : json.at("timing")) {
    report.timing.push_back({subject.at("subject").get<std::string>(), subject.at("detail").get<std::string>(),
                             subject.at("modes").get<std::map<std::string, ClockReport>>()});
  }
  json.at("floor_us").get_to(report.floor_us);
  json.at("clock_mhz").get_to(report.clock_mhz);
  json.at("sandbox").at("active").get_to(report.sandbox.active);
  json.at("sandbox").at("missing").get_to(report.sandbox.missing);
  json.at("checks").get_to(report.checks);
  json.at("not_run").get_to(report.not_run);
  json.at("seconds").get_to(report.seconds);
}

void to_json(nlohmann::json& json, const CandidateFacts& facts) {
  json = {{"path", facts.path},
          {"sha256", facts.sha256},
          {"kind", facts.kind},
          {"compiler", facts.compiler},
          {"compile_seconds", facts.compile_seconds},
          {"needed", facts.needed},
          {"findings", facts.findings}};
}

void from_json(const nlohmann::json& json, CandidateFacts& facts) {
  json.at("path").get_to(facts.path);
  json.at("sha256").get_to(facts.sha256);
  json.at("kind").get_to(facts.kind);
  json.at("compiler").get_to(facts.compiler);
  json.at("compile_seconds").get_to(facts.compile_seconds);
  json.at("needed").get_to(facts.needed);
  json.at("findings").get_to(facts.findings);
}

std::vector<Finding> ReportCard::all_findings() const {
  std::vector<Finding> all = candidate.findings;
  for (const ProblemReport& report : problems) {
    for (const Finding& finding : report.findings) {
      const auto same = [&](const Finding& other) {
        return other.check == finding.check && other.severity == finding.severity;
      };
      if (std::none_of(all.begin(), all.end(), same)) {
        all.push_back({finding.severity, finding.check,
                       fmt::format("{} (first at {})", finding.detail, shape_text(report.problem))});
      }
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return all;
}

std::string ReportCard::verdict() const {
  if (!rejected.empty()) return "rejected";
  const auto any = [&](std::initializer_list<Outcome> statuses) {
    return std::any_of(problems.begin(), problems.end(), [&](const ProblemReport& report) {
      return std::find(statuses.begin(), statuses.end(), report.status) != statuses.end();
    });
  };
  const auto findings = all_findings();
  if (any({Outcome::wrong, Outcome::crashed, Outcome::timed_out})) return "wrong";
  if (!findings.empty() && findings.front().severity == Severity::wrong) return "wrong";
  if (!findings.empty() && findings.front().severity == Severity::suspicious) return "suspicious";
  if (incomplete()) return "incomplete";
  if (any({Outcome::failed}) || problems.empty()) return "failed";
  return any({Outcome::right}) ? "honest" : "not-supported";
}

std::string ReportCard::accumulator() const {
  std::set<std::string> seen;
  for (const ProblemReport& report : problems) {
    if (report.accumulator != "unknown") seen.insert(report.accumulator);
  }
  if (seen.empty()) return "unknown";
  return seen.count("f16") != 0 ? "f16" : *seen.begin();
}

std::string ReportCard::layouts() const {
  std::set<std::string> seen;
  for (const ProblemReport& report : problems) {
    if (report.status == Outcome::right || report.status == Outcome::wrong) {
      seen.insert(std::string(to_string(report.problem.layout)));
    }
  }
  return join_or({seen.begin(), seen.end()}, "none");
}

std::string ReportCard::ragged() const {
  bool tried = false, right = false;
  for (const ProblemReport& report : problems) {
    if (!is_ragged(report.problem)) continue;
    tried = true;
    right = right || report.status == Outcome::right;
  }
  return !tried ? "not tried" : right ? "yes" : "no";
}

nlohmann::json to_json(const ReportCard& card) {
  nlohmann::json problems = nlohmann::json::array();
  for (const ProblemReport& report : card.problems) {
    nlohmann::json entry = report;
    const std::string mode = quoted_mode(report);
    if (const ClockReport* ours = mode_of(report.candidate(), mode)) {
      entry["quoted"] = {{"mode", mode},
                         {"time_us", ours->quoted_us},
                         {"tflops", tflops(report.problem, ours->quoted_us)},
                         {"ratio_same_layout", ratio(report, mode, true)},
                         {"ratio_any_layout", ratio(report, mode, false)},
                         {"trusted", !timing_disagrees(report)}};
    }
    problems.push_back(std::move(entry));
  }
  return {{"warpsmith_audit", 1},
          {"verdict", card.verdict()},
          {"rejected", card.rejected},
          {"candidate", card.candidate},
          {"computes", {{"layouts", card.layouts()}, {"ragged", card.ragged()}, {"accumulator", card.accumulator()}}},
          {"findings", card.all_findings()},
          {"checks", checks_run(card)},
          {"not_run", not_run(card)},
          {"machine", card.machine},
          {"problems", problems}};
}

std::string to_text(const ReportCard& card) {
  std::string text = fmt::format("{}: {}\n", card.candidate.path, card.verdict());
  add_line(text, "file", fmt::format("{}, sha256 {}", card.candidate.kind, card.candidate.sha256));
  if (!card.candidate.compiler.empty()) add_line(text, "built by", card.candidate.compiler);
  if (!card.rejected.empty()) add_line(text, "rejected", card.rejected);
  if (card.incomplete()) {
    add_line(text, "interrupted", fmt::format("{} of {} problems were judged", card.problems.size(), card.wanted));
  }
  if (!card.problems.empty()) {
    add_line(text, "computes",
             fmt::format("C[m,n] = A[m,k] B[k,n], layouts {}; ragged sizes: {}", card.layouts(), card.ragged()));
    add_line(text, "accumulator", card.accumulator() == "f16" ? "f16: it does not sum in FP32" : card.accumulator());
  }
  for (const ProblemReport& report : card.problems) {
    if (!report.nondeterminism.empty()) {
      add_line(text, "order", "declared to vary: " + report.nondeterminism);
      break;
    }
  }
  for (const ProblemReport& report : card.problems) add_problem(text, report);
  const auto findings = card.all_findings();
  text += findings.empty() ? "\n  nothing suspicious found\n" : "\n  found\n";
  for (const Finding& finding : findings) {
    text += fmt::format("    {:<10} {}: {}\n", to_string(finding.severity), finding.check, finding.detail);
  }
  if (!card.problems.empty()) {
    const Confinement& sandbox = card.problems.front().sandbox;
    text += "\n";
    add_line(text, "sandbox", join_or(sandbox.active, "none"));
    for (const auto& [name, why] : sandbox.missing) add_line(text, "  without", fmt::format("{}: {}", name, why));
    add_line(text, "checks", join_or(checks_run(card), "none"));
  }
  for (const auto& [check, why] : not_run(card)) add_line(text, "not run", fmt::format("{}: {}", check, why));
  return text;
}

Table to_table(const std::vector<ReportCard>& cards) {
  using Style = Column::Style;
  Table table("", {{"path", "candidate", "", Style::text},
                   {"verdict", "verdict", "", Style::text},
                   {"accumulator", "accumulator", "", Style::text},
                   {"layouts", "layouts", "", Style::text},
                   {"ragged", "ragged", "", Style::text},
                   {"best_ratio", "best ratio", "", Style::fixed, 3},
                   {"reason", "reason", "", Style::text}});
  for (const ReportCard& card : cards) {
    double best = 0;
    for (const ProblemReport& report : card.problems) best = std::max(best, ratio(report, quoted_mode(report), true));
    table.add({card.candidate.path, card.verdict(), card.accumulator(), card.layouts(), card.ragged(),
               best > 0 ? Cell(best) : Cell(), reason(card)});
  }
  return table;
}

}  // namespace warpsmith::audit
