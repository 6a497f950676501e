// Columns of the CSV files.
#include "survey_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "report/provenance.h"
#include "report/table.h"

namespace warpsmith::cli {

namespace {

using Row = nlohmann::json;
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

struct CsvColumn {
  std::string name;
  std::function<std::string(const Row&)> cell;
};

bool is_variant(const std::string& subject) { return subject.ends_with("-pdl"); }

std::string time_text(double time_us) { return time_us > 0 ? fmt::format("{:.4f}", time_us) : std::string(); }

double statistic(const Row& subject, const char* series, const char* which) {
  const auto found = subject.find(series);
  if (found == subject.end() || !found->is_object()) return 0;
  return found->value(which, 0.0);
}

// Lowest `which` of a series over the subjects with this prefix; 0: there is none.
double lowest(const Row& row, const std::string& prefix, const char* series, const char* which, bool variants) {
  double best = 0;
  if (!row.contains("subjects")) return best;
  for (const Row& subject : row["subjects"]) {
    const auto name = subject.value("subject", std::string());
    if (!name.starts_with(prefix) || (is_variant(name) && !variants)) continue;
    const double time_us = statistic(subject, series, which);
    if (time_us > 0 && (best == 0 || time_us < best)) best = time_us;
  }
  return best;
}

// Name of ours with the lowest cold median.
std::string fastest_of_ours(const Row& row) {
  const double best = lowest(row, "ours-", "cold", "median_us", false);
  for (const Row& subject : row["subjects"]) {
    const auto name = subject.value("subject", std::string());
    if (name.starts_with("ours-") && !is_variant(name) && statistic(subject, "cold", "median_us") == best) return name;
  }
  return {};
}

std::string fact_of_ours(const Row& row, const std::string& name, const char* which) {
  const auto ours = row.find("ours");
  if (ours == row.end() || !ours->contains(name)) return {};
  return csv_field((*ours)[name].value(which, std::string()));
}

CsvColumn time(std::string name, std::string prefix, const char* series = "cold", const char* which = "median_us") {
  return {std::move(name), [=](const Row& row) {
            const bool pdl = std::string(series).ends_with("_pdl");
            return time_text(lowest(row, prefix, series, which, pdl));
          }};
}

CsvColumn ours(std::string name, const char* which) {
  return {std::move(name), [=](const Row& row) { return fact_of_ours(row, fastest_of_ours(row), which); }};
}

CsvColumn number(std::string name, std::function<double(const Row&)> value) {
  return {std::move(name), [=](const Row& row) { return fmt::format("{:.6g}", value(row)); }};
}

std::string detail_of(const Row& row, const std::string& prefix) {
  const double best = lowest(row, prefix, "cold", "median_us", false);
  for (const Row& subject : row["subjects"]) {
    const bool fits = subject.value("subject", std::string()).starts_with(prefix);
    if (fits && statistic(subject, "cold", "median_us") == best) {
      return csv_field(subject.value("subject", std::string()) + ": " + subject.value("detail", std::string()));
    }
  }
  return {};
}

// Of all that are not ours: name and cold median; empty: there is none.
std::pair<std::string, double> fastest_baseline(const Row& row) {
  std::pair<std::string, double> best;
  for (const Row& subject : row["subjects"]) {
    const auto name = subject.value("subject", std::string());
    const double time_us = statistic(subject, "cold", "median_us");
    if (name.starts_with("ours-") || !(time_us > 0)) continue;
    if (best.first.empty() || time_us < best.second) best = {name, time_us};
  }
  return best;
}

double clock_of(const Row& row) { return row["subjects"].empty() ? 0 : row["subjects"][0].value("clock_mhz", 0.0); }

double samples_of(const Row& row) {
  return row["subjects"].empty() ? 0 : statistic(row["subjects"][0], "cold", "samples");
}

std::vector<CsvColumn> offline_columns() {
  return {time("ours_us", "ours-"),
          time("ours_nn_us", "ours-nn"),
          time("ours_tn_us", "ours-tn"),
          time("ours_warm_us", "ours-", "warm"),
          time("ours_pdl_us", "ours-", "cold_pdl"),
          time("lt_auto_us", "cublaslt-auto-"),
          time("lt_auto_nn_us", "cublaslt-auto-nn"),
          time("lt_auto_tn_us", "cublaslt-auto-tn"),
          time("lt_auto_warm_us", "cublaslt-auto-", "warm"),
          time("lt_heuristic_us", "cublaslt-heuristic-"),
          time("cublas_us", "cublas-"),
          ours("recipe", "recipe"),
          ours("gates", "gates"),
          time("ours_pdl_warm_us", "ours-", "warm_pdl"),
          time("ours_warm_nn_us", "ours-nn", "warm"),
          time("ours_warm_tn_us", "ours-tn", "warm"),
          time("lt_auto_warm_nn_us", "cublaslt-auto-nn", "warm"),
          time("lt_auto_warm_tn_us", "cublaslt-auto-tn", "warm"),
          {"recipe_nn", [](const Row& row) { return fact_of_ours(row, "ours-nn", "recipe"); }},
          {"recipe_tn", [](const Row& row) { return fact_of_ours(row, "ours-tn", "recipe"); }},
          ours("origin", "origin"),
          {"lt_auto", [](const Row& row) { return detail_of(row, "cublaslt-auto-"); }},
          {"fastest_us", [](const Row& row) { return time_text(fastest_baseline(row).second); }},
          {"fastest", [](const Row& row) { return csv_field(fastest_baseline(row).first); }},
          number("rounds", samples_of),
          number("clock_mhz", clock_of)};
}

std::vector<CsvColumn> call_columns(bool server) {
  const std::pair<const char*, const char*> subjects[] = {
      {"ours", "ours-"}, {"lt_auto", "cublaslt-auto-"}, {"lt_heuristic", "cublaslt-heuristic-"}, {"cublas", "cublas-"}};
  std::vector<CsvColumn> columns;
  for (const auto& [name, prefix] : subjects) columns.push_back(time(fmt::format("{}_us", name), prefix));
  for (const auto& [name, prefix] : subjects) {
    if (server) columns.push_back(time(fmt::format("{}_p95_us", name), prefix, "cold", "p95_us"));
  }
  columns.push_back({"layouts", [](const Row& row) {
                       std::string names;
                       for (const Row& subject : row["subjects"]) {
                         names += (names.empty() ? "" : " ") + subject.value("subject", std::string());
                       }
                       return csv_field(names);
                     }});
  columns.push_back(ours("recipe", "recipe"));
  columns.push_back(number("calls", samples_of));
  return columns;
}

// Every figure of each subject, as the device gave it.
std::vector<CsvColumn> accuracy_columns() {
  std::vector<CsvColumn> columns;
  for (const char* subject : {"ours", "lt_f32", "lt_f16"}) {
    for (const char* figure : {"max_error", "p99_error", "max_ulp", "p99_ulp", "overflowed"}) {
      columns.push_back({fmt::format("{}_{}", subject, figure), [=](const Row& row) {
                           const auto found = row["errors"].find(subject);
                           if (found == row["errors"].end() || !found->contains(figure)) return std::string();
                           const Row& value = (*found)[figure];
                           return value.is_number() ? fmt::format("{:.6g}", value.get<double>())
                                                    : value.get<std::string>();
                         }});
    }
  }
  columns.push_back({"layout", [](const Row& row) { return row["errors"].value("layout", std::string()); }});
  columns.push_back({"recipe", [](const Row& row) {
                       return fact_of_ours(row, "ours-" + row["errors"].value("layout", std::string()), "recipe");
                     }});
  return columns;
}

std::vector<std::string> remarks(const std::string& mode) {
  if (mode == kAccuracyMode) {
    return {
        "errors against FP64 on inputs of large magnitude; *_error: |c - c64| in units of max |c64|;",
        "*_ulp: in units in the last place of c64; max and 99th percentile over the elements whose every right result",
        "is finite; overflowed: those that came out as infinity or NaN"};
  }
  if (mode == "offline") {
    return {
        "times: median us a launch in graph replay, cold operands unless the name says warm; interleaved in one run",
        "*_us without a layout: the faster layout; recipe, gates, origin: of ours_us"};
  }
  return {fmt::format("times: {} us from the call to its completion on the host's clock, cold operands",
                      mode == "server" ? "median (p95: 95th percentile)" : "median"),
          "layouts: the faster ones offline, of each; interleaved in one run"};
}

// Every fact once, values that differ joined; dates as a range.
std::vector<std::pair<std::string, std::string>> facts_of(const std::vector<const Row*>& rows) {
  std::vector<std::string> order;
  std::map<std::string, std::set<std::string>> values;
  for (const Row* row : rows) {
    if (!row->contains("provenance")) continue;
    for (const auto& [key, value] : (*row)["provenance"].get<Provenance>().facts()) {
      if (key == "clock_mhz") continue;  // a column
      if (values[key].empty()) order.push_back(key);
      values[key].insert(value);
    }
  }
  std::vector<std::pair<std::string, std::string>> facts;
  for (const std::string& key : order) {
    const std::set<std::string>& all = values[key];
    const bool range = key == "date" && all.size() > 1;
    facts.emplace_back(
        key, range ? fmt::format("{} to {}", *all.begin(), *all.rbegin()) : fmt::format("{}", fmt::join(all, "; ")));
  }
  return facts;
}

}  // namespace

double fastest_us(const Row& row, const std::string& prefix, bool warm) {
  return lowest(row, prefix, warm ? "warm" : "cold", "median_us", false);
}

std::string survey_csv(const SurveyRows& rows, const std::string& mode, std::size_t shapes) {
  std::map<Shape, const Row*> by_shape;
  for (const Row& row : rows) {
    if (row.value("mode", std::string()) != mode || row.contains("failed")) continue;
    by_shape[{row.at("m").get<std::int64_t>(), row.at("n").get<std::int64_t>(), row.at("k").get<std::int64_t>()}] =
        &row;
  }
  if (by_shape.empty()) return {};
  std::vector<const Row*> kept;
  for (const auto& [shape, row] : by_shape) kept.push_back(row);
  const std::vector<CsvColumn> columns = mode == "offline"       ? offline_columns()
                                         : mode == kAccuracyMode ? accuracy_columns()
                                                                 : call_columns(mode == "server");
  std::string text = fmt::format("# {} of {} shapes\n", kept.size(), std::max(shapes, kept.size()));
  for (const auto& [key, value] : facts_of(kept)) text += fmt::format("# {}: {}\n", key, value);
  for (const std::string& remark : remarks(mode)) text += fmt::format("# {}\n", remark);
  text += "m,n,k";
  for (const CsvColumn& column : columns) text += "," + column.name;
  text += "\n";
  for (const auto& [shape, row] : by_shape) {
    text += fmt::format("{},{},{}", std::get<0>(shape), std::get<1>(shape), std::get<2>(shape));
    for (const CsvColumn& column : columns) text += "," + column.cell(*row);
    text += "\n";
  }
  return text;
}

std::string survey_line(const Row& row) {
  const auto mode = row.value("mode", std::string());
  std::string text = fmt::format("{}x{}x{} {}  ", row.at("m").get<std::int64_t>(), row.at("n").get<std::int64_t>(),
                                 row.at("k").get<std::int64_t>(), mode);
  if (row.contains("failed")) return text + "failed: " + row["failed"].get<std::string>();
  if (mode == kAccuracyMode) return text + row["errors"].dump();
  const double our_us = fastest_us(row, "ours-");
  double their_us = fastest_us(row, "cublaslt-auto-");
  std::string them = "cublaslt-auto";
  if (!(their_us > 0)) std::tie(them, their_us) = fastest_baseline(row);  // no CUDA device
  text +=
      our_us > 0 ? fmt::format("{} {} us", fastest_of_ours(row), significant(our_us)) : std::string("nothing of ours");
  if (their_us > 0) text += fmt::format("  {} {} us", them, significant(their_us));
  if (our_us > 0 && their_us > 0) text += fmt::format("  {:.3f}x", their_us / our_us);
  const double pdl_us = lowest(row, "ours-", "cold_pdl", "median_us", true);
  if (pdl_us > 0) text += fmt::format("  [pdl {} us]", significant(pdl_us));
  return text;
}

}  // namespace warpsmith::cli
