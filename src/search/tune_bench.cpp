// Benches: compilers with devices, and a table of recorded verdicts.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/hash.h"
#include "evaluate/resource_gate.h"
#include "search/tune.h"

namespace warpsmith {

namespace {

class LiveBench final : public TuneBench {
 public:
  LiveBench(const Compiler& compiler, std::vector<Evaluator*> devices)
      : compiler_(compiler), devices_(std::move(devices)), machine_(devices_.front()->machine()) {}

  int devices() const override { return static_cast<int>(devices_.size()); }

  std::string source_of(const Problem& problem, const Recipe& recipe) const override {
    const auto candidate = generate(recipe, problem, machine_);
    return candidate ? sha256_hex(candidate->source) : std::string();
  }

  std::optional<Verdict> build(const Problem& problem, const Recipe& recipe) override {
    Verdict refusal;
    const auto candidate = generate(recipe, problem, machine_);
    if (!candidate) {
      refusal.outcome = verdict::Illegal{"legality", candidate.error().message};
      return refusal;
    }
    auto artifact = compiler_.compile(*candidate);
    if (!artifact) {
      if (artifact.error().kind == ErrorKind::environment) {
        refusal.outcome = verdict::Failed{artifact.error().message};
      } else {
        refusal.outcome = verdict::CompileError{artifact.error().message};
      }
      return refusal;
    }
    const GateResult resources = resource_gate(artifact->resources);
    if (!resources.passed) {
      refusal.outcome = verdict::Wrong{resources};
      refusal.gates = {resources};
      refusal.resources = artifact->resources;
      return refusal;
    }
    const std::lock_guard lock(mutex_);
    artifacts_.insert_or_assign(sha256_hex(candidate->source), std::move(*artifact));
    return std::nullopt;
  }

  Verdict measure(int device, const Problem& problem, const Recipe& recipe, double best_us,
                  const TimingEffort& effort) override {
    const auto built = find(problem, recipe);
    if (!built) {
      Verdict verdict;
      verdict.outcome = verdict::Failed{built.error().message};
      return verdict;
    }
    Verdict verdict = on(device).evaluate(problem, built->first, built->second, best_us, effort);
    verdict.compile_seconds = built->second.from_cache ? 0 : built->second.seconds;
    return verdict;
  }

  Result<Comparison> compare(int device, const Problem& problem, const Recipe& recipe, const TimingEffort& effort,
                             std::optional<Verdict>* refusal) override {
    const auto built = find(problem, recipe);
    if (!built) return built.error();
    return on(device).compare(problem, built->first, built->second, effort, refusal);
  }

 private:
  Evaluator& on(int device) const { return *devices_.at(static_cast<std::size_t>(device)); }

  // The candidate for this problem, with the artifact that it shares with others.
  Result<std::pair<Candidate, Artifact>> find(const Problem& problem, const Recipe& recipe) const {
    auto candidate = generate(recipe, problem, machine_);
    if (!candidate) return candidate.error();
    const std::lock_guard lock(mutex_);
    const auto found = artifacts_.find(sha256_hex(candidate->source));
    if (found == artifacts_.end()) return failure("it was not built: " + to_short_string(recipe));
    return std::pair(std::move(*candidate), found->second);
  }

  const Compiler& compiler_;
  std::vector<Evaluator*> devices_;
  Machine machine_;  // a copy: evaluators update theirs while others read
  mutable std::mutex mutex_;
  std::map<std::string, Artifact> artifacts_;  // by source
};

class ReplayBench final : public TuneBench {
 public:
  explicit ReplayBench(const ReplayTable& table) : table_(table) {}

  std::string source_of(const Problem&, const Recipe& recipe) const override { return sha256_hex(to_string(recipe)); }
  std::optional<Verdict> build(const Problem&, const Recipe&) override { return std::nullopt; }
  Verdict measure(int, const Problem& problem, const Recipe& recipe, double, const TimingEffort&) override {
    Verdict verdict = table_.lookup(problem, recipe);
    // The table stands for the environment: what it lacks is a property of the recipe, not a fault to stop at.
    if (const auto* missing = std::get_if<verdict::Failed>(&verdict.outcome)) {
      verdict.outcome = verdict::Illegal{"recorded", missing->reason};
    }
    return verdict;
  }
  Result<Comparison> compare(int, const Problem&, const Recipe&, const TimingEffort&,
                             std::optional<Verdict>*) override {
    return failure("recorded measurements hold no baselines");
  }

 private:
  const ReplayTable& table_;
};

}  // namespace

std::unique_ptr<TuneBench> make_live_bench(const Compiler& compiler, std::vector<Evaluator*> devices) {
  return std::make_unique<LiveBench>(compiler, std::move(devices));
}

std::unique_ptr<TuneBench> make_replay_bench(const ReplayTable& table) { return std::make_unique<ReplayBench>(table); }

}  // namespace warpsmith
