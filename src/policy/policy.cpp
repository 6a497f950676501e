// The policies by name.
#include "policy/policy.h"

#include <fmt/format.h>

#include "base/text.h"
#include "policy/embedded/model_policy.h"
#include "policy/evolution.h"
#include "policy/random_policy.h"

namespace warpsmith {

std::vector<std::string> policy_names() { return {"random", "evolution", "model"}; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, PolicyContext context) {
  if (context.families.empty()) return bad_input("a policy needs at least one kernel family");
  if (name == "random") return std::unique_ptr<Policy>(std::make_unique<RandomPolicy>(std::move(context)));
  if (name == "evolution") return std::unique_ptr<Policy>(std::make_unique<EvolutionPolicy>(std::move(context)));
  if (name == "model") {
    if (!context.model) return bad_input("policy 'model' needs a model");
    auto model = context.model;
    return std::unique_ptr<Policy>(std::make_unique<embedded::ModelPolicy>(std::move(context), std::move(model)));
  }
  return bad_input(fmt::format("unknown policy '{}'; accepted: {}", printable(name), fmt::join(policy_names(), ", ")));
}

}  // namespace warpsmith
