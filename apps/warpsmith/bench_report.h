// What `bench` prints: a row a problem as they come, then speed-ups per size bucket; as text, CSV, JSON or Markdown, on
// stdout or in a file. Rows that are on their way to a file are kept beside it, so that nothing measured is lost.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli.h"
#include "devices.h"
#include "evaluate/verdict.h"
#include "report/provenance.h"
#include "report/table.h"
#include "row_file.h"
#include "search/conclude.h"

namespace warpsmith::cli {

struct BenchRow {
  Problem problem;
  std::string recipe;                    // short form; empty when the family has none for this problem
  Verdict verdict;                       // of the fastest recipe tried, or of the last that failed
  std::optional<Conclusion> conclusion;  // absent with --verify and when nothing was accepted
  nlohmann::json torch;                  // as measure_torch() gives it; null: not asked for
};

// The row as JSON, with everything measured: what --json prints, what files keep, what all tables are made of.
nlohmann::json row_to_json(const BenchRow& row, const OpenDevice& device);

struct ReportOptions {
  std::string format;  // empty: by the extension of `output`, else table
  std::string output;
  bool resume = false;
  bool json_lines = false;  // one JSON object a problem on stdout, instead of text

  void add_to(CLI::App& command);
  // Error: bad_input for what does not go together, and for an unfinished file without `resume`.
  Result<ReportFormat> check() const;
  std::filesystem::path partial() const { return output + ".partial"; }
};

// The options that decide what is measured, by name: given values and defaults, without the shapes and what is about
// printing. Runs that agree in it (and in the machine) may share rows.
nlohmann::json measuring_options(const CLI::App& command);

class BenchReport {
 public:
  // options.measuring: of measuring_options(). Error: as RowFile::open().
  static Result<BenchReport> open(const ReportOptions& options, const nlohmann::json& measuring,
                                  const Provenance& provenance);

  bool has(const Problem& problem) const {
    return known_.contains(to_string(problem));
  }  // by this run or an earlier one
  // Prints the row, and keeps it. The provenance gets the date and the row's clock; libraries that were opened since
  // the start are in it. Error: environment when the row cannot be kept.
  Status add(nlohmann::json row, Provenance provenance);
  // Prints the summary or, without a file, the report. complete: every problem is there; only then the file is written.
  Status finish(bool complete);

  std::size_t size() const { return rows_.size(); }
  std::size_t accepted() const;

 private:
  BenchReport(const ReportOptions& options, ReportFormat format, Provenance provenance)
      : options_(options), format_(format), provenance_(std::move(provenance)) {}
  void print_live(const nlohmann::json& row) const;

  ReportOptions options_;
  ReportFormat format_;
  Provenance provenance_;  // the latest, without date and clock
  std::optional<RowFile> file_;
  std::vector<nlohmann::json> rows_;
  std::set<std::string> known_;
};

}  // namespace warpsmith::cli
