// Finalists, variants with programmatic dependent launch, and the comparison.
#include "search/tune_finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace warpsmith {

namespace {

constexpr const char* kPdlKnob = "pdl";

struct Finalist {
  Recipe recipe;
  Measurement measurement;
  std::vector<GateResult> gates;
  AttemptRecord attempt;

  double cold_us() const { return measurement.cold.median_us; }
};

// The problem's fastest, and the first of them as it would be with programmatic dependent launch, if it is without.
std::vector<Recipe> finalists_of(const TunePlan& plan, std::size_t index, const FinishOptions& finish,
                                 const Machine& machine) {
  std::vector<Recipe> recipes;
  for (const TunePlan::Ranked& ranked : plan.ranking(index)) {
    if (recipes.size() == finish.finalists) break;
    recipes.push_back(ranked.recipe);
  }
  if (recipes.empty()) return recipes;
  for (const KnobField* field : recipes.front().family().fields()) {
    if (field->name != kPdlKnob || recipes.front().get(kPdlKnob) != field->default_value) continue;
    for (const int value : field->values) {
      Recipe variant = recipes.front();
      variant.set(kPdlKnob, value);
      if (value == field->default_value || !is_legal(variant, plan.problem(index), machine)) continue;
      if (std::find(recipes.begin(), recipes.end(), variant) == recipes.end()) recipes.push_back(std::move(variant));
    }
  }
  return recipes;
}

// The latest verdict of each finalist, the accepted ones fastest first.
Result<std::vector<Finalist>> measure_again(const std::vector<Recipe>& recipes, const Problem& problem, int device,
                                            const FinishOptions& finish, const TuneOptions& options, TuneBench& bench,
                                            Archive& archive, std::string& last_reason) {
  std::vector<Finalist> finalists;
  for (const Recipe& recipe : recipes) {
    AttemptRecord attempt;
    attempt.recipe = to_string(recipe);
    attempt.source_hash = bench.source_of(problem, recipe);
    attempt.policy = "finalist";
    attempt.seed = options.seed;
    if (auto refusal = bench.build(problem, recipe)) {
      attempt.verdict = std::move(*refusal);
    } else {
      attempt.verdict = bench.measure(device, problem, recipe, 0, finish.finalist_effort);
    }
    if (const Status status = archive.record(options.scope(problem), attempt); !status) return status.error();
    if (const auto* failed = std::get_if<verdict::Failed>(&attempt.verdict.outcome)) {
      return environment_error(failed->reason);
    }
    if (const auto* accepted = attempt.verdict.accepted()) {
      finalists.push_back({recipe, accepted->measurement, attempt.verdict.gates, attempt});
    } else {
      last_reason = attempt.verdict.describe();
    }
  }
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.cold_us() < b.cold_us(); });
  return finalists;
}

void note_pdl(TuneConclusion& conclusion, const std::string& recipe, const Measurement& measurement) {
  if (!measurement.cold_pdl || !(measurement.cold_pdl->median_us > 0)) return;
  if (conclusion.pdl_us > 0 && conclusion.pdl_us <= measurement.cold_pdl->median_us) return;
  conclusion.pdl_us = measurement.cold_pdl->median_us;
  conclusion.pdl_warm_us = measurement.warm_pdl ? measurement.warm_pdl->median_us : 0;
  conclusion.pdl_recipe = recipe;
}

}  // namespace

nlohmann::json to_json(const TuneConclusion& conclusion) {
  return {
      {"tuned", 1},
      {"recipe", conclusion.recipe},
      {"source_hash", conclusion.source_hash},
      {"subjects", conclusion.subjects},
      {"gates", conclusion.gates},
      {"pdl", {{"recipe", conclusion.pdl_recipe}, {"cold_us", conclusion.pdl_us}, {"warm_us", conclusion.pdl_warm_us}}},
      {"considered", conclusion.considered},
      {"provenance", conclusion.provenance}};
}

Result<TuneConclusion> tune_conclusion_from(const Problem& problem, const ComparisonRecord& record) {
  try {
    if (!record.result.contains("tuned")) return failure("the comparison is not one of tuning");
    TuneConclusion conclusion;
    conclusion.problem = problem;
    conclusion.recipe = record.result.at("recipe").get<std::string>();
    conclusion.source_hash = record.result.at("source_hash").get<std::string>();
    conclusion.subjects = record.result.at("subjects").get<std::vector<Measurement>>();
    conclusion.gates = record.result.at("gates").get<std::vector<GateResult>>();
    conclusion.pdl_recipe = record.result.at("pdl").at("recipe").get<std::string>();
    conclusion.pdl_us = record.result.at("pdl").at("cold_us").get<double>();
    conclusion.pdl_warm_us = record.result.at("pdl").at("warm_us").get<double>();
    conclusion.considered = record.result.at("considered").get<std::vector<std::string>>();
    conclusion.provenance = record.result.at("provenance");
    conclusion.created = record.created;
    if (conclusion.subjects.empty()) return failure("the comparison has no subjects");
    return conclusion;
  } catch (const nlohmann::json::exception& error) {
    return failure(fmt::format("the comparison is garbled: {}", error.what()));
  }
}

Result<std::optional<TuneConclusion>> standing_conclusion(const TunePlan& plan, std::size_t index,
                                                          const FinishOptions& finish, const TuneOptions& options,
                                                          const TuneBench& bench, Archive& archive) {
  const std::optional<TuneConclusion> none;
  const Problem& problem = plan.problem(index);
  const auto record = archive.last_comparison(options.scope(problem));
  if (!record) return record.error();
  if (!*record) return none;
  const auto conclusion = tune_conclusion_from(problem, **record);
  if (!conclusion || (finish.baselines && conclusion->subjects.size() < 2)) return none;
  const auto recipe = parse_recipe(conclusion->recipe);
  if (!recipe || bench.source_of(problem, *recipe) != conclusion->source_hash) return none;
  // Faster ones that did not take part speak against it.
  const auto& considered = conclusion->considered;
  for (const TunePlan::Ranked& ranked : plan.ranking(index)) {
    const std::string text = to_string(ranked.recipe);
    if (text == conclusion->recipe) break;
    if (std::find(considered.begin(), considered.end(), text) == considered.end()) return none;
  }
  return std::optional(*conclusion);
}

Result<TuneConclusion> finish_problem(const TunePlan& plan, std::size_t index, int device, const FinishOptions& finish,
                                      const TuneOptions& options, TuneBench& bench, Archive& archive) {
  const Problem& problem = plan.problem(index);
  std::string last_reason = "no candidate was accepted";
  const std::vector<Recipe> recipes = finalists_of(plan, index, finish, options.machine);
  const auto finalists = measure_again(recipes, problem, device, finish, options, bench, archive, last_reason);
  if (!finalists) return finalists.error();
  TuneConclusion conclusion;
  conclusion.problem = problem;
  for (const Recipe& recipe : recipes) conclusion.considered.push_back(to_string(recipe));
  for (const Finalist& finalist : *finalists) note_pdl(conclusion, to_string(finalist.recipe), finalist.measurement);
  for (const Finalist& finalist : *finalists) {
    conclusion.recipe = to_string(finalist.recipe);
    conclusion.source_hash = bench.source_of(problem, finalist.recipe);
    if (finish.baselines) {
      std::optional<Verdict> refusal;
      auto comparison = bench.compare(device, problem, finalist.recipe, finish.comparison_effort, &refusal);
      if (!comparison && comparison.error().kind == ErrorKind::environment) return comparison.error();
      if (!comparison) {
        last_reason = comparison.error().message;
        if (refusal) {
          AttemptRecord attempt = finalist.attempt;
          attempt.verdict = std::move(*refusal);
          if (const Status status = archive.record(options.scope(problem), attempt); !status) return status.error();
        }
        continue;
      }
      conclusion.subjects = std::move(comparison->subjects);
      conclusion.gates = std::move(comparison->gates);
    } else {
      conclusion.subjects = {finalist.measurement};
      conclusion.gates = finalist.gates;
    }
    note_pdl(conclusion, conclusion.recipe, conclusion.ours());
    if (finish.provenance) conclusion.provenance = finish.provenance(device);
    const Status recorded =
        archive.record_comparison(options.scope(problem), {conclusion.recipe, to_json(conclusion), std::string()});
    if (!recorded) return recorded.error();
    return conclusion;
  }
  return failure(fmt::format("{}: no kernel to conclude with: {}", to_string(problem), last_reason));
}

}  // namespace warpsmith
