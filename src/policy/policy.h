// Policy: an ask/tell state machine that proposes recipes. No GPU code, no clock, no threads: given a seed and the
// verdicts it is told, its proposals are determined.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

namespace embedded {
struct LoadedModel;  // policy/embedded/model_policy.h
class InRunLearner;
}  // namespace embedded

// What a policy learns of its proposal. time_us: cold offline time when accepted; nullopt: rejected, for whatever
// reason.
struct Outcome {
  std::optional<double> time_us;
  std::string kind;  // Verdict::kind()
};

struct PolicyContext {
  Problem problem;
  Machine machine;
  std::vector<const Family*> families;  // allowed; at least one
  std::vector<Recipe> starting_points;  // tried first, in order
  std::uint64_t seed = 1;
  // What the policy "model" needs besides.
  std::shared_ptr<const embedded::LoadedModel> model{};
  std::shared_ptr<embedded::InRunLearner> learner{};  // null: the model stays as it is
  double reference_us = 0;                            // time of the fastest baseline; 0: the physical floor stands in
  // What a legal recipe is expected to take, in microseconds; 0: nothing is known of its family. Empty: nobody says.
  std::function<double(const Recipe&)> expected_us{};
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  // A legal recipe not proposed before, or nothing when the policy knows none. May be called several times before the
  // answers are told (candidates compile in parallel).
  virtual std::optional<Recipe> ask() = 0;
  virtual void tell(const Recipe& recipe, const Outcome& outcome) = 0;
};

// "random", "evolution" or "model". Error (bad_input): unknown name, with the accepted ones; "model" without a model.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, PolicyContext context);
std::vector<std::string> policy_names();

}  // namespace warpsmith
