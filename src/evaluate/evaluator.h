// Evaluator: the parent's side. Compiles a candidate, has a worker process prove and time it, and turns whatever
// happens (wrong results, crashes, hangs) into a verdict. One bad candidate never costs another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

struct EvaluateLimits {
  double gate_seconds = 60;  // wall time of all gates of one candidate (references are made beforehand, apart)
  double timing_seconds = 60;
  double prepare_seconds = 300;  // inputs and references of a problem, once per worker and problem
  double too_slow_factor = 3;    // stop early when slower than this multiple of the best so far
};

struct TimingEffort {
  double seconds = 0.3;  // wall time to spend on timing one candidate, cold and warm together
  int min_samples = 9;   // batches per mode
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
};

class Evaluator {
 public:
  // Starts a worker. Error: environment (no GPU, worker executable missing).
  static Result<std::unique_ptr<Evaluator>> start(const EvaluatorOptions& options);
  virtual ~Evaluator() = default;

  // Facts about the device, measured peaks included.
  virtual const Machine& machine() const = 0;

  // Gates, then timing, of an already compiled candidate. best_us: cold time of the best so far, for the early stop and
  // the order of effort; 0: none yet. Never fails: what goes wrong is the verdict.
  virtual Verdict evaluate(const Problem& problem, const Candidate& candidate, const Artifact& artifact, double best_us,
                           const TimingEffort& effort) = 0;

  // Final measurement: the candidate again (all gates, fresh data) and all baselines, interleaved.
  virtual Result<Comparison> compare(const Problem& problem, const Candidate& candidate, const Artifact& artifact,
                                     const TimingEffort& effort) = 0;

  // Baselines alone, for progress ("speed-up so far") before any candidate was accepted. Cached per problem.
  virtual Result<std::vector<Measurement>> baselines(const Problem& problem, const TimingEffort& effort) = 0;
};

}  // namespace warpsmith
