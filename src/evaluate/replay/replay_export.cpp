// From an archive's attempts to a replay table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluate/replay/replay.h"

namespace warpsmith {

namespace {

ReplayTable::Entry to_entry(const Verdict& verdict) {
  ReplayTable::Entry entry{std::string(verdict.kind()), std::nullopt, std::nullopt};
  const auto positive = [](double time_us) { return time_us > 0 ? std::optional(time_us) : std::nullopt; };
  if (const auto* accepted = verdict.accepted()) {
    entry.cold_us = positive(accepted->measurement.cold.median_us);
    entry.warm_us = positive(accepted->measurement.warm.median_us);
    for (const GateResult& gate : verdict.gates) {
      if (!gate.gate.starts_with("bound/") || !(gate.worst_error >= 0) || !std::isfinite(gate.worst_error)) continue;
      entry.error = std::max(entry.error.value_or(0), gate.worst_error);
    }
  } else if (const auto* slow = std::get_if<verdict::TooSlow>(&verdict.outcome)) {
    entry.cold_us = positive(slow->time_us);
  } else if (const auto* suspicious = std::get_if<verdict::Suspicious>(&verdict.outcome)) {
    entry.cold_us = positive(suspicious->time_us);
  }
  return entry;
}

// Recipes of the problem's declared space as text; empty: none was declared, and all count.
std::set<std::string> declared_texts(const ReplaySelection& selection, const Problem& problem) {
  std::set<std::string> texts;
  if (selection.spaces == nullptr) return texts;
  for (const Recipe& recipe : selection.spaces->space(problem)) texts.insert(to_string(recipe));
  return texts;
}

Status add_scope(Archive& archive, const Archive::Scope& scope, const ReplaySelection& selection, ReplayTable& table) {
  const auto history = archive.history(scope);
  if (!history) return history.error();
  const auto summaries = archive.summaries(scope);
  if (!summaries) return summaries.error();
  std::set<std::int64_t> revoked;  // accepted attempts that do not stand
  for (const AttemptSummary& attempt : *summaries) {
    if (attempt.kind == "accepted" && !attempt.cold_us) revoked.insert(attempt.id);
  }
  const std::set<std::string> declared = declared_texts(selection, scope.problem);
  std::set<std::string> added;
  for (auto attempt = history->rbegin(); attempt != history->rend(); ++attempt) {
    if (std::holds_alternative<verdict::Failed>(attempt->verdict.outcome) || revoked.count(attempt->id) != 0) continue;
    const auto recipe = parse_recipe(attempt->recipe);
    if (!recipe || table.contains(scope.problem, *recipe) || !added.insert(to_string(*recipe)).second) continue;
    if (!declared.empty() && declared.count(to_string(*recipe)) == 0) continue;
    const ReplayTable::Entry entry = to_entry(attempt->verdict);
    if (entry.kind == "accepted" && !entry.cold_us) continue;  // its time is not a positive number
    if (const Status status = table.add(scope.problem, attempt->recipe, entry); !status) {
      return bad_input(fmt::format("attempt {}: {}", attempt->id, status.error().message));
    }
  }
  return ok_status();
}

// The fastest baseline of the problem's layout in the last comparison, where there was one.
Status add_reference(Archive& archive, const Archive::Scope& scope, ReplayTable& table) {
  if (table.reference_us(scope.problem) > 0) return ok_status();  // of a later archive
  const auto comparison = archive.last_comparison(scope);
  if (!comparison) return comparison.error();
  if (!*comparison) return ok_status();
  double fastest_us = 0;
  // Baselines carry their layout as a word: "cublaslt-auto-nn", "openblas-sgemm-nn-2t".
  const std::string layout = fmt::format("-{}", to_string(scope.problem.layout));
  try {
    for (const auto& json : (*comparison)->result.at("subjects")) {
      const auto subject = json.get<Measurement>();
      const double time_us = subject.cold.median_us;
      if (subject.subject == "candidate" || !(time_us > 0) || !std::isfinite(time_us)) continue;
      if (subject.subject.find(layout) == std::string::npos) continue;
      if (fastest_us == 0 || time_us < fastest_us) fastest_us = time_us;
    }
  } catch (const nlohmann::json::exception&) {
    return ok_status();  // a comparison of another form says nothing here
  }
  return fastest_us > 0 ? table.set_reference(scope.problem, fastest_us) : ok_status();
}

bool matches(const Archive::Scope& scope, const ReplaySelection& selection) {
  const bool threads_fit = is_cuda(selection.target) || scope.threads == selection.threads;
  const auto& problems = selection.problems;
  if (!problems.empty() && std::find(problems.begin(), problems.end(), scope.problem) == problems.end()) return false;
  return scope.machine.id() == selection.machine && scope.target == selection.target && threads_fit;
}

Error nothing_recorded(const std::vector<Archive::Scope>& scopes, const ReplaySelection& selection) {
  std::set<std::string> present;
  for (const Archive::Scope& scope : scopes) {
    present.insert(fmt::format("'{}' {} with {} threads", scope.machine.id(), to_string(scope.target), scope.threads));
  }
  return bad_input(fmt::format("the archive holds nothing for '{}' {} with {} threads; it holds: {}", selection.machine,
                               to_string(selection.target), selection.threads,
                               present.empty() ? "nothing" : fmt::format("{}", fmt::join(present, ", "))));
}

}  // namespace

Result<ReplayTable> export_replay_table(Archive& archive, const ReplaySelection& selection, nlohmann::json provenance) {
  return export_replay_table(std::vector<Archive*>{&archive}, selection, std::move(provenance));
}

Result<ReplayTable> export_replay_table(const std::vector<Archive*>& archives, const ReplaySelection& selection,
                                        nlohmann::json provenance) {
  std::optional<ReplayTable> table;
  std::vector<Archive::Scope> met;
  for (auto archive = archives.rbegin(); archive != archives.rend(); ++archive) {
    const auto scopes = (*archive)->scopes();
    if (!scopes) return scopes.error();
    met.insert(met.end(), scopes->begin(), scopes->end());
    for (const Archive::Scope& scope : *scopes) {
      if (!matches(scope, selection)) continue;
      if (!table) table.emplace(scope.machine, selection.target, scope.threads, provenance);
      if (const Status status = add_scope(**archive, scope, selection, *table); !status) return status.error();
      if (const Status status = add_reference(**archive, scope, *table); !status) return status.error();
    }
  }
  if (!table || table->size() == 0) return nothing_recorded(met, selection);
  if (selection.spaces != nullptr) table->set_declared(*selection.spaces);
  return std::move(*table);
}

}  // namespace warpsmith
