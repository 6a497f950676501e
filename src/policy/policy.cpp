// The policies by name.
#include "policy/policy.h"

#include <fmt/format.h>

#include "base/text.h"
#include "policy/evolution.h"
#include "policy/random_policy.h"

namespace warpsmith {

std::vector<std::string> policy_names() { return {"random", "evolution"}; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, PolicyContext context) {
  if (context.families.empty()) return bad_input("a policy needs at least one kernel family");
  if (name == "random") return std::unique_ptr<Policy>(std::make_unique<RandomPolicy>(std::move(context)));
  if (name == "evolution") return std::unique_ptr<Policy>(std::make_unique<EvolutionPolicy>(std::move(context)));
  return bad_input(fmt::format("unknown policy '{}'; accepted: {}", printable(name), fmt::join(policy_names(), ", ")));
}

}  // namespace warpsmith
