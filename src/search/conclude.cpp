// Choosing among finalists, the comparison with the baselines, and the winner's files.
#include "search/conclude.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "evaluate/resource_gate.h"
#include "search/kernel_files.h"
#include "search/named_candidate.h"

namespace warpsmith {

namespace {

// The names of the archive's fastest accepted candidates, best first, each once.
Result<std::vector<std::string>> fastest_candidates(Archive& archive, const Archive::Scope& scope, int count) {
  const auto history = archive.summaries(scope);
  if (!history) return history.error();
  std::vector<std::pair<double, std::string>> accepted;
  for (const AttemptSummary& attempt : *history) {
    if (attempt.cold_us) accepted.emplace_back(*attempt.cold_us, attempt.recipe);
  }
  std::sort(accepted.begin(), accepted.end());
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const auto& [time_us, name] : accepted) {
    if (static_cast<int>(names.size()) == count) break;
    if (!seen.insert(name).second) continue;
    const auto recipe = parse_recipe(name);
    const bool legal = recipe && is_legal(*recipe, scope.problem, scope.machine);
    if (legal || is_free_form_name(name)) names.push_back(name);
  }
  return names;
}

struct Built {
  Candidate candidate;
  Artifact artifact;
};

Result<Built> build(Result<Candidate> candidate, const Compiler& compiler) {
  if (!candidate) return candidate.error();
  auto artifact = compiler.compile(*candidate);
  if (!artifact) return artifact.error();
  const GateResult resources = resource_gate(artifact->resources);
  if (!resources.passed) return failure(fmt::format("gate {}: {}", resources.gate, resources.detail));
  return Built{std::move(*candidate), std::move(*artifact)};
}

struct Finalist {
  std::string name;
  Candidate candidate;
  Artifact artifact;
  AttemptRecord attempt;
  double time_us = 0;
};

// Those that pass every gate once more, the fastest first; last_reason: why the last of the others did not.
Result<std::vector<Finalist>> measure_again(const std::vector<std::string>& names, const ConcludeOptions& options,
                                            const Compiler& compiler, Evaluator& evaluator, Archive& archive,
                                            const std::function<void(const std::string&)>& on_step,
                                            std::string& last_reason) {
  std::vector<Finalist> finalists;
  for (const std::string& name : names) {
    on_step("measuring again: " + short_name(name));
    auto built = build(named_candidate(name, options.scope, &archive), compiler);
    if (!built) {
      last_reason = built.error().message;
      continue;
    }
    AttemptRecord attempt;
    attempt.recipe = name;
    attempt.source_hash = sha256_hex(built->candidate.source);
    attempt.policy = "finalist";
    attempt.verdict =
        evaluator.evaluate(options.scope.problem, built->candidate, built->artifact, 0, options.finalist_effort);
    if (const Status status = archive.record(options.scope, attempt); !status) return status.error();
    if (const auto* accepted = attempt.verdict.accepted(); accepted != nullptr) {
      const double time_us = accepted->measurement.cold.median_us;
      finalists.push_back({name, std::move(built->candidate), std::move(built->artifact), attempt, time_us});
    } else {
      last_reason = attempt.verdict.describe();
    }
  }
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.time_us < b.time_us; });
  return finalists;
}

// On the first of the sanitizer's problems that the candidate can be made for.
SanitizerReport sanitize(const std::string& name, const ConcludeOptions& options, const Compiler& compiler,
                         Archive& archive) {
  if (!is_cuda(options.scope.target)) return sanitizer_not_run("it watches CUDA kernels only");
  if (!options.sanitize) return sanitizer_not_run("not asked for");
  for (const Problem& problem : sanitizer_problems(options.scope.problem)) {
    Archive::Scope scope = options.scope;
    scope.problem = problem;
    const auto built = build(named_candidate(name, scope, &archive), compiler);
    if (built) return run_sanitizer(problem, built->candidate, built->artifact, options.sanitizer);
  }
  return sanitizer_not_run("the candidate cannot be built for the sanitizer's sizes");
}

}  // namespace

const Measurement* fastest_of(const std::vector<Measurement>& subjects, std::string_view layout) {
  const Measurement* fastest = nullptr;
  for (const Measurement& subject : subjects) {
    // Baseline names carry their layout as a word: "cublaslt-auto-nn", "openblas-sgemm-nn-2t".
    const bool matches = subject.subject != "candidate" &&
                         (layout.empty() || subject.subject.find(fmt::format("-{}", layout)) != std::string::npos);
    if (matches && (fastest == nullptr || subject.cold.median_us < fastest->cold.median_us)) fastest = &subject;
  }
  return fastest;
}

Result<Conclusion> conclude_with(const std::string& name, const Candidate& candidate, const Artifact& artifact,
                                 const ConcludeOptions& options, Evaluator& evaluator,
                                 std::optional<Verdict>* refusal) {
  auto comparison = evaluator.compare(options.scope.problem, candidate, artifact, options.comparison_effort, refusal);
  if (!comparison) return comparison.error();
  return Conclusion{name, std::move(*comparison), artifact.resources, {}, {}};
}

Result<Conclusion> conclude_with(const Recipe& recipe, const ConcludeOptions& options, const Compiler& compiler,
                                 Evaluator& evaluator) {
  const auto built = build(generate(recipe, options.scope.problem, options.scope.machine), compiler);
  if (!built) return built.error();
  auto conclusion = conclude_with(to_string(recipe), built->candidate, built->artifact, options, evaluator);
  if (!conclusion) return conclusion.error();
  if (!options.kernels.empty()) {
    auto source = write_kernel(options.kernels, options.scope, recipe, built->candidate);
    if (!source) return source.error();
    conclusion->source = std::move(*source);
  }
  return conclusion;
}

Result<Conclusion> conclude(const ConcludeOptions& options, const Compiler& compiler, Evaluator& evaluator,
                            Archive& archive, const std::function<void(const std::string&)>& on_step) {
  const auto names = fastest_candidates(archive, options.scope, options.finalists);
  if (!names) return names.error();
  std::string last_reason = "no candidate was accepted";
  const auto finalists = measure_again(*names, options, compiler, evaluator, archive, on_step, last_reason);
  if (!finalists) return finalists.error();
  for (const Finalist& finalist : *finalists) {
    const std::string name = short_name(finalist.name);
    on_step("watched by the sanitizer: " + name);
    SanitizerReport sanitizer = sanitize(finalist.name, options, compiler, archive);
    if (const SanitizerCheck* failed = sanitizer.first_failure(); failed != nullptr) {
      AttemptRecord attempt = finalist.attempt;
      attempt.verdict.gates.push_back({"sanitizer/" + failed->tool, false, failed->detail, 0});
      attempt.verdict.outcome = verdict::Wrong{attempt.verdict.gates.back()};
      last_reason = attempt.verdict.describe();
      if (const Status status = archive.record(options.scope, attempt); !status) return status.error();
      continue;
    }
    on_step("comparing with the baselines: " + name);
    std::optional<Verdict> refusal;
    auto conclusion = conclude_with(finalist.name, finalist.candidate, finalist.artifact, options, evaluator, &refusal);
    if (!conclusion && conclusion.error().kind == ErrorKind::environment) return conclusion.error();
    if (!conclusion) {
      last_reason = conclusion.error().message;
      if (refusal) {
        AttemptRecord attempt = finalist.attempt;
        attempt.verdict = std::move(*refusal);
        if (const Status status = archive.record(options.scope, attempt); !status) return status.error();
      }
      continue;
    }
    conclusion->sanitizer = std::move(sanitizer);
    if (!options.kernels.empty()) {
      auto source = write_kernel(options.kernels, options.scope, finalist.name, finalist.candidate, &archive);
      if (!source) return source.error();
      conclusion->source = std::move(*source);
    }
    const Status recorded =
        archive.record_comparison(options.scope, {finalist.name, to_json(*conclusion), std::string()});
    if (!recorded) return recorded.error();
    return conclusion;
  }
  return failure("no kernel to conclude with: " + last_reason);
}

nlohmann::json to_json(const Conclusion& conclusion) {
  nlohmann::json gates = nlohmann::json::array();
  for (const GateResult& gate : conclusion.comparison.gates) gates.push_back(gate);
  return {{"recipe", conclusion.recipe},       {"subjects", conclusion.comparison.subjects},
          {"gates", std::move(gates)},         {"resources", conclusion.resources},
          {"sanitizer", conclusion.sanitizer}, {"source", conclusion.source.string()}};
}

}  // namespace warpsmith
