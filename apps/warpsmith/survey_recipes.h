// Which kernels a survey measures: of a problem the recipes that were measured fastest, by wisdom and archive, or what
// would be taken without having measured it. And what is known of the baselines' tuning on a device.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"
#include "wisdom/wisdom.h"

namespace warpsmith::cli {

struct ChosenRecipe {
  Recipe recipe;
  std::string origin;      // "wisdom", "archive", "nearest 64x64x128 tn f16 f32", "model", "starting point"
  double cold_us = 0;      // as it was measured then; 0: it was not, for this problem
  std::string pdl_recipe;  // full text form of the one to time with dependent launch; empty: the recipe itself
};

class RecipeSource {
 public:
  // The archive may be null, and must outlive this. unmeasured: what choose() gives depends on no measurement of the
  // problem itself.
  RecipeSource(const Machine& machine, Target target, int threads, std::optional<Wisdom> wisdom, Archive* archive,
               bool unmeasured);
  ~RecipeSource();

  // Legal ones, best guess first, at most kMostChosen. Error: as the archive's. Thread-safe.
  Result<std::vector<ChosenRecipe>> choose(const Problem& problem) const;

  static constexpr std::size_t kMostChosen = 3;

 private:
  struct Unmeasured;
  Result<std::vector<ChosenRecipe>> measured(const Problem& problem) const;

  Machine machine_;
  Target target_;
  int threads_;
  std::optional<Wisdom> wisdom_;
  Archive* archive_;
  std::unique_ptr<Unmeasured> unmeasured_;
  mutable std::mutex mutex_;  // of the archive and of the library's choice
};

// The recipe with programmatic dependent launch, when its family has that and it is without; legal for the problem.
std::optional<Recipe> with_dependent_launch(const Recipe& recipe, const Problem& problem, const Machine& machine);

// What tuning the baselines chose for each problem, in a file of JSON lines that several runs and machines share; only
// what the same device, driver and library chose is given back. Thread-safe.
class BaselineChoiceFile {
 public:
  // An empty path: nothing is kept. Error: bad_input for a file that is none, environment.
  static Result<BaselineChoiceFile> open(const std::filesystem::path& path, const Machine& machine);

  nlohmann::json find(const Problem& problem) const;  // null: nothing is known
  Status keep(const Problem& problem, const nlohmann::json& choices);

 private:
  std::filesystem::path path_;
  nlohmann::json key_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::map<std::string, nlohmann::json> choices_;  // by problem
};

}  // namespace warpsmith::cli
