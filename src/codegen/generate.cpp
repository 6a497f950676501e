// The one way from a recipe to a candidate: legality first, then the family's generator.
#include "codegen/generate.h"

#include <fmt/format.h>

namespace warpsmith {

namespace {

using Generator = Candidate (*)(const Recipe&, const Problem&, const Machine&);

Generator generator_of(const Family& family) {
  if (&family == &cpu_family()) return generate_cpu;
  if (&family == &sm90_family()) return generate_sm90;
  if (&family == &sm80_family()) return generate_sm80;
  if (&family == &tiny_family()) return generate_tiny;
  if (&family == &skinny_family()) return generate_skinny;
  return nullptr;
}

}  // namespace

Result<Candidate> generate(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  if (const auto violation = find_violation(recipe, &problem, machine)) {
    return bad_input(fmt::format("illegal recipe ({}): {}", violation->rule, violation->reason));
  }
  const Generator generator = generator_of(recipe.family());
  if (generator == nullptr) return failure(fmt::format("family {} has no generator", recipe.family().name));
  return generator(recipe, problem, machine);
}

}  // namespace warpsmith
