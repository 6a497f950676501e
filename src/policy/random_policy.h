// Random search: the starting points, then legal recipes drawn without replacement, whatever the verdicts.
#pragma once

#include <optional>

#include "policy/policy.h"
#include "policy/rng.h"
#include "policy/sampler.h"

namespace warpsmith {

class RandomPolicy : public Policy {
 public:
  explicit RandomPolicy(PolicyContext context);

  std::string_view name() const override { return "random"; }
  std::optional<Recipe> ask() override;
  void tell(const Recipe& recipe, const Outcome& outcome) override;

 private:
  std::vector<Recipe> starting_points_;
  std::size_t next_start_ = 0;
  SearchSpace space_;
  Rng rng_;
  Sampler sampler_;
};

}  // namespace warpsmith
