// Evaluator: the parent's side. Compiles a candidate, has a worker process prove and time it, and turns whatever
// happens (wrong results, crashes, hangs) into a verdict. One bad candidate never costs another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "evaluate/effort.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

struct SurveyReport;
struct SurveyRequest;

struct EvaluateLimits {
  double gate_seconds = 60;      // wall time of all gates of one candidate (references are made beforehand, apart)
  double timing_seconds = 60;    // beyond the time that the effort asks for
  double prepare_seconds = 300;  // inputs and references of a problem, once per worker and problem
  double too_slow_factor = 3;    // stop early when slower than this multiple of the best so far
};

struct EvaluatorOptions {
  Target target = Target::cpu;
  int threads = 1;  // CPU target: threads a kernel may use
  int device = 0;   // CUDA target: device ordinal
  EvaluateLimits limits;
  std::filesystem::path worker;  // executable; empty: warpsmith-worker-cpu or -cuda beside this one
  std::uint64_t seed = 1;        // of the inputs
};

// A comparison of finalists and baselines in one process, batches interleaved in random order.
struct Comparison {
  std::vector<Measurement> subjects;  // "candidate" first, then every baseline of the target for both NN and TN
  std::vector<GateResult> gates;      // of the candidate, on fresh data
  std::optional<PairedScore> score;   // absent where no baseline was timed
  nlohmann::json baseline_choices;    // the fastest algorithms of tuned baselines; null: the backend tunes none
};

// Fresh and faster than anything known: a time below this share of the best so far, or this many times faster than the
// fastest known baseline, is measured again elsewhere and must agree.
inline constexpr double kLeapOverBest = 2, kLeapOverBaseline = 3;
inline constexpr double kLeapAgreement = 0.10;

class Evaluator {
 public:
  // Starts a worker. Error: environment (no GPU, worker executable missing).
  static Result<std::unique_ptr<Evaluator>> start(const EvaluatorOptions& options);
  virtual ~Evaluator() = default;

  // Facts about the device, measured peaks included.
  virtual const Machine& machine() const = 0;

  // Gates, then timing, of an already compiled candidate. best_us: cold time of the best so far, for the early stop and
  // the order of effort; 0: none yet. A leap (see kLeapOverBest) is measured again on another device of the same type
  // where there is one, else in a fresh process, and is suspicious unless the times agree. Never fails: what goes wrong
  // is the verdict.
  virtual Verdict evaluate(const Problem& problem, const Candidate& candidate, const Artifact& artifact, double best_us,
                           const TimingEffort& effort) = 0;

  // Final measurement: the candidate again (all gates, fresh data) and all baselines, interleaved. In mode cuda_l2 the
  // released protocol of CUDA-L2: its correctness criterion in place of the gates, warm calls. Error: failed, when the
  // candidate does not pass, or a leap over the baselines is not confirmed; then refusal, where it is not null,
  // receives the candidate's verdict.
  virtual Result<Comparison> compare(const Problem& problem, const Candidate& candidate, const Artifact& artifact,
                                     const TimingEffort& effort, std::optional<Verdict>* refusal = nullptr) = 0;

  // Baselines alone, for progress ("speed-up so far") before any candidate was accepted. Cached per problem.
  virtual Result<std::vector<Measurement>> baselines(const Problem& problem, const TimingEffort& effort) = 0;

  // Tuned baselines against themselves: each is two subjects, "NAME" and "NAME-again", one after the other.
  virtual Result<std::vector<Measurement>> against_itself(const Problem& problem, const TimingEffort& effort);

  // A shape in all layouts beside all baselines (survey.h). A candidate that is more than kLeapOverBaseline times
  // faster than every baseline is measured again, as in evaluate(), and does not hold where that disagrees. Error:
  // failed for a worker that was lost or a subject that could not be timed; of a candidate that is wrong or crashes the
  // report tells.
  virtual Result<SurveyReport> survey(const SurveyRequest& request);

  // Called while long work goes on, with the share that is done and what it is.
  virtual void on_progress(std::function<void(double, const std::string&)> /*listener*/) {}
};

}  // namespace warpsmith
