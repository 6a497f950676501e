// As conclude() does for matrix products, without libraries to compare with.
#include "task/finish.h"

#include <algorithm>
#include <set>
#include <utility>

#include "task/optimize.h"

namespace warpsmith::task {

namespace {

constexpr const char* kPolicy = "finalist";

// The identities of the fastest accepted candidates, each once; what was ever found wrong is none of them.
Result<std::vector<std::string>> fastest(Archive& archive, const Archive::Scope& scope, std::size_t count) {
  const auto history = archive.summaries(scope);
  if (!history) return history.error();
  std::vector<std::pair<double, std::string>> accepted;
  std::set<std::string> left_out;
  for (const AttemptSummary& attempt : *history) {
    if (attempt.kind == "wrong") left_out.insert(attempt.recipe);
    if (attempt.cold_us) accepted.emplace_back(*attempt.cold_us, attempt.recipe);
  }
  std::sort(accepted.begin(), accepted.end());
  std::vector<std::string> names;
  for (const auto& [time_us, name] : accepted) {
    if (names.size() < count && left_out.insert(name).second) names.push_back(name);
  }
  return names;
}

struct Finalist {
  TaskCandidate candidate;
  TaskOutcome outcome;
  double time_us() const { return outcome.verdict.accepted()->measurement.cold.median_us; }
};

}  // namespace

Result<TaskConclusion> finish(TaskSession& session, Archive& archive, const std::vector<TaskCandidate>& known,
                              const FinishOptions& options, const std::function<void(const std::string&)>& on_step) {
  const auto names = fastest(archive, session.scope(), options.finalists);
  if (!names) return names.error();
  std::string last_reason = "no candidate was accepted";
  std::vector<Finalist> finalists;
  TimingEffort effort;
  effort.seconds = options.seconds;
  for (const std::string& name : *names) {
    const auto candidate = find_candidate(session.task(), archive, known, name);
    if (!candidate) return candidate.error();
    if (!*candidate) continue;
    on_step("measuring again: " + (*candidate)->short_name());
    Finalist finalist{**candidate, session.evaluate(**candidate, 0, effort)};
    const Status kept = record_attempt(archive, session, finalist.candidate, finalist.outcome, kPolicy, options.seed);
    if (!kept) return kept.error();
    last_reason = finalist.outcome.verdict.describe();
    if (finalist.outcome.verdict.accepted() != nullptr) finalists.push_back(std::move(finalist));
  }
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.time_us() < b.time_us(); });
  for (Finalist& finalist : finalists) {
    on_step("watched by the sanitizer: " + finalist.candidate.short_name());
    SanitizerReport sanitizer = options.sanitize(finalist.candidate);
    const SanitizerCheck* failed = sanitizer.first_failure();
    if (failed == nullptr) {
      return TaskConclusion{std::move(finalist.candidate), std::move(finalist.outcome.verdict), std::move(sanitizer)};
    }
    Verdict& verdict = finalist.outcome.verdict;
    verdict.gates.push_back({"sanitizer/" + failed->tool, false, failed->detail, 0});
    verdict.outcome = verdict::Wrong{verdict.gates.back()};
    last_reason = verdict.describe();
    const Status kept = record_attempt(archive, session, finalist.candidate, finalist.outcome, kPolicy, options.seed);
    if (!kept) return kept.error();
  }
  return failure(last_reason);
}

}  // namespace warpsmith::task
