// Declared sub-spaces: for each of some problems the recipes, good and poor, that are all to be measured, written down
// beforehand. What is best of a problem then means something, and a missing measurement is seen.
//
// The file is JSON lines: a header
//   {"warpsmith_spaces": 1, "machine": "NVIDIA H200", "target": "sm90", "seed": 1, "provenance": {...}}
// then the recipes, which are numbered from 0, and the problems with the numbers of theirs; a pair is a range:
//   {"recipe": "sm90 tile=128x64x64 ..."}
//   {"problem": "100x1152x896 tn f16 f32", "space": [[0, 511], 513, 517]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

class DeclaredSpaces {
 public:
  // machine: the name of the one that legality was asked for.
  DeclaredSpaces(std::string machine, Target target, std::uint64_t seed,
                 nlohmann::json provenance = nlohmann::json::object());

  // Error: bad_input with "file:line: ...", environment when the file cannot be read.
  static Result<DeclaredSpaces> load(const std::filesystem::path& path);
  Status save(const std::filesystem::path& path) const;

  // Error (bad_input): a second declaration, or one that is empty or names a recipe twice.
  Status declare(const Problem& problem, const std::vector<Recipe>& recipes);

  const std::string& machine() const { return machine_; }
  Target target() const { return target_; }
  std::uint64_t seed() const { return seed_; }
  const nlohmann::json& provenance() const { return provenance_; }
  std::string digest() const;  // SHA-256 of the file

  const std::vector<Problem>& problems() const { return problems_; }  // in the order of their declaration
  std::vector<Recipe> space(const Problem& problem) const;            // empty: not declared
  const std::vector<Recipe>& recipes() const { return recipes_; }     // of all spaces, each once

 private:
  std::uint32_t number_of(const Recipe& recipe);
  std::string text() const;

  std::string machine_;
  Target target_;
  std::uint64_t seed_;
  nlohmann::json provenance_;
  std::vector<Recipe> recipes_;
  std::map<std::string, std::uint32_t> numbers_;  // by text form
  std::vector<Problem> problems_;
  std::map<std::string, std::vector<std::uint32_t>> spaces_;  // ascending, by text form of the problem
};

}  // namespace warpsmith
