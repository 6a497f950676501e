// Environments: what answers a policy that learns. A recorded table, or a device with the whole evaluator behind it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "evaluate/replay/replay.h"
#include "train/reward.h"

namespace warpsmith::train {

// A recipe that is known beforehand to pass the gates.
struct KnownRecipe {
  Recipe recipe;
  double time_us = 0;
};

class Environment {
 public:
  virtual ~Environment() = default;
  virtual std::string name() const = 0;
  virtual const Machine& machine() const = 0;
  virtual Target target() const = 0;
  virtual std::vector<Problem> problems() const = 0;
  virtual std::vector<Problem> held_out() const { return {}; }               // as declared; empty: no declaration
  virtual std::vector<KnownRecipe> known(const Problem& problem) const = 0;  // fastest first
  // Everything that can be measured, good and poor; empty: every legal recipe.
  virtual std::vector<Recipe> space(const Problem& /*problem*/) const { return {}; }
  // Recipes of the problem's declared space; 0: none was declared. With fewer in space(), measuring is not finished.
  virtual std::size_t declared(const Problem& /*problem*/) const { return 0; }
  // The time that speed-ups refer to, and what it is: "baseline" (the fastest of the problem's layout) or "floor".
  // Error: environment, where it has to be measured and cannot.
  virtual Result<double> reference_us(const Problem& problem) = 0;
  virtual std::string reference_kind() const = 0;
  // One measurement each, in order. Error: environment.
  virtual Result<std::vector<Measured>> measure(const Problem& problem, const std::vector<Recipe>& recipes,
                                                double best_us) = 0;
};

// A recipe that the table lacks costs a measurement and gains nothing.
std::unique_ptr<Environment> make_replay_environment(ReplayTable table, std::string name);

struct LiveOptions {
  Target target = Target::cpu;
  int threads = 1;
  std::vector<Problem> problems;
  int compile_jobs = 1;
  std::string policy = "model-training";  // as whose proposals the archive keeps what is measured
};
// Compiler, evaluator and archive must outlive it. What is measured goes into the archive, what the archive holds is
// known. Leaps are measured again by the evaluator.
std::unique_ptr<Environment> make_live_environment(LiveOptions options, const Compiler& compiler, Evaluator& evaluator,
                                                   Archive& archive);

}  // namespace warpsmith::train
