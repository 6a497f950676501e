// The optimise loop.
#include "search/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "search/starting_points.h"

namespace warpsmith {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::optional<double> accepted_time(const Verdict& verdict) {
  const auto* accepted = verdict.accepted();
  if (accepted == nullptr) return std::nullopt;
  return accepted->measurement.cold.median_us;
}

// A failed environment says nothing about the recipe; several in a row mean that going on is pointless.
constexpr int kMaxFailuresInARow = 5;
constexpr std::string_view kFailed = "failed";  // Verdict::kind() of verdict::Failed

class Loop {
 public:
  Loop(const OptimizeOptions& options, Trials& trials, Archive& archive)
      : options_(options), trials_(trials), archive_(archive) {}

  Status prepare();
  Status run(const std::function<void(const OptimizeProgress&)>& on_progress, const std::atomic<bool>& stop);
  Result<OptimizeResult> finish();

 private:
  Status resume();
  Status absorb(const Trial& trial);
  Error could_not_try() const {
    return environment_error(
        fmt::format("{} candidates in a row could not be tried: {}", failures_in_a_row_, last_failure_));
  }
  bool may_ask(const std::atomic<bool>& stop) const;
  OptimizeProgress progress() const;

  const OptimizeOptions& options_;
  Trials& trials_;
  Archive& archive_;
  std::unique_ptr<Policy> policy_;
  OptimizeResult result_;
  std::int64_t asked_ = 0;
  std::optional<double> best_us_;
  std::string best_recipe_;
  int failures_in_a_row_ = 0;
  std::string last_failure_;
  double busy_seconds_ = 0;  // waiting for compilers, preparing, proving, timing
  Clock::time_point start_ = Clock::now();
};

Status Loop::prepare() {
  PolicyContext context;
  context.problem = options_.scope.problem;
  context.machine = options_.scope.machine;
  context.seed = options_.seed;
  context.model = options_.model;
  context.learner = options_.learner;
  context.reference_us = options_.reference_us;
  context.expected_us = expected_times(context.problem, context.machine);
  StartingPoints starts = find_starting_points(context.problem, context.machine, options_.scope.target);
  context.starting_points = starts.all();
  context.families = std::move(starts.families);
  auto policy = make_policy(options_.policy, std::move(context));
  if (!policy) return policy.error();
  policy_ = std::move(*policy);
  return resume();
}

Status Loop::resume() {
  const auto history = archive_.summaries(options_.scope);
  if (!history) return history.error();
  for (const AttemptSummary& attempt : *history) {
    ++result_.by_kind[attempt.kind];
    // A recipe of a knob table that has changed since is history only for the reader.
    const auto recipe = parse_recipe(attempt.recipe);
    if (!recipe || attempt.kind == kFailed) continue;
    policy_->tell(*recipe, {attempt.cold_us, attempt.kind});
    if (attempt.cold_us && (!best_us_ || *attempt.cold_us < *best_us_)) {
      best_us_ = attempt.cold_us;
      best_recipe_ = to_short_string(*recipe);
    }
    ++result_.resumed;
  }
  return ok_status();
}

bool Loop::may_ask(const std::atomic<bool>& stop) const {
  if (stop.load()) return false;
  if (options_.max_candidates > 0 && asked_ >= options_.max_candidates) return false;
  return seconds_since(start_) < options_.budget_seconds;
}

OptimizeProgress Loop::progress() const {
  return {seconds_since(start_), options_.budget_seconds, result_.tried, result_.resumed, best_us_, best_recipe_};
}

Status Loop::run(const std::function<void(const OptimizeProgress&)>& on_progress, const std::atomic<bool>& stop) {
  for (;;) {
    while (!result_.exhausted && trials_.wanted() > 0 && may_ask(stop)) {
      const auto recipe = policy_->ask();
      if (!recipe) {
        result_.exhausted = true;
        break;
      }
      trials_.submit(*recipe);
      ++asked_;
    }
    // What was submitted but not yet measured when time is up is dropped: a verdict costs more than asking again.
    if (!trials_.pending() || stop.load() || seconds_since(start_) >= options_.budget_seconds) break;
    const Trial trial = trials_.next(best_us_.value_or(0));
    const Verdict& verdict = trial.verdict;
    busy_seconds_ +=
        trial.compile_wait_seconds + verdict.prepare_seconds + verdict.gate_seconds + verdict.timing_seconds;
    if (const Status status = absorb(trial); !status) return status.error();
    on_progress(progress());
  }
  result_.interrupted = stop.load();
  if (result_.tried > 0 && failures_in_a_row_ == result_.tried) return could_not_try();
  return ok_status();
}

Status Loop::absorb(const Trial& trial) {
  const auto time_us = accepted_time(trial.verdict);
  const std::string kind(trial.verdict.kind());
  AttemptRecord attempt;
  attempt.recipe = to_string(trial.recipe);
  attempt.source_hash = trial.source_hash;
  attempt.policy = std::string(policy_->name());
  attempt.seed = options_.seed;
  attempt.verdict = trial.verdict;
  if (const Status status = archive_.record(options_.scope, attempt); !status) return status.error();
  ++result_.tried;
  ++result_.by_kind[kind];
  if (const auto* wrong = std::get_if<verdict::Wrong>(&trial.verdict.outcome))
    ++result_.wrong_by_gate[wrong->gate.gate];
  if (const auto* failed = std::get_if<verdict::Failed>(&trial.verdict.outcome)) {
    last_failure_ = failed->reason;
    if (++failures_in_a_row_ >= kMaxFailuresInARow) return could_not_try();
  } else {
    failures_in_a_row_ = 0;
  }
  policy_->tell(trial.recipe, {time_us, kind});
  if (time_us && (!best_us_ || *time_us < *best_us_)) {
    best_us_ = time_us;
    best_recipe_ = to_short_string(trial.recipe);
  }
  return ok_status();
}

Result<OptimizeResult> Loop::finish() {
  auto best = archive_.best(options_.scope);
  if (!best) return best.error();
  result_.best = std::move(*best);
  result_.elapsed_seconds = seconds_since(start_);
  if (result_.tried > 0) {
    result_.bookkeeping_ms = 1e3 * (result_.elapsed_seconds - busy_seconds_) / static_cast<double>(result_.tried);
  }
  return std::move(result_);
}

}  // namespace

Result<OptimizeResult> optimize(const OptimizeOptions& options, Trials& trials, Archive& archive,
                                const std::function<void(const OptimizeProgress&)>& on_progress,
                                const std::atomic<bool>& stop) {
  Loop loop(options, trials, archive);
  if (const Status status = loop.prepare(); !status) return status.error();
  if (const Status status = loop.run(on_progress, stop); !status) return status.error();
  return loop.finish();
}

}  // namespace warpsmith
