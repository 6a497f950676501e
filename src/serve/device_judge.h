// DeviceJudge: one device's way from a job to its outcome, the same as the search's. Compiling may run on many threads,
// judging on one.
#pragma once

#include <memory>
#include <string>

#include "archive/archive.h"
#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "search/candidate_trial.h"
#include "serve/outcome.h"
#include "serve/store.h"

namespace warpsmith::serve {

class DeviceJudge {
 public:
  virtual ~DeviceJudge() = default;
  virtual CompiledCandidate compile(const Job& job) const = 0;
  // Keeps the verdict in the archive. Error: the environment failed, the candidate may be tried again.
  virtual Result<Outcome> judge(const Job& job, const CompiledCandidate& compiled) = 0;
};

struct JudgeOptions {
  Target target = Target::cpu;
  int threads = 1;
  TimingEffort effort;
  bool paired = false;  // accepted candidates once more, beside the baseline that speed-ups refer to
};

// Over an evaluator of its own. Compiler, archive and store must outlive it.
std::unique_ptr<DeviceJudge> make_device_judge(JudgeOptions options, std::unique_ptr<Evaluator> evaluator,
                                               const Compiler& compiler, Archive& archive, Store& store);

}  // namespace warpsmith::serve
