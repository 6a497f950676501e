// The end of tuning a problem: its fastest recipes are measured again, and the best of them is compared with the
// baselines in one process.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "evaluate/evaluator.h"
#include "search/tune.h"

namespace warpsmith {

struct FinishOptions {
  std::size_t finalists = 3;
  TimingEffort finalist_effort{0.05, 9};
  TimingEffort comparison_effort{0.05, 9};  // of each subject
  bool baselines = true;                    // false: the fastest finalist is taken as it was measured again
  // What is kept beside the result, asked after measuring on a device. Empty: nothing.
  std::function<nlohmann::json(int device)> provenance{};
};

// What tuning found for one problem.
struct TuneConclusion {
  Problem problem;
  std::string recipe;                 // full text form
  std::string source_hash;            // of the winner
  std::vector<Measurement> subjects;  // the winner as "candidate" first; baselines where they were measured
  std::vector<GateResult> gates;      // of the winner, all passed
  // The fastest cold and warm times with programmatic dependent launch, of any finalist; 0: none offers it.
  double pdl_us = 0, pdl_warm_us = 0;
  std::string pdl_recipe;
  std::vector<std::string> considered;  // finalists, full text form
  nlohmann::json provenance;
  std::string created;  // ISO 8601 UTC; of an earlier run's

  const Measurement& ours() const { return subjects.front(); }
};
nlohmann::json to_json(const TuneConclusion& conclusion);  // as the archive keeps it
// Error: failed for a comparison that was not made by tuning.
Result<TuneConclusion> tune_conclusion_from(const Problem& problem, const ComparisonRecord& record);

// The archive's conclusion of the problem, when it still stands: its kernel's source is today's, and no recipe that did
// not take part is known to be faster. Error: as the archive's.
Result<std::optional<TuneConclusion>> standing_conclusion(const TunePlan& plan, std::size_t index,
                                                          const FinishOptions& finish, const TuneOptions& options,
                                                          const TuneBench& bench, Archive& archive);

// Measures and records. Error: failed when no recipe holds, with the last reason; environment as elsewhere.
Result<TuneConclusion> finish_problem(const TunePlan& plan, std::size_t index, int device, const FinishOptions& finish,
                                      const TuneOptions& options, TuneBench& bench, Archive& archive);

}  // namespace warpsmith
