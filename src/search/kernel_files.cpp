// Writing kernels where a person can read them and the program can load them.
#include "search/kernel_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/file.h"
#include "codegen/descriptor.h"
#include "search/named_candidate.h"

namespace warpsmith {

std::string kernel_file_stem(const Archive::Scope& scope) {
  std::string stem = to_string(scope.problem) + " " + std::string(to_string(scope.target));
  if (scope.target == Target::cpu) stem += fmt::format(" {}t", scope.threads);
  std::replace(stem.begin(), stem.end(), ' ', '-');
  return stem;
}

Result<std::filesystem::path> write_kernel(const std::filesystem::path& directory, const Archive::Scope& scope,
                                           const Recipe& recipe, const Candidate& candidate) {
  const bool cuda = candidate.language == Language::cuda;
  const std::string stem = kernel_file_stem(scope);
  const std::filesystem::path source = directory / (stem + (cuda ? ".cu" : ".cpp"));
  if (const Status status = write_file_atomic(source, candidate.source); !status) return status.error();
  nlohmann::json descriptor = {{"problem", to_string(scope.problem)},
                               {"recipe", to_string(recipe)},
                               {"arch", candidate.arch},
                               {"machine", scope.machine}};
  if (cuda) {
    // The same two files as a free-form candidate's: `bench --candidate` takes them.
    descriptor = describe_candidate(candidate, stem, scope.problem, descriptor);
  } else {
    descriptor["launch"] = std::get<CpuLaunch>(candidate.launch);
  }
  std::filesystem::path beside = source;
  beside.replace_extension(".json");
  if (const Status status = write_file_atomic(beside, descriptor.dump(2) + "\n"); !status) return status.error();
  return source;
}

Result<std::filesystem::path> write_kernel(const std::filesystem::path& directory, const Archive::Scope& scope,
                                           const std::string& name, const Candidate& candidate, Archive* archive) {
  if (!is_free_form_name(name)) {
    const auto recipe = parse_recipe(name);
    if (!recipe) return recipe.error();
    return write_kernel(directory, scope, *recipe, candidate);
  }
  const auto record =
      archive == nullptr ? Result<std::optional<FreeFormRecord>>(std::nullopt) : archive->find_free_form(name);
  if (!record) return record.error();
  if (!*record) return bad_input("the archive does not hold the source of " + name);
  const std::filesystem::path source = directory / (kernel_file_stem(scope) + ".cu");
  std::filesystem::path beside = source;
  beside.replace_extension(".json");
  // The two files lie beside each other under their own stem.
  nlohmann::json descriptor = nlohmann::json::parse((*record)->descriptor, nullptr, false);
  if (descriptor.is_object()) descriptor.erase("source");
  if (const Status status = write_file_atomic(source, (*record)->source); !status) return status.error();
  if (const Status status = write_file_atomic(beside, descriptor.dump(2) + "\n"); !status) return status.error();
  return source;
}

}  // namespace warpsmith
