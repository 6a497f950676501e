// Choosing among finalists, the comparison with the baselines, and the winner's files.
#include "search/conclude.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/hash.h"

namespace warpsmith {

namespace {

// The fastest accepted recipes of the archive, best first, each once.
Result<std::vector<Recipe>> fastest_recipes(Archive& archive, const Archive::Scope& scope, int count) {
  const auto history = archive.summaries(scope);
  if (!history) return history.error();
  std::vector<std::pair<double, std::string>> accepted;
  for (const AttemptSummary& attempt : *history) {
    if (attempt.cold_us) accepted.emplace_back(*attempt.cold_us, attempt.recipe);
  }
  std::sort(accepted.begin(), accepted.end());
  std::vector<Recipe> recipes;
  std::set<std::string> seen;
  for (const auto& [time_us, text] : accepted) {
    if (static_cast<int>(recipes.size()) == count) break;
    if (!seen.insert(text).second) continue;
    const auto recipe = parse_recipe(text);
    if (recipe && is_legal(*recipe, scope.problem, scope.machine)) recipes.push_back(*recipe);
  }
  return recipes;
}

struct Built {
  Candidate candidate;
  Artifact artifact;
};

Result<Built> build(const Recipe& recipe, const Archive::Scope& scope, const Compiler& compiler) {
  auto candidate = generate(recipe, scope.problem, scope.machine);
  if (!candidate) return candidate.error();
  auto artifact = compiler.compile(*candidate);
  if (!artifact) return artifact.error();
  return Built{std::move(*candidate), std::move(*artifact)};
}

// "1024x1024x1024-nn-f16-f32-sm90"
std::string file_stem(const Archive::Scope& scope) {
  std::string stem = to_string(scope.problem) + " " + std::string(to_string(scope.target));
  if (scope.target == Target::cpu) stem += fmt::format(" {}t", scope.threads);
  std::replace(stem.begin(), stem.end(), ' ', '-');
  return stem;
}

Result<std::filesystem::path> write_kernel(const std::filesystem::path& directory, const Archive::Scope& scope,
                                           const Recipe& recipe, const Candidate& candidate) {
  const bool cuda = candidate.language == Language::cuda;
  const std::filesystem::path source = directory / (file_stem(scope) + (cuda ? ".cu" : ".cpp"));
  if (const Status status = write_file_atomic(source, candidate.source); !status) return status.error();
  nlohmann::json descriptor = {{"problem", to_string(scope.problem)},
                               {"recipe", to_string(recipe)},
                               {"arch", candidate.arch},
                               {"machine", scope.machine}};
  std::visit([&descriptor](const auto& launch) { descriptor["launch"] = launch; }, candidate.launch);
  std::filesystem::path beside = source;
  beside.replace_extension(".json");
  if (const Status status = write_file_atomic(beside, descriptor.dump(2) + "\n"); !status) return status.error();
  return source;
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

Result<Conclusion> conclude_with(const Recipe& recipe, const ConcludeOptions& options, const Compiler& compiler,
                                 Evaluator& evaluator) {
  const auto built = build(recipe, options.scope, compiler);
  if (!built) return built.error();
  auto comparison =
      evaluator.compare(options.scope.problem, built->candidate, built->artifact, options.comparison_effort);
  if (!comparison) return comparison.error();
  Conclusion conclusion{recipe, std::move(*comparison), built->artifact.resources, {}};
  if (!options.kernels.empty()) {
    auto source = write_kernel(options.kernels, options.scope, recipe, built->candidate);
    if (!source) return source.error();
    conclusion.source = std::move(*source);
  }
  return conclusion;
}

Result<Conclusion> conclude(const ConcludeOptions& options, const Compiler& compiler, Evaluator& evaluator,
                            Archive& archive, const std::function<void(const std::string&)>& on_step) {
  const auto recipes = fastest_recipes(archive, options.scope, options.finalists);
  if (!recipes) return recipes.error();
  std::optional<Recipe> winner;
  double winner_us = 0;
  std::string last_reason = "no candidate was accepted";
  for (const Recipe& recipe : *recipes) {
    on_step("measuring again: " + to_short_string(recipe));
    const auto built = build(recipe, options.scope, compiler);
    if (!built) {
      last_reason = built.error().message;
      continue;
    }
    AttemptRecord attempt;
    attempt.recipe = to_string(recipe);
    attempt.source_hash = sha256_hex(built->candidate.source);
    attempt.policy = "finalist";
    attempt.verdict =
        evaluator.evaluate(options.scope.problem, built->candidate, built->artifact, 0, options.finalist_effort);
    if (const Status status = archive.record(options.scope, attempt); !status) return status.error();
    const auto* accepted = attempt.verdict.accepted();
    if (accepted == nullptr) {
      last_reason = attempt.verdict.describe();
      continue;
    }
    const double time_us = accepted->measurement.cold.median_us;
    if (!winner || time_us < winner_us) {
      winner = recipe;
      winner_us = time_us;
    }
  }
  if (!winner) return failure("no kernel to conclude with: " + last_reason);
  on_step("comparing with the baselines: " + to_short_string(*winner));
  auto conclusion = conclude_with(*winner, options, compiler, evaluator);
  if (!conclusion) return conclusion.error();
  const Status recorded =
      archive.record_comparison(options.scope, {to_string(*winner), to_json(*conclusion), std::string()});
  if (!recorded) return recorded.error();
  return conclusion;
}

nlohmann::json to_json(const Conclusion& conclusion) {
  nlohmann::json gates = nlohmann::json::array();
  for (const GateResult& gate : conclusion.comparison.gates) gates.push_back(gate);
  return {{"recipe", to_string(conclusion.recipe)},
          {"subjects", conclusion.comparison.subjects},
          {"gates", std::move(gates)},
          {"resources", conclusion.resources},
          {"source", conclusion.source.string()}};
}

}  // namespace warpsmith
