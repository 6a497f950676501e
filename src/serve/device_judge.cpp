// Judging on a real device.
#include "serve/device_judge.h"

#include <set>
#include <utility>

#include "base/hash.h"
#include "codegen/descriptor.h"
#include "policy/embedded/model_policy.h"
#include "recipe/recipe.h"
#include "search/conclude.h"

namespace warpsmith::serve {

namespace {

constexpr const char* kPolicy = "serve";  // as whose proposals the archive keeps them
constexpr const char* kFloor = "floor";   // the reference where no baseline computes the problem
constexpr double kBaselineSeconds = 0.05;
constexpr int kBaselineSamples = 5;

Result<Candidate> make_candidate(const Job& job, const Machine& machine) {
  if (job.source.empty()) {
    const auto recipe = parse_recipe(job.name);
    if (!recipe) return recipe.error();
    return generate(*recipe, job.problem, machine);
  }
  const auto form = parse_candidate(job.descriptor, job.source, "candidate.json");
  if (!form) return form.error();
  return instantiate(*form, job.problem, machine);
}

class EvaluatorJudge final : public DeviceJudge {
 public:
  EvaluatorJudge(JudgeOptions options, std::unique_ptr<Evaluator> evaluator, const Compiler& compiler, Archive& archive,
                 Store& store)
      : options_(std::move(options)),
        evaluator_(std::move(evaluator)),
        machine_(evaluator_->machine()),
        compiler_(compiler),
        archive_(archive),
        store_(store) {}

  CompiledCandidate compile(const Job& job) const override {
    return compile_candidate(make_candidate(job, machine_), compiler_);
  }

  Result<Outcome> judge(const Job& job, const CompiledCandidate& compiled) override {
    Outcome outcome;
    if (!compiled.error) {
      const auto reference = reference_of(job.problem);
      if (!reference) return reference.error();
      outcome.reference = reference->name;
      outcome.reference_us = reference->time_us;
    }
    // Without a best so far: a reward must not depend on who came before.
    outcome.verdict = judge_candidate(compiled, job.problem, *evaluator_, 0, options_.effort);
    if (const auto* failed = std::get_if<verdict::Failed>(&outcome.verdict.outcome)) {
      return environment_error(failed->reason);
    }
    if (!job.source.empty()) {
      if (const Status kept = archive_.record_free_form({job.name, job.source, job.descriptor}); !kept) {
        return kept.error();
      }
    }
    if (options_.paired && outcome.verdict.accepted() != nullptr && outcome.reference != kFloor) {
      if (const Status paired = pair(job, compiled, outcome); !paired) return paired.error();
    }
    AttemptRecord attempt;
    attempt.recipe = job.name;
    if (compiled.candidate) attempt.source_hash = sha256_hex(compiled.candidate->source);
    attempt.policy = kPolicy;
    attempt.verdict = outcome.verdict;
    const Status kept = archive_.record({job.problem, machine_, options_.target, options_.threads}, attempt);
    if (!kept) return kept.error();
    return outcome;
  }

 private:
  // What does not hold beside the baseline, on fresh data, is not accepted.
  Status pair(const Job& job, const CompiledCandidate& compiled, Outcome& outcome) {
    TimingEffort effort = options_.effort;
    effort.baselines = {outcome.reference};
    auto comparison = evaluator_->compare(job.problem, *compiled.candidate, *compiled.artifact, effort);
    if (comparison) {
      if (comparison->score && comparison->score->usable && comparison->score->value > 0) {
        outcome.paired = std::move(comparison->score);
      }
      return ok_status();
    }
    if (comparison.error().kind != ErrorKind::failed) return comparison.error();
    const double time_us = outcome.verdict.accepted()->measurement.cold.median_us;
    outcome.verdict.outcome = verdict::Suspicious{comparison.error().message, time_us};
    return ok_status();
  }

  // The fastest baseline of the problem's layout; measured by every server, because the evaluator's guard against leaps
  // needs it, but what the first one has found stays what speed-ups refer to.
  Result<Store::Reference> reference_of(const Problem& problem) {
    const std::string key = to_string(problem);
    auto known = store_.reference(machine_.id(), key);
    if (!known) return known.error();
    if (*known && measured_.count(key) != 0) return **known;
    const auto baselines = evaluator_->baselines(problem, {kBaselineSeconds, kBaselineSamples});
    if (!baselines) return baselines.error();
    measured_.insert(key);
    if (*known) return **known;
    const Measurement* fastest = fastest_of(*baselines, to_string(problem.layout));
    Store::Reference reference{embedded::reference_time_us(problem, machine_, 0), kFloor};
    if (fastest != nullptr && fastest->cold.median_us > 0) reference = {fastest->cold.median_us, fastest->subject};
    if (const Status kept = store_.keep_reference(machine_.id(), key, reference); !kept) return kept.error();
    return reference;
  }

  const JudgeOptions options_;
  const std::unique_ptr<Evaluator> evaluator_;
  const Machine machine_;
  const Compiler& compiler_;
  Archive& archive_;
  Store& store_;
  std::set<std::string> measured_;  // problems whose baselines this process has measured
};

}  // namespace

std::unique_ptr<DeviceJudge> make_device_judge(JudgeOptions options, std::unique_ptr<Evaluator> evaluator,
                                               const Compiler& compiler, Archive& archive, Store& store) {
  return std::make_unique<EvaluatorJudge>(std::move(options), std::move(evaluator), compiler, archive, store);
}

}  // namespace warpsmith::serve
