// Trials: from recipe to verdict. The search submits recipes and takes verdicts; whether they come from a compiler and
// a device or from a recorded table is hidden here.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "evaluate/replay/replay.h"
#include "evaluate/resource_gate.h"
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

// What a search spends on a candidate: on a CUDA device most are only screened, and the best of many is timed again at
// the end; a CPU's times scatter too much for that.
TimingEffort search_effort(const Machine& machine);

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
