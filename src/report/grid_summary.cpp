// Which columns are compared, and their statistics as JSON.
#include "report/grid_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "report/speedup.h"
#include "report/statistics.h"

namespace warpsmith {

namespace {

Error wrong_cell(const CsvTable& table, const CsvTable::Row& row, const std::string& column, const char* wanted) {
  return bad_input(fmt::format("{}: {} is '{}'; accepted: {}", table.place(row), column,
                               row.cells[*table.column(column)].substr(0, 40), wanted));
}

// Empty: nothing was measured. Error: bad_input.
Result<std::optional<double>> positive(const CsvTable& table, const CsvTable::Row& row, const std::string& column) {
  const std::string& text = row.cells[*table.column(column)];
  if (text.empty()) return std::optional<double>();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || !std::isfinite(value)) {
    return wrong_cell(table, row, column, "a positive number, or nothing");
  }
  return std::optional<double>(value);
}

nlohmann::json interval_json(const std::optional<stats::Interval>& interval) {
  return interval ? nlohmann::json({interval->low, interval->high}) : nlohmann::json();
}

Result<nlohmann::json> statistics_json(const std::vector<double>& ratios) {
  const auto found = speedup_statistics(ratios);
  if (!found) return found.error();
  return nlohmann::json{{"count", found->count},
                        {"geometric_mean", found->geometric_mean},
                        {"geometric_mean_interval", interval_json(found->geometric_mean_interval)},
                        {"mean", found->mean},
                        {"median", found->median},
                        {"median_interval", interval_json(found->median_interval)},
                        {"p5", found->p5},
                        {"p95", found->p95},
                        {"min", found->min},
                        {"max", found->max},
                        {"win_rate", found->win_rate},
                        {"clear_win_rate", found->clear_win_rate},
                        {"wilcoxon_p", found->wilcoxon.p}};
}

// Their column over ours, all shapes and per bucket; null where no shape has both.
Result<nlohmann::json> groups(const CsvTable& table, const std::string& ours, const std::string& theirs) {
  for (const std::string& column : {std::string("m"), std::string("n"), std::string("k"), ours, theirs}) {
    if (!table.column(column)) return bad_input(fmt::format("{}: there is no column {}", table.name, column));
  }
  std::vector<double> all;
  std::array<std::vector<double>, kSizeBuckets.size()> by_bucket;
  for (const CsvTable::Row& row : table.rows) {
    std::array<double, 3> size{};
    for (std::size_t i = 0; i < size.size(); ++i) {
      const std::string column(1, "mnk"[i]);
      const auto value = positive(table, row, column);
      if (!value) return value.error();
      if (!*value) return wrong_cell(table, row, column, "a size");
      size[i] = **value;
    }
    const auto our_us = positive(table, row, ours), their_us = positive(table, row, theirs);
    if (!our_us) return our_us.error();
    if (!their_us) return their_us.error();
    if (!*our_us || !*their_us) continue;
    all.push_back(**their_us / **our_us);
    const std::size_t bucket = size_bucket(static_cast<std::int64_t>(size[0]), static_cast<std::int64_t>(size[1]),
                                           static_cast<std::int64_t>(size[2]));
    by_bucket[bucket].push_back(all.back());
  }
  if (all.empty()) return nlohmann::json();
  nlohmann::json result = nlohmann::json::object();
  const auto add = [&](std::string_view name, const std::vector<double>& ratios) -> Status {
    auto statistics = statistics_json(ratios);
    if (!statistics) return statistics.error();
    result[std::string(name)] = std::move(*statistics);
    return ok_status();
  };
  if (const Status added = add("all", all); !added) return added.error();
  for (std::size_t i = 0; i < by_bucket.size(); ++i) {
    if (by_bucket[i].empty()) continue;
    if (const Status added = add(kSizeBuckets[i], by_bucket[i]); !added) return added.error();
  }
  return result;
}

struct Compared {
  const char* path;  // in the section, a JSON pointer
  const char *ours, *theirs;
};

constexpr Compared kOffline[] = {
    {"/cold/best", "ours_us", "lt_auto_us"},
    {"/cold/nn", "ours_nn_us", "lt_auto_nn_us"},
    {"/cold/tn", "ours_tn_us", "lt_auto_tn_us"},
    {"/warm/best", "ours_warm_us", "lt_auto_warm_us"},
    {"/pdl/best", "ours_pdl_us", "lt_auto_us"},
    {"/cold_over_heuristic/best", "ours_us", "lt_heuristic_us"},
    {"/cold_over_cublas/best", "ours_us", "cublas_us"},
};
// Of columns that may be missing.
constexpr Compared kOfflineMore[] = {
    {"/warm/nn", "ours_warm_nn_us", "lt_auto_warm_nn_us"},
    {"/warm/tn", "ours_warm_tn_us", "lt_auto_warm_tn_us"},
    {"/pdl_warm/best", "ours_pdl_warm_us", "lt_auto_warm_us"},
};
constexpr Compared kCall[] = {{"/lt_auto", "ours_us", "lt_auto_us"},
                              {"/lt_heuristic", "ours_us", "lt_heuristic_us"},
                              {"/cublas", "ours_us", "cublas_us"}};
constexpr Compared kServerMore[] = {{"/lt_auto_p95", "ours_p95_us", "lt_auto_p95_us"},
                                    {"/lt_heuristic_p95", "ours_p95_us", "lt_heuristic_p95_us"},
                                    {"/cublas_p95", "ours_p95_us", "cublas_p95_us"}};

template <std::size_t N>
Status compare(const CsvTable& table, const Compared (&list)[N], bool optional, nlohmann::json& section) {
  for (const Compared& each : list) {
    if (optional && (!table.column(each.ours) || !table.column(each.theirs))) continue;
    auto result = groups(table, each.ours, each.theirs);
    if (!result) return result.error();
    if (!result->is_null()) section[nlohmann::json::json_pointer(each.path)] = std::move(*result);
  }
  return ok_status();
}

// An error, which may be infinite. Error: bad_input.
Result<double> error_figure(const CsvTable& table, const CsvTable::Row& row, const std::string& column) {
  const std::string& text = row.cells[*table.column(column)];
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  return wrong_cell(table, row, column, "a number from 0 up, or inf");
}

// Shapes on which ours is no worse than the library with FP32 compute, and by how much where both are finite.
Result<nlohmann::json> accuracy_summary(const CsvTable& table) {
  nlohmann::json result = {{"shapes", table.rows.size()}};
  for (const char* figure : {"max_error", "p99_error"}) {
    const std::string ours = fmt::format("ours_{}", figure), theirs = fmt::format("lt_f32_{}", figure);
    for (const std::string& column : {ours, theirs}) {
      if (!table.column(column)) return bad_input(fmt::format("{}: there is no column {}", table.name, column));
    }
    std::vector<double> ratios;
    std::size_t no_worse = 0;
    for (const CsvTable::Row& row : table.rows) {
      const auto our_error = error_figure(table, row, ours), their_error = error_figure(table, row, theirs);
      if (!our_error) return our_error.error();
      if (!their_error) return their_error.error();
      no_worse += *our_error <= *their_error ? 1 : 0;
      const double ratio = *our_error / *their_error;
      if (ratio > 0 && std::isfinite(ratio)) ratios.push_back(ratio);
    }
    result[figure] = {{"no_worse", no_worse}, {"finite", ratios.size()}};
    if (ratios.empty()) continue;
    result[figure]["geometric_mean_over_lt_f32"] = *stats::geometric_mean(ratios);
    result[figure]["largest_over_lt_f32"] = *std::max_element(ratios.begin(), ratios.end());
  }
  return result;
}

nlohmann::json provenance_of(const CsvTable& table) {
  nlohmann::json facts = nlohmann::json::object();
  for (const std::string& comment : table.comments) {
    const CsvFact fact = fact_of_comment(comment);
    if (!fact.key.empty()) facts[fact.key] = fact.value;
  }
  if (!table.column("clock_mhz")) return facts;
  std::vector<double> clocks;
  for (const CsvTable::Row& row : table.rows) {
    const auto value = positive(table, row, "clock_mhz");
    if (value && *value) clocks.push_back(**value);
  }
  if (const auto median = stats::median(clocks)) {
    facts["clock_mhz"] = {{"median", *median},
                          {"min", *std::min_element(clocks.begin(), clocks.end())},
                          {"max", *std::max_element(clocks.begin(), clocks.end())}};
  }
  return facts;
}

}  // namespace

Result<nlohmann::json> grid_summary(const SurveyFiles& files) {
  nlohmann::json summary = nlohmann::json::object();
  const auto note = [&](const char* name, const CsvTable& table) {
    summary["shapes"][name] = table.rows.size();
    summary["provenance"][name] = provenance_of(table);
  };
  for (const auto& [name, file] : {std::pair("offline", &files.offline), std::pair("llm", &files.llm)}) {
    if (!*file) continue;
    nlohmann::json& section = summary[name] = nlohmann::json::object();
    if (const Status done = compare(**file, kOffline, false, section); !done) return done.error();
    if (const Status done = compare(**file, kOfflineMore, true, section); !done) return done.error();
    note(name, **file);
  }
  for (const auto& [name, file] : {std::pair("call", &files.call), std::pair("server", &files.server)}) {
    if (!*file) continue;
    nlohmann::json& section = summary[name] = nlohmann::json::object();
    if (const Status done = compare(**file, kCall, false, section); !done) return done.error();
    if (const Status done = compare(**file, kServerMore, true, section); !done) return done.error();
    note(name, **file);
  }
  if (files.accuracy) {
    auto accuracy = accuracy_summary(*files.accuracy);
    if (!accuracy) return accuracy.error();
    summary["accuracy"] = std::move(*accuracy);
    note("accuracy", *files.accuracy);
  }
  return summary;
}

}  // namespace warpsmith
