// Messages between evaluator and worker: one JSON object a line. The parent sends a WorkerRequest; the worker answers
// with any number of {"stage": NAME} and {"progress": SHARE, "text": ...} notices and then one {"done": ...} or
// {"error": {kind, message}}.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/evaluator.h"
#include "evaluate/verdict.h"

namespace warpsmith {

// Stages that a worker announces; each has its own time limit.
namespace stage {
inline constexpr const char* kPrepare = "prepare";      // inputs and references: no candidate code runs
inline constexpr const char* kBaselines = "baselines";  // opening and tuning the baselines
inline constexpr const char* kGates = "gates";
inline constexpr const char* kTiming = "timing";
}  // namespace stage

struct WorkerRequest {
  std::string operation;  // "machine", "peers", "evaluate", "compare", "baselines", "self" "survey" or "task"
  std::string problem;    // to_string(Problem); of a task its identity
  std::uint64_t seed = 1;
  TimingEffort effort;
  // evaluate and compare:
  std::string binary, key;
  nlohmann::json launch;
  bool order_nondeterministic = false;
  std::string nondeterminism_reason;
  double best_us = 0;      // evaluate: cold time of the best so far; 0: none
  double too_slow_us = 0;  // evaluate: stop early beyond this; 0: never
  nlohmann::json survey;   // survey: a SurveyRequest, beside which nothing above counts
  nlohmann::json task;     // task: what its service is given
};
void to_json(nlohmann::json& json, const WorkerRequest& request);
void from_json(const nlohmann::json& json, WorkerRequest& request);

// The answer to "compare", "baselines" and "self".
struct ComparisonReport {
  std::vector<GateResult> gates;
  std::string crash;  // the device's words, when the candidate did not survive
  std::vector<Measurement> subjects;
  std::optional<PairedScore> score;
  std::map<std::string, std::string> versions;  // of the machine, baseline libraries included
  nlohmann::json baseline_choices;
};
void to_json(nlohmann::json& json, const ComparisonReport& report);
void from_json(const nlohmann::json& json, ComparisonReport& report);

nlohmann::json error_to_json(const Error& error);
Error error_from_json(const nlohmann::json& json);

}  // namespace warpsmith
