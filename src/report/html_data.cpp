// From the texts of the files to shapes, times and comparisons, and from those to the page's JSON.
#include "report/html_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"
#include "report/speedup.h"

namespace warpsmith {

namespace {

constexpr double kNoise = 0.01;  // a ratio within this of 1 is a tie

// A pair of columns that makes a comparison, in the order in which the page offers them.
struct Pairing {
  const char *mode, *baseline, *ours, *theirs;
};
constexpr Pairing kPairings[] = {
    {"cold", "auto", "offline.ours_us", "offline.lt_auto_us"},
    {"cold", "heuristic", "offline.ours_us", "offline.lt_heuristic_us"},
    {"cold", "cublas", "offline.ours_us", "offline.cublas_us"},
    {"warm", "auto", "offline.ours_warm_us", "offline.lt_auto_warm_us"},
    {"pdl", "auto", "offline.ours_pdl_us", "offline.lt_auto_us"},
    {"nn", "auto", "offline.ours_nn_us", "offline.lt_auto_nn_us"},
    {"tn", "auto", "offline.ours_tn_us", "offline.lt_auto_tn_us"},
    {"warm-nn", "auto", "offline.ours_warm_nn_us", "offline.lt_auto_warm_nn_us"},
    {"warm-tn", "auto", "offline.ours_warm_tn_us", "offline.lt_auto_warm_tn_us"},
    {"pdl-warm", "auto", "offline.ours_pdl_warm_us", "offline.lt_auto_warm_us"},
    {"call", "auto", "call.ours_us", "call.lt_auto_us"},
    {"call", "heuristic", "call.ours_us", "call.lt_heuristic_us"},
    {"call", "cublas", "call.ours_us", "call.cublas_us"},
    {"server", "auto", "server.ours_us", "server.lt_auto_us"},
    {"server", "heuristic", "server.ours_us", "server.lt_heuristic_us"},
    {"server", "cublas", "server.ours_us", "server.cublas_us"},
    {"server-p95", "auto", "server.ours_p95_us", "server.lt_auto_p95_us"},
    {"server-p95", "heuristic", "server.ours_p95_us", "server.lt_heuristic_p95_us"},
    {"server-p95", "cublas", "server.ours_p95_us", "server.cublas_p95_us"},
};

// ---- reading

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

Result<std::int64_t> size_of(const CsvTable& table, const CsvTable::Row& row, std::size_t column) {
  const std::string& text = row.cells[column];
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > (1 << 20)) {
    return bad_input(fmt::format("{}: {} is '{}'; accepted: 1 to 1048576", table.place(row), table.columns[column],
                                 printable(text)));
  }
  return value;
}

Status need_columns(const CsvTable& table, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!table.column(key)) {
      return bad_input(fmt::format("{}: no column '{}'; needed: {}", table.name, key, fmt::join(keys, ", ")));
    }
  }
  return ok_status();
}

Result<ReportShape> shape_of(const CsvTable& table, const CsvTable::Row& row) {
  ReportShape shape;
  for (const auto& [key, member] : {std::pair{"m", &ReportShape::m}, {"n", &ReportShape::n}, {"k", &ReportShape::k}}) {
    const auto size = size_of(table, row, *table.column(key));
    if (!size) return size.error();
    shape.*member = *size;
  }
  return shape;
}

// Nothing for an empty field. Error: not a positive number.
Result<std::optional<double>> time_of(const CsvTable& table, const CsvTable::Row& row, std::size_t column) {
  const std::string& text = row.cells[column];
  if (text.empty()) return std::optional<double>();
  const auto value = number_of(text);
  if (!value || !(*value > 0)) {
    return bad_input(fmt::format("{}: {} is '{}'; accepted: a positive number of microseconds, or nothing",
                                 table.place(row), table.columns[column], printable(text)));
  }
  return value;
}

// One of the grid's files.
struct Grid {
  std::string mode;  // prefix of its columns
  CsvTable table;
  std::vector<ReportShape> shapes;  // one a row
};

Result<Grid> read_grid(const std::string& mode, const ReportFile& file) {
  auto table = parse_csv(file.text, file.name);
  if (!table) return table.error();
  Grid grid{mode, std::move(*table), {}};
  if (const Status status = need_columns(grid.table, {"m", "n", "k", "ours_us", "lt_auto_us"}); !status) {
    return status.error();
  }
  if (grid.table.rows.empty()) return bad_input(fmt::format("{}: no shapes, only a header", file.name));
  std::map<ReportShape, std::size_t> seen;
  for (const CsvTable::Row& row : grid.table.rows) {
    const auto shape = shape_of(grid.table, row);
    if (!shape) return shape.error();
    const auto [at, added] = seen.emplace(*shape, row.line);
    if (!added) {
      return bad_input(fmt::format("{}: {}x{}x{} again, as in line {}", grid.table.place(row), shape->m, shape->n,
                                   shape->k, at->second));
    }
    grid.shapes.push_back(*shape);
  }
  return grid;
}

bool is_time_column(const std::string& column) { return column.ends_with("_us"); }

Status take_grid(const Grid& grid, ReportData& data) {
  std::vector<std::size_t> index;
  for (const ReportShape& shape : grid.shapes) {
    const auto by_k = [](const ReportShape& a, const ReportShape& b) {
      return std::tie(a.k, a.m, a.n) < std::tie(b.k, b.m, b.n);
    };
    const auto at = std::lower_bound(data.shapes.begin(), data.shapes.end(), shape, by_k);
    index.push_back(static_cast<std::size_t>(at - data.shapes.begin()));
  }
  for (std::size_t column = 0; column < grid.table.columns.size(); ++column) {
    const std::string& key = grid.table.columns[column];
    if (key == "m" || key == "n" || key == "k") continue;
    if (is_time_column(key)) {
      TimeColumn& values = data.times[grid.mode + "." + key];
      values.resize(data.shapes.size());
      for (std::size_t i = 0; i < index.size(); ++i) {
        const auto value = time_of(grid.table, grid.table.rows[i], column);
        if (!value) return value.error();
        values[index[i]] = *value;
      }
    } else {
      TextColumn& values = data.texts[grid.mode + "." + key];
      values.resize(data.shapes.size());
      for (std::size_t i = 0; i < index.size(); ++i) values[index[i]] = grid.table.rows[i].cells[column];
    }
  }
  return ok_status();
}

// Without folders: the page is read elsewhere.
std::string shown_name(const std::string& name) { return name.substr(name.rfind('/') + 1); }

ReportData::File file_of(const CsvTable& table) {
  ReportData::File file{shown_name(table.name), table.rows.size(), {}};
  for (const std::string& comment : table.comments) {
    if (!comment.empty()) file.facts.push_back(fact_of_comment(comment));
  }
  return file;
}

// ---- comparisons

struct Ratio {
  std::size_t bucket = 0;
  double value = 0;
};

Result<ReportComparison::Group> group_of(std::string bucket, const std::vector<double>& ratios) {
  ReportComparison::Group group;
  group.bucket = std::move(bucket);
  group.count = static_cast<int>(ratios.size());
  const auto put = [](double& member, const Result<double>& value) {
    if (value) member = *value;
    return value.ok();
  };
  const bool done = put(group.geometric_mean, stats::geometric_mean(ratios)) &&
                    put(group.median, stats::median(ratios)) && put(group.p5, stats::percentile(ratios, 0.05)) &&
                    put(group.p95, stats::percentile(ratios, 0.95)) && put(group.wins, stats::share_above(ratios, 1)) &&
                    put(group.clear_wins, stats::share_above(ratios, 1 + kNoise));
  if (!done) return failure("a ratio that is not a positive finite number");
  const auto losses = std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio < 1 - kNoise; });
  group.clear_losses = static_cast<double>(losses) / static_cast<double>(ratios.size());
  const auto [min, max] = std::minmax_element(ratios.begin(), ratios.end());
  group.min = *min;
  group.max = *max;
  std::vector<double> logarithms;
  for (const double ratio : ratios) logarithms.push_back(std::log(ratio));
  const auto test = stats::wilcoxon_signed_rank(logarithms);
  if (!test) return test.error();
  group.wilcoxon_p = test->p;
  if (ratios.size() > 1) {
    const auto interval = stats::bootstrap_geometric_mean(ratios);
    if (!interval) return interval.error();
    group.interval = *interval;
  }
  return group;
}

// Precondition: not empty.
Status add_groups(const std::vector<Ratio>& ratios, ReportComparison& comparison) {
  for (std::size_t bucket = 0; bucket <= kSizeBuckets.size(); ++bucket) {  // the first turn takes all of them
    std::vector<double> values;
    for (const Ratio& ratio : ratios) {
      if (bucket == 0 || ratio.bucket == bucket - 1) values.push_back(ratio.value);
    }
    if (values.empty()) continue;
    auto group = group_of(bucket == 0 ? "all" : std::string(kSizeBuckets[bucket - 1]), values);
    if (!group) return group.error();
    comparison.groups.push_back(std::move(*group));
  }
  return ok_status();
}

// Adds the comparison of a pairing, unless there are no ratios.
Status add_comparison(const Pairing& pairing, const std::vector<Ratio>& ratios,
                      std::vector<ReportComparison>& comparisons) {
  if (ratios.empty()) return ok_status();
  ReportComparison comparison;
  comparison.id = fmt::format("{}-{}", pairing.mode, pairing.baseline);
  comparison.mode = pairing.mode;
  comparison.baseline = pairing.baseline;
  comparison.ours_key = pairing.ours;
  comparison.theirs_key = pairing.theirs;
  if (const Status status = add_groups(ratios, comparison); !status) return status.error();
  comparisons.push_back(std::move(comparison));
  return ok_status();
}

Status add_comparisons(ReportData& data) {
  for (const Pairing& pairing : kPairings) {
    const auto ours = data.times.find(pairing.ours), theirs = data.times.find(pairing.theirs);
    if (ours == data.times.end() || theirs == data.times.end()) continue;
    std::vector<Ratio> ratios;
    for (std::size_t i = 0; i < data.shapes.size(); ++i) {
      const ReportShape& shape = data.shapes[i];
      if (!ours->second[i] || !theirs->second[i]) continue;
      ratios.push_back({size_bucket(shape.m, shape.n, shape.k), *theirs->second[i] / *ours->second[i]});
    }
    if (const Status status = add_comparison(pairing, ratios, data.comparisons); !status) return status.error();
  }
  if (data.comparisons.empty()) return bad_input("no shape has a time of ours and one of theirs to compare it with");
  return ok_status();
}

// ---- the tables that come along

// Shapes off the grid, with columns as the offline table has them.
Status take_llm(const ReportFile& file, ReportData& data) {
  auto table = parse_csv(file.text, file.name);
  if (!table) return table.error();
  if (const Status status = need_columns(*table, {"m", "n", "k", "ours_us", "lt_auto_us"}); !status) {
    return status.error();
  }
  for (const CsvTable::Row& row : table->rows) {
    if (const auto shape = shape_of(*table, row); !shape) return shape.error();
    for (std::size_t column = 0; column < table->columns.size(); ++column) {
      if (!is_time_column(table->columns[column])) continue;
      if (const auto time = time_of(*table, row, column); !time) return time.error();
    }
  }
  constexpr std::string_view kPrefix = "offline.";
  for (const Pairing& pairing : kPairings) {
    if (!std::string_view(pairing.ours).starts_with(kPrefix)) continue;
    const auto ours = table->column(pairing.ours + kPrefix.size()),
               theirs = table->column(pairing.theirs + kPrefix.size());
    if (!ours || !theirs) continue;
    std::vector<Ratio> ratios;
    for (const CsvTable::Row& row : table->rows) {
      const auto our_us = number_of(row.cells[*ours]), their_us = number_of(row.cells[*theirs]);
      const ReportShape shape = *shape_of(*table, row);
      if (our_us && their_us) ratios.push_back({size_bucket(shape.m, shape.n, shape.k), *their_us / *our_us});
    }
    if (const Status status = add_comparison(pairing, ratios, data.llm_comparisons); !status) return status.error();
  }
  data.files.push_back(file_of(*table));
  data.llm = std::move(*table);
  return ok_status();
}

Status take_accuracy(const ReportFile& file, ReportData& data) {
  auto table = parse_csv(file.text, file.name);
  if (!table) return table.error();
  if (const Status status = need_columns(*table, {"m", "n", "k"}); !status) return status.error();
  for (const CsvTable::Row& row : table->rows) {
    if (const auto shape = shape_of(*table, row); !shape) return shape.error();
  }
  data.files.push_back(file_of(*table));
  data.accuracy = std::move(*table);
  return ok_status();
}

Status take_summary(const ReportFile& file, ReportData& data) {
  std::size_t line = 1;  // where the parser stopped
  try {
    data.summary = nlohmann::json::parse(file.text);
  } catch (const nlohmann::json::parse_error& error) {
    const auto end = file.text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, file.text.size()));
    line += static_cast<std::size_t>(std::count(file.text.begin(), end, '\n'));
  }
  if (!data.summary.is_object()) return bad_input(fmt::format("{}:{}: not a JSON object", file.name, line));
  data.files.push_back({shown_name(file.name), 0, {}});
  return ok_status();
}

// ---- the page's JSON

nlohmann::json group_json(const ReportComparison::Group& group) {
  nlohmann::json json = {{"bucket", group.bucket},
                         {"count", group.count},
                         {"geomean", group.geometric_mean},
                         {"median", group.median},
                         {"p5", group.p5},
                         {"p95", group.p95},
                         {"min", group.min},
                         {"max", group.max},
                         {"wins", group.wins},
                         {"clearWins", group.clear_wins},
                         {"clearLosses", group.clear_losses},
                         {"p", group.wilcoxon_p}};
  if (group.interval) json["interval"] = {group.interval->low, group.interval->high};
  return json;
}

nlohmann::json comparison_json(const ReportComparison& comparison) {
  nlohmann::json json = {
      {"id", comparison.id},         {"mode", comparison.mode},         {"baseline", comparison.baseline},
      {"ours", comparison.ours_key}, {"theirs", comparison.theirs_key}, {"groups", nlohmann::json::array()}};
  for (const ReportComparison::Group& group : comparison.groups) json["groups"].push_back(group_json(group));
  return json;
}

// {"values": [distinct texts], "index": [one a shape]}
nlohmann::json text_column_json(const TextColumn& texts) {
  std::map<std::string, std::size_t> known;
  nlohmann::json values = nlohmann::json::array(), index = nlohmann::json::array();
  for (const std::string& text : texts) {
    const auto [at, added] = known.emplace(text, known.size());
    if (added) values.push_back(text);
    index.push_back(at->second);
  }
  return {{"values", values}, {"index", index}};
}

nlohmann::json table_json(const CsvTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const CsvTable::Row& row : table.rows) rows.push_back(row.cells);
  return {{"name", shown_name(table.name)}, {"columns", table.columns}, {"rows", rows}};
}

}  // namespace

Result<ReportData> report_data(const ReportInputs& inputs) {
  if (!inputs.offline && !inputs.call && !inputs.server) {
    return bad_input("no grid to report on; accepted: an offline, call or server table");
  }
  ReportData data;
  std::vector<Grid> grids;
  std::set<ReportShape> shapes;
  for (const auto& [mode, file] :
       {std::pair{"offline", &inputs.offline}, {"call", &inputs.call}, {"server", &inputs.server}}) {
    if (!*file) continue;
    auto grid = read_grid(mode, **file);
    if (!grid) return grid.error();
    shapes.insert(grid->shapes.begin(), grid->shapes.end());
    grids.push_back(std::move(*grid));
  }
  data.shapes.assign(shapes.begin(), shapes.end());
  std::stable_sort(data.shapes.begin(), data.shapes.end(),
                   [](const ReportShape& a, const ReportShape& b) { return a.k < b.k; });
  for (const Grid& grid : grids) {
    if (const Status status = take_grid(grid, data); !status) return status.error();
    data.files.push_back(file_of(grid.table));
  }
  if (const Status status = add_comparisons(data); !status) return status.error();
  for (const auto& [file, take] :
       {std::pair{&inputs.llm, &take_llm}, {&inputs.accuracy, &take_accuracy}, {&inputs.summary, &take_summary}}) {
    if (!*file) continue;
    if (const Status status = take(**file, data); !status) return status.error();
  }
  return data;
}

nlohmann::json to_page_json(const ReportData& data) {
  nlohmann::json json = {{"buckets", kSizeBuckets}, {"comparisons", nlohmann::json::array()}};
  for (const auto& [key, member] : {std::pair{"m", &ReportShape::m}, {"n", &ReportShape::n}, {"k", &ReportShape::k}}) {
    for (const ReportShape& shape : data.shapes) json[key].push_back(shape.*member);
  }
  for (const ReportShape& shape : data.shapes) json["bucket"].push_back(size_bucket(shape.m, shape.n, shape.k));
  for (const auto& [key, values] : data.times) {
    nlohmann::json& column = json["times"][key];
    for (const auto& value : values) column.push_back(value ? nlohmann::json(*value) : nlohmann::json());
  }
  json["texts"] = nlohmann::json::object();
  for (const auto& [key, values] : data.texts) json["texts"][key] = text_column_json(values);
  for (const ReportComparison& comparison : data.comparisons)
    json["comparisons"].push_back(comparison_json(comparison));
  if (data.llm) json["llm"] = table_json(*data.llm);
  for (const ReportComparison& each : data.llm_comparisons) json["llmComparisons"].push_back(comparison_json(each));
  if (data.accuracy) json["accuracy"] = table_json(*data.accuracy);
  if (!data.summary.is_null()) json["summary"] = data.summary;
  for (const ReportData::File& file : data.files) {
    nlohmann::json facts = nlohmann::json::array();
    for (const CsvFact& fact : file.facts) facts.push_back({fact.key, fact.value});
    json["files"].push_back({{"name", file.name}, {"rows", file.rows}, {"facts", facts}});
  }
  return json;
}

}  // namespace warpsmith
