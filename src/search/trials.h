// Trials: from recipe to verdict. The search submits recipes and takes verdicts; whether they come from a compiler and
// a device or from a recorded table is hidden here.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "evaluate/replay/replay.h"
#include "recipe/recipe.h"

namespace warpsmith {

struct Trial {
  Recipe recipe;
  Verdict verdict;
  std::string source_hash;          // empty when nothing was compiled
  double compile_wait_seconds = 0;  // how long the search stood still for the compilers
};

class Trials {
 public:
  virtual ~Trials() = default;
  virtual const Machine& machine() const = 0;

  // How many more recipes are wanted now, to keep compilers busy without disturbing measurements.
  virtual int wanted() const = 0;
  virtual void submit(const Recipe& recipe) = 0;
  virtual bool pending() const = 0;
  // The verdict of one submitted recipe, in submission order. Precondition: pending(). best_us: cold time of the best
  // so far, 0 when there is none.
  virtual Trial next(double best_us) = 0;
};

// The gate before running: a generated kernel neither spills registers nor has its wgmma serialised. Passes for
// compilers that report no resources.
GateResult resource_gate(const ResourceReport& report);

struct LiveTrialsOptions {
  Problem problem;
  int compile_jobs = 1;
  // Nothing compiles while a candidate is measured: needed where compilers and candidates share the cores.
  bool quiet_while_measuring = true;
  TimingEffort effort;
};

std::unique_ptr<Trials> make_live_trials(const LiveTrialsOptions& options, const Compiler& compiler,
                                         Evaluator& evaluator);

// Verdicts from a table of recorded measurements; both must outlive the trials.
std::unique_ptr<Trials> make_replay_trials(const Problem& problem, const ReplayTable& table);

}  // namespace warpsmith
