// Names to candidates.
#include "search/named_candidate.h"

#include <fmt/format.h>

#include "base/text.h"
#include "codegen/descriptor.h"
#include "recipe/recipe.h"

namespace warpsmith {

namespace {

constexpr std::string_view kPrefix = "free ";

}  // namespace

bool is_free_form_name(std::string_view name) { return name.substr(0, kPrefix.size()) == kPrefix; }

Result<Candidate> named_candidate(const std::string& name, const Archive::Scope& scope, Archive* archive) {
  if (!is_free_form_name(name)) {
    const auto recipe = parse_recipe(name);
    if (!recipe) return recipe.error();
    return generate(*recipe, scope.problem, scope.machine);
  }
  auto record =
      archive == nullptr ? Result<std::optional<FreeFormRecord>>(std::nullopt) : archive->find_free_form(name);
  if (!record) return record.error();
  if (!*record) return bad_input(fmt::format("the archive does not hold the source of '{}'", printable(name)));
  const auto form = parse_candidate((*record)->descriptor, std::move((*record)->source), "candidate.json");
  if (!form) return form.error();
  return instantiate(*form, scope.problem, scope.machine);
}

std::string short_name(const std::string& name) {
  if (is_free_form_name(name)) return name.substr(0, kPrefix.size() + 12);
  const auto recipe = parse_recipe(name);
  return recipe ? to_short_string(*recipe) : name;
}

}  // namespace warpsmith
