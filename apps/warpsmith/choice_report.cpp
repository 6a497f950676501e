// Judging the library's choice by a replay table.
#include "choice_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "library/choice.h"
#include "report/speedup.h"
#include "search/model_report.h"

namespace warpsmith::cli {

namespace {

using library::Choice;
using library::Chooser;

struct Case {
  std::size_t bucket = 0;
  bool cublaslt = false;
  std::optional<double> best_over_first;  // none: not measured
};

std::optional<Case> judge(const Chooser& chooser, const Problem& problem,
                          const std::vector<model::Measured>& measured) {
  const auto choices =
      chooser.choose(problem, WARPSMITH_MODE_OFFLINE, WARPSMITH_LAUNCH_PLAIN, Chooser::Entries::of_other_sizes);
  const auto first =
      std::find_if(choices.begin(), choices.end(), [](const Choice& each) { return each.recipe.has_value(); });
  if (first == choices.end()) return std::nullopt;
  Case result;
  result.bucket = size_bucket(problem.m, problem.n, problem.k);
  result.cublaslt = !choices.front().recipe;
  const auto found = std::find_if(measured.begin(), measured.end(),
                                  [&](const model::Measured& each) { return each.recipe == *first->recipe; });
  if (found != measured.end()) {
    const auto best = std::min_element(measured.begin(), measured.end(),
                                       [](const auto& x, const auto& y) { return x.time_us < y.time_us; });
    result.best_over_first = best->time_us / found->time_us;
  }
  return result;
}

ChoiceReportRow summarize(std::string way, std::string bucket, const std::vector<const Case*>& cases) {
  ChoiceReportRow row;
  row.way = std::move(way);
  row.bucket = std::move(bucket);
  double logs = 0;
  row.worst_first = 1;
  for (const Case* each : cases) {
    row.cublaslt += each->cublaslt ? 1 : 0;
    if (!each->best_over_first) {
      ++row.unmeasured;
      continue;
    }
    ++row.problems;
    logs += std::log(*each->best_over_first);
    row.worst_first = std::min(row.worst_first, *each->best_over_first);
  }
  if (row.problems > 0) row.best_over_first = std::exp(logs / static_cast<double>(row.problems));
  return row;
}

void add_rows(const std::string& way, const std::vector<Case>& cases, std::vector<ChoiceReportRow>& rows) {
  const auto add = [&](std::string_view name, std::optional<std::size_t> bucket) {
    std::vector<const Case*> chosen;
    for (const Case& each : cases) {
      if (!bucket || each.bucket == *bucket) chosen.push_back(&each);
    }
    if (!chosen.empty()) rows.push_back(summarize(way, std::string(name), chosen));
  };
  add("all", std::nullopt);
  for (std::size_t i = 0; i < kSizeBuckets.size(); ++i) add(kSizeBuckets[i], i);
}

}  // namespace

std::vector<ChoiceReportRow> report_choices(const ReplayTable& table,
                                            const std::shared_ptr<const library::WisdomIndex>& wisdom) {
  std::set<std::string> tuned;
  for (std::size_t i = 0; i < wisdom->size(); ++i) tuned.insert(to_string(wisdom->problem(i)));
  const Chooser by_expectation(table.machine(), wisdom, library::model_ranking());
  const Chooser by_distance(table.machine(), wisdom, nullptr);
  std::vector<Case> expected, nearest;
  for (const Problem& problem : table.problems()) {
    if (tuned.count(to_string(problem)) == 0) continue;
    const std::vector<model::Measured> measured = measured_times(table, problem);
    if (measured.empty()) continue;
    if (const auto judged = judge(by_expectation, problem, measured)) expected.push_back(*judged);
    if (const auto judged = judge(by_distance, problem, measured)) nearest.push_back(*judged);
  }
  std::vector<ChoiceReportRow> rows;
  add_rows("expectation", expected, rows);
  add_rows("nearest", nearest, rows);
  return rows;
}

Table choice_table(const std::vector<ChoiceReportRow>& rows) {
  using Style = Column::Style;
  Table table("best measured time over that of the library's choice, without the entries of the same sizes",
              {{"way", "chosen by", "", Style::text},
               {"log2_mnk", "log2(MNK)", "", Style::text},
               {"problems", "problems", "", Style::number},
               {"best_over_first", "first", "", Style::fixed, 3},
               {"worst_first", "worst first", "", Style::fixed, 3},
               {"unmeasured", "not measured", "", Style::number},
               {"cublaslt", "after cuBLASLt", "", Style::number}});
  const auto count = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  const auto shown = [](const ChoiceReportRow& row, double value) { return row.problems > 0 ? Cell(value) : Cell(); };
  for (const ChoiceReportRow& row : rows) {
    table.add({row.way, row.bucket, count(row.problems), shown(row, row.best_over_first), shown(row, row.worst_first),
               count(row.unmeasured), count(row.cublaslt)});
  }
  return table;
}

}  // namespace warpsmith::cli
