// The optimise loop: a policy proposes, trials judge, the archive remembers. Resumes from what the archive holds.
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
#include "policy/policy.h"
#include "search/trials.h"

namespace warpsmith {

struct OptimizeOptions {
  Archive::Scope scope;  // problem, machine, target, threads
  std::string policy = "evolution";
  // What policy "model" needs: see PolicyContext.
  std::shared_ptr<const embedded::LoadedModel> model{};
  std::shared_ptr<embedded::InRunLearner> learner{};
  double reference_us = 0;
  std::uint64_t seed = 1;
  double budget_seconds = 60;       // of searching; an ongoing measurement is finished
  std::int64_t max_candidates = 0;  // 0: no limit
};

// A snapshot for the progress display.
struct OptimizeProgress {
  double elapsed_seconds = 0;
  double budget_seconds = 0;
  std::int64_t tried = 0;    // in this run
  std::int64_t resumed = 0;  // known from earlier runs
  std::optional<double> best_us;
  std::string best_recipe;  // short form
};

struct OptimizeResult {
  std::int64_t tried = 0, resumed = 0;
  std::map<std::string, std::int64_t> by_kind;        // verdicts of this problem, earlier runs included
  std::map<std::string, std::int64_t> wrong_by_gate;  // of those, the failed gate of wrong ones in this run
  std::optional<BestRecord> best;
  double elapsed_seconds = 0;
  double bookkeeping_ms = 0;  // mean per candidate of everything but compiling, proving and timing
  bool exhausted = false;     // the policy knew no further recipe
  bool interrupted = false;
};

// Runs until the budget or the candidates are used up, `stop` is set, or the policy is exhausted. Every verdict is
// durable in the archive before the next is asked for. Error: bad_input (no legal recipe, unknown policy), environment
// (archive not writable, device gone).
Result<OptimizeResult> optimize(const OptimizeOptions& options, Trials& trials, Archive& archive,
                                const std::function<void(const OptimizeProgress&)>& on_progress,
                                const std::atomic<bool>& stop);

}  // namespace warpsmith
