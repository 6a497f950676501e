// The optimise loop on a task without a language model: shipped candidates and the values of their macros. Every
// verdict is in the archive before the next candidate is tried; what the archive holds is not tried again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "task/candidates.h"
#include "task/session.h"

namespace warpsmith::task {

struct OptimizeTaskOptions {
  std::uint64_t seed = 1;
  double budget_seconds = 60;
  std::int64_t max_candidates = 0;  // 0: no limit
};

struct TaskProgress {
  double elapsed_seconds = 0, budget_seconds = 0;
  std::int64_t tried = 0, resumed = 0;
  std::optional<double> best_us;
  std::string best;  // short name
};

struct OptimizeTaskResult {
  std::int64_t tried = 0, resumed = 0;
  std::map<std::string, std::int64_t> by_kind;  // verdicts, earlier runs included
  std::optional<BestRecord> best;               // over all runs
  std::optional<TaskCandidate> winner;          // the best one
  double first_us = 0;                          // the first candidate that was accepted in this run; 0: none
  bool exhausted = false, interrupted = false;
  double elapsed_seconds = 0;
};

// Error: bad_input without candidates; environment.
Result<OptimizeTaskResult> optimize_task(TaskSession& session, std::vector<TaskCandidate> candidates, Archive& archive,
                                         const OptimizeTaskOptions& options,
                                         const std::function<void(const TaskProgress&)>& on_progress,
                                         const std::atomic<bool>& stop);

// A candidate of the archive by its identity: one of `known`, or what record_attempt() kept. nullopt: there is none.
Result<std::optional<TaskCandidate>> find_candidate(const Task& task, Archive& archive,
                                                    const std::vector<TaskCandidate>& known,
                                                    const std::string& identity);

// One evaluation as a row of the archive, whoever proposed it, with the candidate's texts.
Status record_attempt(Archive& archive, const TaskSession& session, const TaskCandidate& candidate,
                      const TaskOutcome& outcome, const std::string& policy, std::uint64_t seed);

}  // namespace warpsmith::task
