// Judging the model by measurements.
#include "model/agreement.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace warpsmith::model {

MeasuredProblem::MeasuredProblem(const Problem& problem, const std::vector<Measured>& measured) : problem_(problem) {
  for (const Measured& each : measured) {
    if (!covers(each.recipe.family()) || !(each.time_us > 0)) continue;
    entries_.push_back({read_knobs(each.recipe, problem_), each.time_us, depends_on_predecessor(each.recipe)});
  }
}

Agreement MeasuredProblem::judge(const Machine& machine, const Coefficients& coefficients, double sharpness) const {
  const Setting setting(problem_, machine, coefficients);
  Agreement result;
  result.recipes = entries_.size();
  std::vector<std::pair<double, double>> order;  // estimated and measured
  std::vector<double> estimates;
  for (const Entry& entry : entries_) {
    estimates.push_back(estimate(entry.knobs, setting).time_us);
    if (!entry.dependent) order.emplace_back(estimates.back(), entry.time_us);
  }
  if (order.empty()) {  // nothing else was measured
    for (std::size_t i = 0; i < entries_.size(); ++i) order.emplace_back(estimates[i], entries_[i].time_us);
  }
  result.best_us = order.front().second;
  for (const auto& [estimated, measured] : order) result.best_us = std::min(result.best_us, measured);

  const std::size_t top = std::min(order.size(), kTop);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end());
  result.first_us = result.top_us = order.front().second;
  for (std::size_t i = 0; i < top; ++i) result.top_us = std::min(result.top_us, order[i].second);
  double weights = 0, logs = 0;
  for (const auto& [estimated, measured] : order) {
    const double weight = std::pow(estimated / order.front().first, -sharpness);
    weights += weight;
    logs += weight * std::log(measured);
  }
  result.expected_us = std::exp(logs / weights);

  double shares = 0, sum = 0, squares = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const double share = std::min(1.0, result.best_us / entries_[i].time_us);
    const double error = std::log(estimates[i] / entries_[i].time_us);
    shares += share * share;
    sum += share * share * error;
    squares += share * share * error * error;
  }
  result.bias = sum / shares;
  result.spread = std::sqrt(squares / shares);
  return result;
}

}  // namespace warpsmith::model
