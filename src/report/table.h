// Table: typed columns with units, rows that can carry their provenance, and its four printed forms: aligned text,
// Markdown, CSV and JSON. The first two round for readers; CSV and JSON keep every digit.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "report/provenance.h"

namespace warpsmith {

enum class ReportFormat { table, csv, json, markdown };
Result<ReportFormat> parse_report_format(std::string_view text);  // error: bad_input

// Three significant digits: "0.0123", "1.23", "12.3", "123", "12345".
std::string significant(double value);

struct Column {
  enum class Style {
    text,         // left-aligned
    number,       // integers in full, others to three significant digits
    fixed,        // `digits` decimals
    percent,      // a share of 1, shown times 100 with `digits` decimals
    probability,  // three decimals, "< 0.001" below
  };
  std::string key;    // of CSV and JSON: "cold_us"
  std::string title;  // of text and Markdown: "cold"
  std::string unit;   // shown after the title: "us"; empty: none
  Style style = Style::text;
  int digits = 0;
  bool detail = false;  // for programs: CSV and JSON alone have it

  std::string header() const { return unit.empty() ? title : title + " " + unit; }
};

// monostate: no value, which prints as nothing (JSON: null). So does a number that is not finite, in CSV and JSON.
using Cell = std::variant<std::monostate, std::string, std::int64_t, double, bool>;

template <class T>
Cell cell_of(const std::optional<T>& value) {
  return value ? Cell(*value) : Cell();
}

class Table {
 public:
  // title: a heading of Markdown and text; may be empty.
  Table(std::string title, std::vector<Column> columns) : title_(std::move(title)), columns_(std::move(columns)) {}

  // Precondition: one cell a column. Rows of one measurement share a provenance.
  void add(std::vector<Cell> cells, std::shared_ptr<const Provenance> provenance = nullptr);

  const std::string& title() const { return title_; }
  const std::vector<Column>& columns() const { return columns_; }
  std::size_t size() const { return rows_.size(); }

  std::string text() const;      // provenance above the table, one fact a line; ends with a newline
  std::string markdown() const;  // likewise, as a list
  std::string csv() const;       // RFC 4180: CRLF, one header line; provenance as further columns
  nlohmann::json json() const;   // an array of objects; provenance as an object in each
  std::string print(ReportFormat format) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::shared_ptr<const Provenance> provenance;
  };
  // Each fact of the rows' provenances once; where rows differ, "1755 to 1980" or the values in turn.
  std::vector<std::pair<std::string, std::string>> common_facts() const;
  std::vector<std::vector<std::string>> shown_cells() const;  // header and rows, without details
  std::vector<bool> shown_numbers() const;                    // for each shown column: aligned as a number

  std::string title_;
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// RFC 4180: quoted when it holds a comma, a quote or a line break.
std::string csv_field(std::string_view text);

}  // namespace warpsmith
