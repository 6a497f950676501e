// What the HTML report shows: the shapes of a grid run with every time, the comparisons and their statistics, and the
// tables that come along. Made from the CSV files of a run; docs/report.md lists their columns.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/csv.h"
#include "report/statistics.h"

namespace warpsmith {

struct ReportFile {
  std::string name;  // quoted in messages; the page shows it without its folders
  std::string text;
};

struct ReportInputs {
  std::optional<ReportFile> offline, call, server;  // at least one
  std::optional<ReportFile> llm, accuracy;          // CSV
  std::optional<ReportFile> summary;                // JSON
};

struct ReportShape {
  std::int64_t m = 0, n = 0, k = 0;
  auto operator<=>(const ReportShape&) const = default;
};

// Ratios of one pair of columns: theirs over ours, for the shapes that have both.
struct ReportComparison {
  // "all" or one of kSizeBuckets (speedup.h).
  struct Group {
    std::string bucket;
    int count = 0;
    double geometric_mean = 0, median = 0, p5 = 0, p95 = 0, min = 0, max = 0;
    double wins = 0, clear_wins = 0, clear_losses = 0;  // shares above 1, above 1.01, below 0.99
    double wilcoxon_p = 1;                              // of the logarithms
    std::optional<stats::Interval> interval;            // of the geometric mean; absent for a single ratio
  };
  std::string id, mode, baseline;    // "cold-heuristic", "cold", "heuristic"
  std::string ours_key, theirs_key;  // "offline.ours_us"
  std::vector<Group> groups;         // "all", then the buckets that have shapes
};

// Times and texts of one column, one a shape; nothing where it was not measured.
using TimeColumn = std::vector<std::optional<double>>;
using TextColumn = std::vector<std::string>;

struct ReportData {
  struct File {
    std::string name;
    std::size_t rows = 0;
    std::vector<CsvFact> facts;
  };
  std::vector<ReportShape> shapes;            // by k, then m, then n
  std::map<std::string, TimeColumn> times;    // "offline.ours_us", "server.ours_p95_us"
  std::map<std::string, TextColumn> texts;    // "offline.recipe": the columns that are no times
  std::vector<ReportComparison> comparisons;  // those that some shape has both times for
  std::optional<CsvTable> llm, accuracy;      // rows as given
  std::vector<ReportComparison> llm_comparisons;
  nlohmann::json summary;  // null: none
  std::vector<File> files;
};

// Error: bad_input with "NAME:LINE: ..." for a file that is not well formed, lacks a column it needs, has a shape twice
// or a time that is not a positive number; bad_input when there is no grid at all.
Result<ReportData> report_data(const ReportInputs& inputs);

// The form that the page's script reads: columns rather than rows, texts that repeat only once.
nlohmann::json to_page_json(const ReportData& data);

}  // namespace warpsmith
