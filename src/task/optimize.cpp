// Ask, evaluate, record, tell.
#include "task/optimize.h"

#include <fmt/format.h>

#include <chrono>
#include <set>

namespace warpsmith::task {

namespace {

constexpr const char* kPolicy = "tuned";
constexpr int kMaxFailuresInARow = 5;

std::optional<double> accepted_time(const Verdict& verdict) {
  const auto* accepted = verdict.accepted();
  if (accepted == nullptr) return std::nullopt;
  return accepted->measurement.cold.median_us;
}

// Of the candidates, with the macros' values that the identity names.
std::optional<TaskCandidate> find(const std::vector<TaskCandidate>& candidates, const std::string& identity) {
  for (const TaskCandidate& one : candidates) {
    TaskCandidate candidate = one;
    if (candidate.identity() == identity) return candidate;
    for (auto& [macro, value] : candidate.chosen) {
      const std::string marker = fmt::format(" {}=", macro);
      const std::size_t at = identity.rfind(marker);
      if (at != std::string::npos) value = std::strtoll(identity.c_str() + at + marker.size(), nullptr, 10);
    }
    if (candidate.identity() == identity) return candidate;
  }
  return std::nullopt;
}

}  // namespace

Status record_attempt(Archive& archive, const TaskSession& session, const TaskCandidate& candidate,
                      const TaskOutcome& outcome, const std::string& policy, std::uint64_t seed) {
  AttemptRecord attempt;
  attempt.recipe = candidate.identity();
  attempt.source_hash = outcome.source_hash;
  attempt.policy = policy;
  attempt.seed = seed;
  attempt.verdict = outcome.verdict;
  const Status kept = archive.record_free_form({attempt.recipe, candidate.form.source, candidate.descriptor});
  return kept ? archive.record(session.scope(), attempt) : kept;
}

Result<std::optional<TaskCandidate>> find_candidate(const Task& task, Archive& archive,
                                                    const std::vector<TaskCandidate>& known,
                                                    const std::string& identity) {
  using Found = std::optional<TaskCandidate>;
  if (auto one = find(known, identity)) return Found(std::move(*one));
  const auto record = archive.find_free_form(identity);
  if (!record) return record.error();
  if (!*record) return Found();
  auto parsed = parse_task_candidate(task, (*record)->source, (*record)->descriptor);
  if (!parsed) return Found();  // of a format that has changed since
  return find({std::move(*parsed)}, identity);
}

Result<OptimizeTaskResult> optimize_task(TaskSession& session, std::vector<TaskCandidate> candidates, Archive& archive,
                                         const OptimizeTaskOptions& options,
                                         const std::function<void(const TaskProgress&)>& on_progress,
                                         const std::atomic<bool>& stop) {
  if (candidates.empty()) {
    return bad_input(fmt::format("{} has no candidates for this target; give some with --candidate",
                                 session.task().directory.string()));
  }
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  OptimizeTaskResult result;
  TunedProposals proposals(candidates, options.seed);
  std::optional<double> best_us;
  std::string best;
  const auto history = archive.summaries(session.scope());
  if (!history) return history.error();
  for (const AttemptSummary& attempt : *history) {
    ++result.by_kind[attempt.kind];
    if (attempt.kind == "failed") continue;
    proposals.forget(attempt.recipe);
    ++result.resumed;
    const auto known = find(candidates, attempt.recipe);
    if (known) proposals.tell(*known, attempt.cold_us);
    if (attempt.cold_us && (!best_us || *attempt.cold_us < *best_us)) {
      best_us = attempt.cold_us;
      best = known ? known->short_name() : attempt.recipe.substr(0, 20);
    }
  }
  int failures = 0;
  while (!stop.load() && elapsed() < options.budget_seconds &&
         (options.max_candidates == 0 || result.tried < options.max_candidates)) {
    const auto candidate = proposals.ask();
    result.exhausted = !candidate;
    if (!candidate) break;
    const TaskOutcome outcome = session.evaluate(*candidate, best_us.value_or(0), task_effort(session.machine()));
    const Status recorded = record_attempt(archive, session, *candidate, outcome, kPolicy, options.seed);
    if (!recorded) return recorded.error();
    ++result.tried;
    ++result.by_kind[std::string(outcome.verdict.kind())];
    if (const auto* failed = std::get_if<verdict::Failed>(&outcome.verdict.outcome)) {
      if (++failures >= kMaxFailuresInARow || failures == result.tried) {
        return environment_error(
            fmt::format("the candidate {} could not be tried: {}", candidate->short_name(), failed->reason));
      }
    } else {
      failures = 0;
    }
    const auto time_us = accepted_time(outcome.verdict);
    proposals.tell(*candidate, time_us);
    if (time_us && result.first_us == 0) result.first_us = *time_us;
    if (time_us && (!best_us || *time_us < *best_us)) {
      best_us = time_us;
      best = candidate->short_name();
    }
    on_progress({elapsed(), options.budget_seconds, result.tried, result.resumed, best_us, best});
  }
  result.interrupted = stop.load();
  auto record = archive.best(session.scope());
  if (!record) return record.error();
  result.best = std::move(*record);
  if (result.best) {
    auto winner = find_candidate(session.task(), archive, candidates, result.best->recipe);
    if (!winner) return winner.error();
    result.winner = std::move(*winner);
  }
  result.elapsed_seconds = elapsed();
  return result;
}

}  // namespace warpsmith::task
