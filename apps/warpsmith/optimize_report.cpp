// The closing report of a search.
#include "optimize_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/table.h"

namespace warpsmith::cli {

namespace {

double gflops(const Problem& problem, double time_us) { return problem.flops() / (time_us * 1e3); }

Cell peak_share(const Archive::Scope& scope, double time_us) {
  if (!(scope.machine.peak_gflops > 0)) return {};
  return gflops(scope.problem, time_us) / scope.machine.peak_gflops;
}

std::vector<Cell> subject_row(const Archive::Scope& scope, const Measurement& subject, const Measurement& candidate) {
  const bool own = &subject == &candidate;
  const auto speedup = [&](const TimingStats& theirs, const TimingStats& ours) {
    return own ? Cell() : Cell(theirs.median_us / ours.median_us);
  };
  return {own ? "warpsmith" : subject.subject,
          subject.cold.median_us,
          subject.warm.median_us,
          gflops(scope.problem, subject.cold.median_us),
          peak_share(scope, subject.cold.median_us),
          speedup(subject.cold, candidate.cold),
          speedup(subject.warm, candidate.warm)};
}

Table subject_table(const Archive::Scope& scope, const Conclusion& conclusion) {
  using Style = Column::Style;
  Table table("", {{"kernel", "kernel", "", Style::text},
                   {"cold_us", "cold", "us", Style::number},
                   {"warm_us", "warm", "us", Style::number},
                   {"gflops", "GFLOP/s", "", Style::number},
                   {"peak_share", "of peak", "", Style::percent, 1},
                   {"speedup", "speed-up", "", Style::fixed, 3},
                   {"speedup_warm", "(warm)", "", Style::fixed, 3}});
  for (const Measurement& subject : conclusion.comparison.subjects) {
    table.add(subject_row(scope, subject, conclusion.candidate()));
  }
  return table;
}

std::string gate_summary(const std::vector<GateResult>& gates) {
  const auto passed = std::count_if(gates.begin(), gates.end(), [](const GateResult& gate) { return gate.passed; });
  return fmt::format("{} of {} passed", passed, gates.size());
}

std::string format_conclusion(const OptimizeOutcome& outcome, const Conclusion& conclusion) {
  const Archive::Scope& scope = outcome.scope;
  std::string text = subject_table(scope, conclusion).text() + "\n";
  const double ours = conclusion.candidate().cold.median_us;
  const std::string layout(to_string(scope.problem.layout));
  if (const Measurement* same = conclusion.fastest_baseline(layout)) {
    text += fmt::format("speed-up    {:.3f} over the fastest {} baseline ({})", same->cold.median_us / ours, layout,
                        same->subject);
    const Measurement* any = conclusion.fastest_baseline();
    text += fmt::format(", {:.3f} over the fastest of any layout\n", any->cold.median_us / ours);
  }
  if (const auto& pdl = conclusion.candidate().cold_pdl) {
    text += fmt::format("with PDL    {} us cold\n", significant(pdl->median_us));
  }
  text += fmt::format("gates       {}\n", gate_summary(conclusion.comparison.gates));
  for (const GateResult& gate : conclusion.comparison.gates) {
    if (!gate.passed) text += fmt::format("            FAILED {}: {}\n", gate.gate, gate.detail);
  }
  if (is_cuda(scope.target)) text += fmt::format("sanitizer   {}\n", conclusion.sanitizer.describe());
  return text;
}

std::string format_models(const llm::SessionReport& report) {
  std::string text =
      fmt::format("models      {} requests, {} + {} tokens{}", report.spent.requests, report.spent.prompt_tokens,
                  report.spent.completion_tokens, report.spent.estimated ? " (estimated)" : "");
  if (report.spent.cost > 0) text += fmt::format(", cost {:.4f}", report.spent.cost);
  text += fmt::format("; {} answers, {} without a candidate, {} known before; {} of {} repaired\n", report.answers,
                      report.malformed, report.known, report.repaired, report.repairs);
  if (!report.last_malformed.empty())
    text += fmt::format("            last answer without one: {}\n", report.last_malformed);
  for (const auto& [kind, count] : report.failures) text += fmt::format("            {} x {}\n", count, kind);
  if (!report.last_failure.empty()) text += fmt::format("            last failure: {}\n", report.last_failure);
  if (report.leaps > 0)
    text += fmt::format("            {} leaps checked, {} not believed\n", report.leaps, report.hacks);
  if (!report.stopped.empty()) text += fmt::format("            ended early: {}\n", report.stopped);
  return text;
}

}  // namespace

std::string format_rejections(const OptimizeResult& result) {
  std::string text;
  for (const auto& [kind, count] : result.by_kind) {
    if (kind == "accepted") continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
    if (kind == "wrong" && !result.wrong_by_gate.empty()) {
      std::string gates;
      for (const auto& [gate, failed] : result.wrong_by_gate)
        gates += fmt::format("{}{} {}", gates.empty() ? "" : ", ", gate, failed);
      text += " (" + gates + ")";
    }
  }
  return text;
}

std::string format_outcome(const OptimizeOutcome& outcome) {
  const Archive::Scope& scope = outcome.scope;
  std::string text = fmt::format(
      "\nproblem     {}  ({} {})\n", to_string(scope.problem), scope.machine.name,
      scope.target == Target::cpu ? fmt::format("x {} threads", scope.threads) : std::string(to_string(scope.target)));
  if (outcome.conclusion) {
    text += fmt::format("recipe      {}\n\n", outcome.conclusion->recipe);
    text += format_conclusion(outcome, *outcome.conclusion);
  } else if (outcome.search.best) {
    text += fmt::format("recipe      {}\ntime        {} us cold, as measured while searching\n",
                        outcome.search.best->recipe, significant(outcome.search.best->cold_us));
  } else {
    text += "recipe      none was accepted\n";
  }
  const std::string rejections = format_rejections(outcome.search);
  text += fmt::format("candidates  {} tried now, {} known before", outcome.search.tried, outcome.search.resumed);
  text += rejections.empty() ? "; none rejected\n" : "; rejected: " + rejections + "\n";
  if (outcome.models) text += format_models(*outcome.models);
  if (outcome.conclusion) text += fmt::format("source      {}\n", outcome.conclusion->source.string());
  text += fmt::format("archive     {}\n", outcome.archive_path);
  if (outcome.search.exhausted) {
    text += "next        every recipe that the policy knows was tried; another --seed or --policy may find more\n";
  } else {
    text += fmt::format("next        {}   (searches on from here)\n", outcome.command);
  }
  return text;
}

nlohmann::json outcome_to_json(const OptimizeOutcome& outcome) {
  const Archive::Scope& scope = outcome.scope;
  const OptimizeResult& search = outcome.search;
  nlohmann::json json = {{"problem", to_string(scope.problem)},
                         {"m", scope.problem.m},
                         {"n", scope.problem.n},
                         {"k", scope.problem.k},
                         {"layout", to_string(scope.problem.layout)},
                         {"target", to_string(scope.target)},
                         {"threads", scope.threads},
                         {"machine", scope.machine},
                         {"tried", search.tried},
                         {"resumed", search.resumed},
                         {"verdicts", search.by_kind},
                         {"wrong_by_gate", search.wrong_by_gate},
                         {"search_seconds", search.elapsed_seconds},
                         {"bookkeeping_ms", search.bookkeeping_ms},
                         {"exhausted", search.exhausted},
                         {"interrupted", search.interrupted},
                         {"archive", outcome.archive_path}};
  if (outcome.provenance) json["provenance"] = *outcome.provenance;
  if (search.best) json["best_while_searching"] = {{"recipe", search.best->recipe}, {"cold_us", search.best->cold_us}};
  if (outcome.models) json["models"] = llm::to_json(*outcome.models);
  if (!outcome.conclusion) return json;
  const Conclusion& conclusion = *outcome.conclusion;
  json["recipe"] = conclusion.recipe;
  json["conclusion"] = to_json(conclusion);
  const Measurement& own = conclusion.candidate();
  json["time_us"] = own.cold.median_us;
  json["time_warm_us"] = own.warm.median_us;
  json["gflops"] = gflops(scope.problem, own.cold.median_us);
  if (scope.machine.peak_gflops > 0) {
    json["peak_share"] = gflops(scope.problem, own.cold.median_us) / scope.machine.peak_gflops;
    json["peak_share_warm"] = gflops(scope.problem, own.warm.median_us) / scope.machine.peak_gflops;
  }
  const std::string layout(to_string(scope.problem.layout));
  if (const Measurement* same = conclusion.fastest_baseline(layout)) {
    json["fastest_baseline"] = same->subject;
    json["speedup"] = same->cold.median_us / own.cold.median_us;
    json["speedup_warm"] = same->warm.median_us / own.warm.median_us;
  }
  if (const Measurement* any = conclusion.fastest_baseline()) {
    json["fastest_baseline_any_layout"] = any->subject;
    json["speedup_any_layout"] = any->cold.median_us / own.cold.median_us;
  }
  return json;
}

}  // namespace warpsmith::cli
