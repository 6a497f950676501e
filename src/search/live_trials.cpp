// Live trials: generate, compile in parallel, then measure one at a time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <utility>

#include "base/hash.h"
#include "search/candidate_trial.h"
#include "search/trials.h"

namespace warpsmith {

namespace {

class LiveTrials : public Trials {
 public:
  LiveTrials(const LiveTrialsOptions& options, const Compiler& compiler, Evaluator& evaluator)
      : options_(options), compiler_(compiler), evaluator_(evaluator) {}

  const Machine& machine() const override { return evaluator_.machine(); }

  int wanted() const override {
    const int jobs = std::max(1, options_.compile_jobs);
    const int queued = static_cast<int>(queue_.size());
    // Quiet: whole rounds, so that all compiles of a round end before its first measurement. Otherwise keep the queue
    // full: the compilers run ahead while the device measures.
    if (options_.quiet_while_measuring) return queued == 0 ? 2 * jobs : 0;
    return std::max(0, 2 * jobs - queued);
  }

  void submit(const Recipe& recipe) override {
    queue_.push_back({recipe, std::async(std::launch::async, [this, recipe] {
                        return compile_candidate(generate(recipe, options_.problem, machine()), compiler_);
                      })});
  }

  bool pending() const override { return !queue_.empty(); }

  Trial next(double best_us) override {
    const auto asked = std::chrono::steady_clock::now();
    if (options_.quiet_while_measuring) {
      for (const Job& job : queue_) job.result.wait();
    }
    Job job = std::move(queue_.front());
    queue_.pop_front();
    const CompiledCandidate compiled = job.result.get();
    Trial trial{job.recipe, {}, {}, std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count()};
    if (compiled.candidate) trial.source_hash = sha256_hex(compiled.candidate->source);
    trial.verdict = judge_candidate(compiled, options_.problem, evaluator_, best_us, options_.effort);
    return trial;
  }

 private:
  struct Job {
    Recipe recipe;
    std::future<CompiledCandidate> result;
  };

  LiveTrialsOptions options_;
  const Compiler& compiler_;
  Evaluator& evaluator_;
  std::deque<Job> queue_;
};

}  // namespace

TimingEffort search_effort(const Machine& machine) {
  TimingEffort effort;
  if (machine.kind == "cpu") return effort;
  effort.screening = true;
  effort.seconds = 0.02;
  return effort;
}

std::unique_ptr<Trials> make_live_trials(const LiveTrialsOptions& options, const Compiler& compiler,
                                         Evaluator& evaluator) {
  return std::make_unique<LiveTrials>(options, compiler, evaluator);
}

}  // namespace warpsmith
