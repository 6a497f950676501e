// The kernels that take part in a survey of a shape: chosen, built, and as wisdom once they are measured.
#pragma once

#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "evaluate/survey.h"
#include "report/provenance.h"
#include "survey_recipes.h"
#include "wisdom/wisdom.h"

namespace warpsmith::cli {

// A kernel that takes part, built.
struct SurveyKernel {
  std::string name;  // "ours-nn"; "ours-nn-pdl": for its times with dependent launch alone
  Problem problem;
  std::string recipe, source_hash, origin;  // recipe: full text form
  std::string pdl_recipe;                   // as ChosenRecipe
  double known_us = 0;                      // likewise
  Candidate candidate;
  Artifact artifact;
  std::vector<ChosenRecipe> others;  // taken in turn when this one does not hold

  std::string rival_of;  // as SurveyCandidate

  bool is_variant() const { return name.ends_with("-pdl"); }
};

// As the worker wants it.
SurveyCandidate survey_candidate(const SurveyKernel& entrant);

// Compiles each source once. Thread-safe.
class KernelBuilder {
 public:
  KernelBuilder(const Compiler& compiler, Machine machine) : compiler_(compiler), machine_(std::move(machine)) {}

  // Error: bad_input for a recipe that is not legal, failed for one that does not compile or fails the resource gate.
  Result<SurveyKernel> build(const Problem& problem, const ChosenRecipe& chosen, const std::string& name);
  // The first that can be built, with those behind it as its others. Error: failed, with the last reason, when none
  // can.
  Result<SurveyKernel> build_first(const Problem& problem, const std::vector<ChosenRecipe>& chosen,
                                   const std::string& name);
  // The same, with its rivals behind it: those that were measured nearly as fast, or all where nothing was measured.
  // Error: as build_first().
  enum class Rivals { none, allowed };
  Result<std::vector<SurveyKernel>> build_contest(const Problem& problem, const std::vector<ChosenRecipe>& chosen,
                                                  const std::string& name, Rivals rivals);
  // Adds, behind the fastest entrant and those near it, the same with dependent launch, or what is known to be the
  // fastest then; what cannot be built is left out.
  void add_variants(std::vector<SurveyKernel>& entrants);

 private:
  Result<Artifact> compiled(const std::string& hash, const Candidate& candidate);
  std::optional<Recipe> dependent_launch_of(const SurveyKernel& entrant) const;

  const Compiler& compiler_;
  Machine machine_;
  std::mutex mutex_;
  std::map<std::string, std::shared_future<Result<Artifact>>> known_;  // by source
};

// Gives names to the winners of contests, and takes out their rivals. Of each contest a JSON object by the name:
// [{"recipe", "source_hash", "cold_us"}] of those that lost; the time is null for one that did not hold.
nlohmann::json settle_contests(std::vector<SurveyKernel>& entrants, const SurveyReport& report);

// Names of the subjects of an offline row that are called: of ours and of each baseline the faster layout.
std::vector<std::string> faster_subjects(const nlohmann::json& row);
// Ours of an offline row, built again. Error: failed.
Result<std::vector<SurveyKernel>> entrants_of(const nlohmann::json& row, const std::vector<std::string>& names,
                                              const Problem& shape, KernelBuilder& builder);

// Each layout's kernel with the fastest baseline of its layout, as they were measured in mode offline; none where that
// was not asked for.
std::vector<WisdomEntry> wisdom_entries(const std::vector<SurveyKernel>& entrants, const SurveyReport& report,
                                        const Provenance& provenance);

}  // namespace warpsmith::cli
