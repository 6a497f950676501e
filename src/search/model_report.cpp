// Judging the model by a replay table.
#include "search/model_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "model/rank.h"
#include "report/speedup.h"

namespace warpsmith {

namespace {

// One problem's part in the report.
struct Case {
  std::size_t bucket = 0;
  model::Agreement agreement;
  std::optional<double> ranked_first_us, ranked_top_us;  // of what was measured among the recipes of rank()
};

std::optional<double> time_of(const std::vector<model::Measured>& measured, const Recipe& recipe) {
  const auto found = std::find_if(measured.begin(), measured.end(),
                                  [&](const model::Measured& each) { return each.recipe == recipe; });
  return found == measured.end() ? std::nullopt : std::optional(found->time_us);
}

std::optional<Case> judge(const ReplayTable& table, const Problem& problem) {
  const std::vector<model::Measured> measured = measured_times(table, problem);
  const model::MeasuredProblem known(problem, measured);
  if (known.size() == 0) return std::nullopt;
  Case result;
  result.bucket = size_bucket(problem.m, problem.n, problem.k);
  result.agreement = known.judge(table.machine(), model::coefficients_for(table.machine()));
  const auto ranked = model::rank(problem, table.machine(), table.target(), model::MeasuredProblem::kTop);
  for (const model::Ranked& each : ranked) {
    const auto time_us = time_of(measured, each.recipe);
    if (!time_us) continue;
    if (&each == &ranked.front()) result.ranked_first_us = time_us;
    result.ranked_top_us = std::min(*time_us, result.ranked_top_us.value_or(*time_us));
  }
  return result;
}

class GeometricMean {
 public:
  void add(double ratio) {
    logs_ += std::log(ratio);
    ++count_;
  }
  std::size_t count() const { return count_; }
  double value() const { return count_ == 0 ? 0 : std::exp(logs_ / static_cast<double>(count_)); }

 private:
  double logs_ = 0;
  std::size_t count_ = 0;
};

ModelReportRow summarize(std::string_view bucket, const std::vector<const Case*>& cases) {
  ModelReportRow row;
  row.bucket = bucket;
  row.problems = cases.size();
  row.worst_first = 1;
  GeometricMean first, top, ranked_first, ranked_top;
  for (const Case* each : cases) {
    const model::Agreement& a = each->agreement;
    row.recipes += a.recipes;
    first.add(a.best_us / a.first_us);
    top.add(a.best_us / a.top_us);
    row.worst_first = std::min(row.worst_first, a.best_us / a.first_us);
    row.bias += a.bias / static_cast<double>(cases.size());
    row.spread += a.spread / static_cast<double>(cases.size());
    if (each->ranked_first_us) ranked_first.add(a.best_us / *each->ranked_first_us);
    if (each->ranked_top_us) ranked_top.add(a.best_us / *each->ranked_top_us);
  }
  row.best_over_first = first.value();
  row.best_over_top = top.value();
  row.ranked_first = ranked_first.count();
  row.ranked_top = ranked_top.count();
  row.best_over_ranked_first = ranked_first.value();
  row.best_over_ranked_top = ranked_top.value();
  return row;
}

}  // namespace

std::vector<model::Measured> measured_times(const ReplayTable& table, const Problem& problem) {
  std::vector<model::Measured> measured;
  for (const Recipe& recipe : table.recipes(problem)) {
    if (const auto time_us = right_time_us(table.lookup(problem, recipe))) measured.push_back({recipe, *time_us});
  }
  return measured;
}

std::vector<ModelReportRow> report_model(const ReplayTable& table) {
  std::vector<Case> cases;
  for (const Problem& problem : table.problems()) {
    if (const auto judged = judge(table, problem)) cases.push_back(*judged);
  }
  std::vector<ModelReportRow> rows;
  const auto add = [&](std::string_view name, std::optional<std::size_t> bucket) {
    std::vector<const Case*> chosen;
    for (const Case& each : cases) {
      if (!bucket || each.bucket == *bucket) chosen.push_back(&each);
    }
    if (!chosen.empty()) rows.push_back(summarize(name, chosen));
  };
  add("all", std::nullopt);
  for (std::size_t i = 0; i < kSizeBuckets.size(); ++i) add(kSizeBuckets[i], i);
  return rows;
}

}  // namespace warpsmith
