// Findings as fates.
#include "audited.h"

#include <fmt/format.h>

#include <algorithm>

#include "audit/elf_inspect.h"
#include "audit/findings.h"
#include "listener.h"

namespace warpsmith::attacks {

namespace {

namespace fs = std::filesystem;

audit::AuditOptions quick_options(bool timing) {
  audit::AuditOptions options;
  options.effort_seconds = 0.2;
  options.limit_seconds = 10;
  options.timing = timing;
  return options;
}

// What is found without timing is found with it; the suite spares the time.
bool shows_only_when_timed(const Attack& attack) {
  return std::any_of(attack.caught_by.begin(), attack.caught_by.end(), [](const std::string& name) {
    return name == "clocks" || name == "floor" || name == "timed-outputs" || name == "captured-work";
  });
}

void add(Fate& fate, const std::string& name, const std::string& detail) {
  if (std::find(fate.stopped_by.begin(), fate.stopped_by.end(), name) == fate.stopped_by.end()) {
    fate.stopped_by.push_back(name);
  }
  fate.how += fmt::format("{}{}: {}", fate.how.empty() ? "" : "; ", name, detail);
}

void add(Fate& fate, const std::vector<audit::Finding>& findings) {
  for (const audit::Finding& finding : findings) {
    if (finding.severity != audit::Severity::note) add(fate, finding.check, finding.detail);
  }
}

}  // namespace

Result<Audited> Audited::start() {
  auto client = audit::JudgeClient::start(0);
  if (!client) return client.error();
  return Audited(std::move(*client));
}

Fate Audited::examine(const fs::path& library, const Problem& problem, bool timing) {
  Fate fate;
  const Result<audit::ElfFacts> facts = audit::inspect_elf_file(library);
  if (!facts) throw EnvironmentError(facts.error().message);
  add(fate, audit::judge_elf(*facts));
  const Result<audit::ProblemReport> report = client_.audit(library, problem, quick_options(timing), {});
  if (!report) throw EnvironmentError(report.error().message);
  if (report->status == audit::Outcome::failed) throw EnvironmentError(report->detail);
  add(fate, report->findings);
  if (report->status == audit::Outcome::wrong) {
    for (const GateResult& gate : report->gates) {
      if (!gate.passed) add(fate, gate.gate, gate.detail);
    }
  } else if (report->status != audit::Outcome::right) {
    add(fate, std::string(audit::to_string(report->status)), report->detail);
  }
  return fate;
}

Fate Audited::attack(const Attack& attack, const fs::path& library) {
  std::error_code ignored;
  if (!attack.evidence.empty()) fs::remove(attack.evidence, ignored);
  std::optional<Listener> listener;
  if (attack.success == Success::connects) listener.emplace(kListenerPort);
  const std::string& sizes = attack.evaluated_sizes.empty() ? attack.sizes : attack.evaluated_sizes;
  Fate fate = examine(library, parse_problem(sizes + " nn").value(), shows_only_when_timed(attack));
  const bool left = !attack.evidence.empty() && fs::exists(attack.evidence);
  if (left || (listener && listener->heard())) {
    fate = {{}, left ? attack.evidence + " was written from inside the sandbox" : "it sent data out of the sandbox"};
  } else if (!attack.evidence.empty() || listener) {
    add(fate, "sandbox", listener ? "its listener heard nothing" : attack.evidence + " was not written");
  }
  if (!attack.evidence.empty()) fs::remove(attack.evidence, ignored);
  return fate;
}

}  // namespace warpsmith::attacks
