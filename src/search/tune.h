// Tuning of many problems at once: sources compile in parallel while devices measure, problem by problem, everything
// that is ready of one in a row. The problem that has had the least of its share of the devices' time is next, so that
// a run that is cut short has covered all of them; those whose kernels are furthest from what they aim at have the
// largest shares. Where the plan is of declared spaces, problems are measured whole, one after the other, so that a run
// that is cut short has finished the first ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "evaluate/replay/replay.h"
#include "search/tune_plan.h"

namespace warpsmith {

// What a tuning run builds and measures with. build() is called from several threads at once, measure() and compare()
// from one thread a device.
class TuneBench {
 public:
  virtual ~TuneBench() = default;
  virtual int devices() const { return 1; }
  // Identifies the source that a recipe makes; equal ones are built once. Empty: the recipe makes none.
  virtual std::string source_of(const Problem& problem, const Recipe& recipe) const = 0;
  // What kept it from being built; nothing: it can be measured.
  virtual std::optional<Verdict> build(const Problem& problem, const Recipe& recipe) = 0;
  // Of a built one.
  virtual Verdict measure(int device, const Problem& problem, const Recipe& recipe, double best_us,
                          const TimingEffort& effort) = 0;
  // As Evaluator::compare.
  virtual Result<Comparison> compare(int device, const Problem& problem, const Recipe& recipe,
                                     const TimingEffort& effort, std::optional<Verdict>* refusal) = 0;
};

// Compiles for real and measures on the devices of the evaluators, all of the same type; they must outlive the bench.
std::unique_ptr<TuneBench> make_live_bench(const Compiler& compiler, std::vector<Evaluator*> devices);
// Looks up what was recorded; it holds no baselines to compare with.
std::unique_ptr<TuneBench> make_replay_bench(const ReplayTable& table);

struct TuneOptions {
  Machine machine;
  Target target = Target::cpu;
  int threads = 1;
  std::uint64_t seed = 1;
  double budget_seconds = 60;  // of searching; an ongoing measurement is finished
  int build_jobs = 1;
  // Nothing is built while something is measured: needed where compilers and candidates share the cores.
  bool quiet_while_measuring = true;
  TimingEffort effort;        // once a problem has a few accepted times
  TimingEffort first_effort;  // before that
  // Kernels of problems that take no less than this are timed in full when they are the best so far; shorter ones are
  // only screened, since finalists are measured again, and confirming each new best would take most of the time.
  double full_from_us = 0;
  // Cold time of the baseline that progress is measured by, of each problem; 0 or absent: unknown.
  std::vector<double> baseline_us{};
  // The ratio to that baseline that is worth reaching, of each problem; 0 or absent: none.
  std::vector<double> aims{};

  Archive::Scope scope(const Problem& problem) const { return {problem, machine, target, threads}; }
};

struct TuneProgress {
  double elapsed_seconds = 0, budget_seconds = 0;
  std::size_t problems = 0;
  std::size_t covered = 0;      // problems with an accepted time
  std::size_t exhausted = 0;    // problems for which nothing more is known, or whose declared space is measured whole
  std::int64_t unmeasured = 0;  // recipes that could not be tried, the environment being at fault
  int rounds = 0;               // that every problem has behind it
  std::int64_t tried = 0;       // verdicts of this run
  std::int64_t resumed = 0;     // verdicts of earlier runs
  std::size_t sources = 0;      // distinct ones wanted so far
  std::size_t built = 0;        // of those
  // Of the problems with an accepted time and a known baseline; 0: there are none.
  double geometric_mean = 0;
  std::size_t compared = 0;  // how many those are
};

struct TuneResult {
  TuneProgress progress;
  std::map<std::string, std::int64_t> by_kind;  // verdicts of this run
  std::int64_t preparations = 0;                // of a problem in a worker
  double prepare_seconds = 0;                   // their sum
  double measure_seconds = 0;                   // of measuring without preparing, all devices
  double idle_seconds = 0;                      // of devices that waited for a compiler
  bool interrupted = false;
  bool exhausted = false;
};

// The share of the devices' time that a problem deserves beside the others, which have 1 where nothing is known.
// ratio: of the baseline's time to the best kernel's.
double time_share(double ratio, double aim);

// Tells the plan what the archive holds of its problems. Error: as the archive's.
Result<std::int64_t> resume(TunePlan& plan, const TuneOptions& options, const TuneBench& bench, Archive& archive);

// Runs until the budget is spent, `stop` is set, or the plan is exhausted. Every verdict is in the archive before the
// device that gave it measures anything else; those of declared spaces are written some dozens at a time. on_progress
// is called from any thread, one at a time. Error: environment (archive not writable, device gone).
Result<TuneResult> tune(TunePlan& plan, const TuneOptions& options, TuneBench& bench, Archive& archive,
                        const std::function<void(const TuneProgress&)>& on_progress, const std::atomic<bool>& stop);

}  // namespace warpsmith
