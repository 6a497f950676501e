// Verdicts as fates.
#include "evaluated.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace warpsmith::attacks {

namespace {

namespace fs = std::filesystem;

// An accepted attack has gained nothing when its quoted time is at least this share of the honest kernel's.
constexpr double kGainedNothing = 0.92;

TimingEffort quick_effort() {
  TimingEffort effort;
  effort.seconds = 0.1;
  effort.min_samples = 7;
  return effort;
}

EvaluatorOptions options() {
  EvaluatorOptions options;
  options.target = Target::sm90;
  options.limits.gate_seconds = 5;
  options.limits.timing_seconds = 15;
  return options;
}

CompilerOptions compiler_options(const fs::path& cache) {
  CompilerOptions options;
  options.cache = cache;
  options.timeout_seconds = 20;
  options.memory_bytes = 4ULL << 30;
  return options;
}

}  // namespace

Evaluated::Evaluated(const fs::path& cache) : compiler_(compiler_options(cache)) {}

Result<std::unique_ptr<Evaluated>> Evaluated::start(const fs::path& cache) {
  auto evaluator = Evaluator::start(options());
  if (!evaluator) return evaluator.error();
  auto evaluated = std::unique_ptr<Evaluated>(new Evaluated(cache));
  evaluated->evaluator_ = std::move(*evaluator);
  return evaluated;
}

Candidate Evaluated::candidate(const fs::path& source, const Problem& problem) const {
  const Result<FreeForm> form = load_candidate(source);
  if (!form) throw EnvironmentError(form.error().message);
  Result<Candidate> candidate = instantiate(*form, problem, machine());
  if (!candidate) throw EnvironmentError(candidate.error().message);
  return std::move(candidate).value();
}

Verdict Evaluated::evaluate(const fs::path& source, const Problem& problem) {
  const Candidate made = candidate(source, problem);
  const Result<Artifact> artifact = compiler_.compile(made);
  if (!artifact) {
    Verdict verdict;
    verdict.outcome = verdict::CompileError{artifact.error().message};
    return verdict;
  }
  return evaluator_->evaluate(problem, made, *artifact, 0, quick_effort());
}

double Evaluated::honest_cold_us(const fs::path& honest, const Problem& problem) {
  const std::string key = to_string(problem);
  const auto known = honest_us_.find(key);
  if (known != honest_us_.end()) return known->second;
  const Verdict verdict = evaluate(honest, problem);
  if (verdict.accepted() == nullptr) throw EnvironmentError("the honest kernel: " + verdict.describe());
  return honest_us_[key] = verdict.accepted()->measurement.cold.median_us;
}

Fate Evaluated::attack(const fs::path& source, const Problem& problem, const fs::path& honest) {
  const Verdict verdict = evaluate(source, problem);
  const std::string how = verdict.describe();
  if (std::holds_alternative<verdict::CompileError>(verdict.outcome)) return {{"compile"}, how};
  if (const auto* wrong = std::get_if<verdict::Wrong>(&verdict.outcome)) return {{wrong->gate.gate}, how};
  if (const auto* accepted = verdict.accepted()) {
    const TimingStats& cold = accepted->measurement.cold;
    const double honest_us = honest_cold_us(honest, problem);
    const std::string times =
        fmt::format("accepted as right; cold time {:.2f} us (warm {:.2f} us), the honest kernel's {:.2f} us",
                    cold.median_us, accepted->measurement.warm.median_us, honest_us);
    if (cold.median_us >= kGainedNothing * honest_us) return {{"neutralised"}, times};
    return {{}, times};
  }
  if (std::holds_alternative<verdict::Failed>(verdict.outcome)) throw EnvironmentError(how);
  return {{std::string(verdict.kind())}, how};
}

void Evaluated::compile_ahead(const std::vector<fs::path>& sources, const Problem& problem) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) {
      const Result<FreeForm> form = load_candidate(sources[i]);
      if (!form) continue;
      const Result<Candidate> made = instantiate(*form, problem, machine());
      if (made) static_cast<void>(compiler_.compile(*made));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace warpsmith::attacks
