// Strict reader of CSV files (RFC 4180): quoted fields, LF or CRLF, comment lines ("# key: value") above the header.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith {

struct CsvTable {
  struct Row {
    std::vector<std::string> cells;  // one a column
    std::size_t line = 0;            // of the file, from 1, where the row begins
  };
  std::string name;                   // of the file, for messages
  std::vector<std::string> comments;  // the lines above the header, without "#" and the blanks around
  std::vector<std::string> columns;
  std::vector<Row> rows;

  std::optional<std::size_t> column(std::string_view key) const;
  // "grid.csv:12"
  std::string place(const Row& row) const;
};

// Error: bad_input, as "NAME:LINE: what is wrong": no header, a column without a name or named twice, a row of another
// length, a quote that is not closed or stands inside an unquoted field, text after a closing quote. Lines that are
// empty are passed over.
Result<CsvTable> parse_csv(std::string_view text, std::string name);

// What stands before and after the first ": " of a comment; empty key: a remark without one. A key is one word.
struct CsvFact {
  std::string key, value;
};
CsvFact fact_of_comment(std::string_view comment);

}  // namespace warpsmith
