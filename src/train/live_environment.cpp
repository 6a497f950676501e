// The live environment: the search's trials, the archive as memory.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "search/conclude.h"
#include "search/trials.h"
#include "train/environment.h"

namespace warpsmith::train {

namespace {

class LiveEnvironment : public Environment {
 public:
  LiveEnvironment(LiveOptions options, const Compiler& compiler, Evaluator& evaluator, Archive& archive)
      : options_(std::move(options)), compiler_(compiler), evaluator_(evaluator), archive_(archive) {}

  std::string name() const override { return std::string(to_string(options_.target)); }
  const Machine& machine() const override { return evaluator_.machine(); }
  Target target() const override { return options_.target; }
  std::vector<Problem> problems() const override { return options_.problems; }

  std::vector<KnownRecipe> known(const Problem& problem) const override {
    std::vector<KnownRecipe> list;
    const auto history = archive_.summaries(scope(problem));
    if (!history) return list;
    for (const AttemptSummary& attempt : *history) {
      const auto recipe = parse_recipe(attempt.recipe);
      if (recipe && attempt.cold_us) list.push_back({*recipe, *attempt.cold_us});
    }
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
    return list;
  }

  // The fastest baseline of the problem's layout, measured once.
  Result<double> reference_us(const Problem& problem) override {
    const std::string key = to_string(problem);
    if (const auto found = references_.find(key); found != references_.end()) return found->second;
    const auto measured = evaluator_.baselines(problem, {0.05, 5});
    if (!measured) return measured.error();
    const Measurement* fastest = fastest_of(*measured, to_string(problem.layout));
    if (fastest == nullptr || !(fastest->cold.median_us > 0)) {
      return environment_error(fmt::format("no baseline of {} could be timed, and rewards refer to it", key));
    }
    return references_[key] = fastest->cold.median_us;
  }

  std::string reference_kind() const override { return "baseline"; }

  Result<std::vector<Measured>> measure(const Problem& problem, const std::vector<Recipe>& recipes,
                                        double best_us) override {
    LiveTrialsOptions trials_options;
    trials_options.problem = problem;
    trials_options.compile_jobs = options_.compile_jobs;
    trials_options.quiet_while_measuring = options_.target == Target::cpu;
    trials_options.effort = search_effort(machine());
    const auto trials = make_live_trials(trials_options, compiler_, evaluator_);
    for (const Recipe& recipe : recipes) trials->submit(recipe);
    std::vector<Measured> results;
    for (std::size_t i = 0; i < recipes.size(); ++i) {
      const Trial trial = trials->next(best_us);
      if (const auto* failed = std::get_if<verdict::Failed>(&trial.verdict.outcome))
        return environment_error(failed->reason);
      if (const Status status = keep(problem, trial); !status) return status.error();
      Measured measured{std::string(trial.verdict.kind()), right_time_us(trial.verdict), 0};
      for (const GateResult& gate : trial.verdict.gates) {
        if (!gate.gate.starts_with("bound/")) continue;
        if (gate.worst_error > measured.difference) measured.difference = gate.worst_error;
      }
      results.push_back(std::move(measured));
    }
    return results;
  }

 private:
  Archive::Scope scope(const Problem& problem) const {
    return {problem, evaluator_.machine(), options_.target, options_.threads};
  }

  Status keep(const Problem& problem, const Trial& trial) {
    AttemptRecord attempt;
    attempt.recipe = to_string(trial.recipe);
    attempt.source_hash = trial.source_hash;
    attempt.policy = options_.policy;
    attempt.verdict = trial.verdict;
    return archive_.record(scope(problem), attempt);
  }

  LiveOptions options_;
  const Compiler& compiler_;
  Evaluator& evaluator_;
  Archive& archive_;
  std::map<std::string, double> references_;
};

}  // namespace

std::unique_ptr<Environment> make_live_environment(LiveOptions options, const Compiler& compiler, Evaluator& evaluator,
                                                   Archive& archive) {
  return std::make_unique<LiveEnvironment>(std::move(options), compiler, evaluator, archive);
}

}  // namespace warpsmith::train
