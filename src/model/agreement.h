// How the model's order of recipes compares with measured times of one problem.
#pragma once

#include <cstddef>
#include <vector>

#include "model/candidates.h"
#include "model/coefficients.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith::model {

struct Measured {
  Recipe recipe;
  double time_us = 0;
};

struct Agreement {
  std::size_t recipes = 0;
  double best_us = 0;      // fastest measured
  double first_us = 0;     // measured time of the recipe that the model finds fastest of them
  double top_us = 0;       // fastest measured among its first 16
  double expected_us = 0;  // geometric mean over recipes that the model finds about as fast as that, see below
  double bias = 0;         // mean of log(model / measured)
  double spread = 0;       // root mean square of it; in both, a recipe counts by the square of best_us / its time
};

// Measured recipes of one problem, their knobs read once: judging them by many sets of coefficients is quick.
class MeasuredProblem {
 public:
  // Recipes of families that the model does not know are left out. With programmatic dependent launch a recipe counts
  // for bias and spread, not for what is fastest.
  MeasuredProblem(const Problem& problem, const std::vector<Measured>& measured);

  const Problem& problem() const { return problem_; }
  std::size_t size() const { return entries_.size(); }
  // expected_us weighs a recipe that the model finds x times as slow as the fastest by x^-sharpness: a smooth first_us.
  // Precondition: size() > 0.
  Agreement judge(const Machine& machine, const Coefficients& coefficients, double sharpness = 30) const;

  static constexpr std::size_t kTop = 16;

 private:
  struct Entry {
    AnyKnobs knobs;
    double time_us = 0;
    bool dependent = false;
  };
  Problem problem_;
  std::vector<Entry> entries_;
};

}  // namespace warpsmith::model
