// One pass over the text, a record at a time.
#include "report/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace warpsmith {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // spreadsheets put it in front

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  bool at_end() const { return at_ == text_.size(); }
  std::size_t line() const { return line_; }
  bool at_comment() const { return !at_end() && text_[at_] == '#'; }

  std::string_view whole_line() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    ++line_;
    return found;
  }

  // The fields up to the end of the line; line breaks inside quotes are part of a field. An empty line has none.
  Result<std::vector<std::string>> record() {
    std::vector<std::string> fields;
    if (end_of_line()) return fields;
    while (true) {
      fields.emplace_back();
      const Status status = text_[at_] == '"' ? quoted(fields.back()) : plain(fields.back());
      if (!status) return status.error();
      if (at_end() || end_of_line()) return fields;
      ++at_;  // the comma
      if (at_end() || end_of_line()) {
        fields.emplace_back();
        return fields;
      }
    }
  }

 private:
  Error wrong(std::size_t line, const std::string& what) const {
    return bad_input(fmt::format("{}:{}: {}", name_, line, what));
  }

  // Takes LF or CRLF, when one is next.
  bool end_of_line() {
    const std::size_t length = text_.substr(at_).starts_with("\r\n") ? 2 : text_.substr(at_).starts_with('\n') ? 1 : 0;
    at_ += length;
    if (length > 0) ++line_;
    return length > 0;
  }

  Status plain(std::string& field) {
    while (!at_end() && text_[at_] != ',' && text_[at_] != '\n' && !text_.substr(at_).starts_with("\r\n")) {
      if (text_[at_] == '"') {
        return wrong(line_, fmt::format("a quote inside the unquoted field '{}'; accepted: \"...\" around the whole "
                                        "field, and \"\" for each quote in it",
                                        printable(field)));
      }
      field += text_[at_++];
    }
    return ok_status();
  }

  Status quoted(std::string& field) {
    const std::size_t opened = line_;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        field += text_[at_];
        continue;
      }
      ++at_;
      if (at_end() || text_[at_] == ',' || text_[at_] == '\n' || text_.substr(at_).starts_with("\r\n")) {
        return ok_status();
      }
      if (text_[at_] != '"') {
        return wrong(line_, fmt::format("text after the closing quote of '{}'; accepted: a comma or the line's end",
                                        printable(field)));
      }
      field += '"';
    }
    return wrong(opened, "a quoted field that is not closed");
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0, line_ = 1;
};

// Each column has a name of its own.
Status check_header(const CsvTable& table, std::size_t line) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string& column = table.columns[i];
    if (column.empty()) return bad_input(fmt::format("{}:{}: column {} has no name", table.name, line, i + 1));
    if (table.column(column) != i) {
      return bad_input(fmt::format("{}:{}: column '{}' occurs twice", table.name, line, printable(column)));
    }
  }
  return ok_status();
}

}  // namespace

std::optional<std::size_t> CsvTable::column(std::string_view key) const {
  const auto at = std::find(columns.begin(), columns.end(), key);
  if (at == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(at - columns.begin());
}

std::string CsvTable::place(const Row& row) const { return fmt::format("{}:{}", name, row.line); }

Result<CsvTable> parse_csv(std::string_view text, std::string name) {
  CsvTable table;
  table.name = std::move(name);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Reader reader(text, table.name);
  while (!reader.at_end()) {
    if (table.columns.empty() && reader.at_comment()) {
      table.comments.emplace_back(trimmed(reader.whole_line().substr(1)));
      continue;
    }
    const std::size_t line = reader.line();
    auto fields = reader.record();
    if (!fields) return fields.error();
    if (fields->empty()) continue;
    if (table.columns.empty()) {
      table.columns = std::move(*fields);
      if (const Status status = check_header(table, line); !status) return status.error();
    } else if (fields->size() != table.columns.size()) {
      return bad_input(fmt::format("{}:{}: {} fields in a table of {} columns", table.name, line, fields->size(),
                                   table.columns.size()));
    } else {
      table.rows.push_back({std::move(*fields), line});
    }
  }
  if (table.columns.empty()) return bad_input(fmt::format("{}:{}: no header line", table.name, reader.line()));
  return table;
}

CsvFact fact_of_comment(std::string_view comment) {
  const std::size_t colon = comment.find(':');
  const std::string_view key = comment.substr(0, colon);
  if (colon == std::string_view::npos || key.empty() || key.find_first_of(" \t,") != std::string_view::npos) {
    return {"", std::string(comment)};
  }
  return {std::string(key), std::string(trimmed(comment.substr(colon + 1)))};
}

}  // namespace warpsmith
