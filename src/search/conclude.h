// The end of a search: the fastest candidates are measured again, the best of them is proved on fresh data and compared
// with every baseline in one process, and its source is written where a person can read it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "evaluate/sanitizer.h"
#include "recipe/recipe.h"

namespace warpsmith {

struct ConcludeOptions {
  Archive::Scope scope;
  int finalists = 3;  // measured again before one is chosen: the fastest of many noisy times is a lucky one
  TimingEffort finalist_effort{1.0, 15};
  TimingEffort comparison_effort{1.0, 25};  // of each subject
  std::filesystem::path kernels;            // directory for the winner's source and launch descriptor
  bool sanitize = true;                     // run the sanitizer gate on finalists (CUDA)
  SanitizerOptions sanitizer{};
};

// The baseline with the lowest cold median among `subjects`, over all layouts or only those of `layout` ("nn", "tn";
// empty: all). Null when there is none. The candidate is no baseline.
const Measurement* fastest_of(const std::vector<Measurement>& subjects, std::string_view layout = {});

struct Conclusion {
  std::string recipe;  // its text form; of a free-form candidate, its name
  Comparison comparison;
  ResourceReport resources;
  std::filesystem::path source;  // the kernel, with its launch descriptor beside it (.json)
  SanitizerReport sanitizer;     // empty where only one recipe was asked about

  const Measurement& candidate() const { return comparison.subjects.front(); }
  const Measurement* fastest_baseline(std::string_view layout = {}) const {
    return fastest_of(comparison.subjects, layout);
  }
};

// The fastest finalist that passes every gate again, the sanitizer among them, and holds in the comparison. Error:
// failed when there is none; environment as elsewhere.
Result<Conclusion> conclude(const ConcludeOptions& options, const Compiler& compiler, Evaluator& evaluator,
                            Archive& archive, const std::function<void(const std::string&)>& on_step);

// Compiles and compares one given recipe; conclude() without the choice.
Result<Conclusion> conclude_with(const Recipe& recipe, const ConcludeOptions& options, const Compiler& compiler,
                                 Evaluator& evaluator);

// The same of a candidate that is compiled already; nothing is written. refusal: as of Evaluator::compare.
Result<Conclusion> conclude_with(const std::string& name, const Candidate& candidate, const Artifact& artifact,
                                 const ConcludeOptions& options, Evaluator& evaluator,
                                 std::optional<Verdict>* refusal = nullptr);

nlohmann::json to_json(const Conclusion& conclusion);

}  // namespace warpsmith
