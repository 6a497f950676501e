// Reading a survey's baselines.
#include "baseline_times.h"

#include <fmt/format.h>

#include <charconv>

#include "base/file.h"
#include "report/csv.h"

namespace warpsmith::cli {

namespace {

template <class Number>
Number number_in(const CsvTable& table, const CsvTable::Row& row, std::string_view column) {
  const auto at = table.column(column);
  Number value = 0;
  if (!at) return value;
  const std::string& cell = row.cells[*at];
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size() ? value : 0;
}

}  // namespace

std::string baseline_key(const Problem& problem) {
  return fmt::format("{}x{}x{} {}", problem.m, problem.n, problem.k, to_string(problem.layout));
}

Result<std::map<std::string, double>> load_baseline_times(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto table = parse_csv(*text, path);
  if (!table) return table.error();
  std::map<std::string, double> times;
  for (const CsvTable::Row& row : table->rows) {
    Problem problem;
    problem.m = number_in<std::int64_t>(*table, row, "m");
    problem.n = number_in<std::int64_t>(*table, row, "n");
    problem.k = number_in<std::int64_t>(*table, row, "k");
    for (const Layout layout : {Layout::nn, Layout::tn}) {
      problem.layout = layout;
      const double time_us = number_in<double>(*table, row, fmt::format("lt_auto_{}_us", to_string(layout)));
      if (time_us > 0) times[baseline_key(problem)] = time_us;
    }
  }
  if (times.empty()) return bad_input(fmt::format("{}: no times in columns lt_auto_nn_us and lt_auto_tn_us", path));
  return times;
}

}  // namespace warpsmith::cli
