// The four printed forms of a table.
#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace warpsmith {

namespace {

constexpr std::pair<std::string_view, ReportFormat> kFormats[] = {{"table", ReportFormat::table},
                                                                  {"csv", ReportFormat::csv},
                                                                  {"json", ReportFormat::json},
                                                                  {"markdown", ReportFormat::markdown}};
constexpr std::size_t kListedValues = 4;  // of a fact in which rows differ

std::string shown_number(double value, const Column& column) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  switch (column.style) {
    case Column::Style::fixed:
      return fmt::format("{:.{}f}", value, column.digits);
    case Column::Style::percent:
      return fmt::format("{:.{}f} %", 100 * value, column.digits);
    case Column::Style::probability:
      return value < 0.001 ? "< 0.001" : fmt::format("{:.3f}", value);
    case Column::Style::text:
    case Column::Style::number:
      break;
  }
  return significant(value);
}

// For readers.
std::string shown(const Cell& cell, const Column& column) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) {
    const bool whole = column.style == Column::Style::number || column.style == Column::Style::text;
    return whole ? fmt::format("{}", *integer) : shown_number(static_cast<double>(*integer), column);
  }
  if (const auto* number = std::get_if<double>(&cell)) return shown_number(*number, column);
  if (const auto* yes = std::get_if<bool>(&cell)) return *yes ? "yes" : "no";
  return {};
}

// For programs: shortest text that reads back as the same number.
std::string exact(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&cell)) return std::isfinite(*number) ? fmt::format("{}", *number) : "";
  if (const auto* yes = std::get_if<bool>(&cell)) return *yes ? "true" : "false";
  return {};
}

nlohmann::json json_value(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return *integer;
  if (const auto* number = std::get_if<double>(&cell))
    return std::isfinite(*number) ? nlohmann::json(*number) : nullptr;
  if (const auto* yes = std::get_if<bool>(&cell)) return *yes;
  return nullptr;
}

// What takes a column of a terminal: bytes, less the continuation bytes of UTF-8.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

// A cell stays on its line and cannot end it.
std::string one_line(std::string text) {
  for (char& byte : text) {
    if (static_cast<unsigned char>(byte) < ' ') byte = ' ';
  }
  return text;
}

std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char byte : one_line(text)) {
    if (byte == '|' || byte == '\\' || byte == '<') escaped += '\\';
    escaped += byte;
  }
  return escaped;
}

}  // namespace

Result<ReportFormat> parse_report_format(std::string_view text) {
  for (const auto& [name, format] : kFormats) {
    if (name == text) return format;
  }
  return bad_input(fmt::format("unknown format '{}'; accepted: table, csv, json, markdown", printable(text)));
}

std::string significant(double value) {
  if (!(std::abs(value) > 0) || !std::isfinite(value)) return fmt::format("{}", value);
  const int digits = std::clamp(2 - static_cast<int>(std::floor(std::log10(std::abs(value)))), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char byte : text) {
    if (byte == '"') quoted += '"';
    quoted += byte;
  }
  return quoted + '"';
}

void Table::add(std::vector<Cell> cells, std::shared_ptr<const Provenance> provenance) {
  if (cells.size() != columns_.size()) {
    throw std::logic_error(fmt::format("a row of {} cells in a table of {} columns", cells.size(), columns_.size()));
  }
  rows_.push_back({std::move(cells), std::move(provenance)});
}

std::vector<std::pair<std::string, std::string>> Table::common_facts() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;  // distinct values of each fact
  std::vector<const Provenance*> seen;
  for (const Row& row : rows_) {
    const Provenance* provenance = row.provenance.get();
    if (provenance == nullptr || std::find(seen.begin(), seen.end(), provenance) != seen.end()) continue;
    seen.push_back(provenance);
    for (auto& [key, value] : provenance->facts()) {
      auto at = std::find_if(found.begin(), found.end(), [&](const auto& fact) { return fact.first == key; });
      if (at == found.end()) at = found.insert(found.end(), {key, {}});
      if (std::find(at->second.begin(), at->second.end(), value) == at->second.end()) at->second.push_back(value);
    }
  }
  std::vector<std::pair<std::string, std::string>> facts;
  for (auto& [key, values] : found) {
    std::string text = values.front();
    if (values.size() > 1 && (key == "clock_mhz" || key == "date")) {
      const auto less = [](const std::string& a, const std::string& b) {  // numbers by value, dates by their text
        return a.size() != b.size() ? a.size() < b.size() : a < b;
      };
      const auto [low, high] = std::minmax_element(values.begin(), values.end(), less);
      text = *low + " to " + *high;
    } else {
      for (std::size_t i = 1; i < std::min(values.size(), kListedValues); ++i) text += "; " + values[i];
      if (values.size() > kListedValues) text += fmt::format("; and {} more", values.size() - kListedValues);
    }
    facts.emplace_back(key, one_line(text));
  }
  return facts;
}

std::vector<std::vector<std::string>> Table::shown_cells() const {
  std::vector<std::vector<std::string>> lines(1 + rows_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].detail) continue;
    lines.front().push_back(columns_[i].header());
    for (std::size_t r = 0; r < rows_.size(); ++r) lines[r + 1].push_back(shown(rows_[r].cells[i], columns_[i]));
  }
  return lines;
}

std::vector<bool> Table::shown_numbers() const {
  std::vector<bool> numbers;
  for (const Column& column : columns_) {
    if (!column.detail) numbers.push_back(column.style != Column::Style::text);
  }
  return numbers;
}

std::string Table::text() const {
  std::string text;
  if (!title_.empty()) text += title_ + "\n";
  for (const auto& [key, value] : common_facts()) text += fmt::format("  {:<12} {}\n", key, value);
  auto lines = shown_cells();
  const std::vector<bool> numbers = shown_numbers();
  std::vector<std::size_t> widths(numbers.size(), 0);
  for (auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      line[i] = one_line(line[i]);
      widths[i] = std::max(widths[i], width(line[i]));
    }
  }
  std::string rule;
  for (const std::size_t wide : widths) rule += "  " + std::string(wide, '-');
  for (std::size_t r = 0; r < lines.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string gap(widths[i] - width(lines[r][i]), ' ');
      line += "  " + (numbers[i] ? gap + lines[r][i] : lines[r][i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) text += rule + "\n";
  }
  return text;
}

std::string Table::markdown() const {
  std::string text;
  if (!title_.empty()) text += "### " + title_ + "\n\n";
  const auto facts = common_facts();
  for (const auto& [key, value] : facts) text += fmt::format("- {}: {}\n", key, markdown_cell(value));
  if (!facts.empty()) text += "\n";
  const auto lines = shown_cells();
  for (std::size_t r = 0; r < lines.size(); ++r) {
    text += "|";
    for (const std::string& cell : lines[r]) text += " " + markdown_cell(cell) + " |";
    text += "\n";
    if (r > 0) continue;
    text += "|";
    for (const bool number : shown_numbers()) text += number ? "---:|" : "---|";
    text += "\n";
  }
  return text;
}

std::string Table::csv() const {
  std::vector<std::string> keys;  // of the facts of any row, in order of appearance
  for (const Row& row : rows_) {
    if (row.provenance == nullptr) continue;
    for (const auto& [key, value] : row.provenance->facts()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  std::string text;
  const auto add_field = [&text](std::string_view field, bool first) { text += (first ? "" : ",") + csv_field(field); };
  for (std::size_t i = 0; i < columns_.size(); ++i) add_field(columns_[i].key, i == 0);
  for (const std::string& key : keys) {
    // A fact named like a column is told apart.
    const bool taken = std::any_of(columns_.begin(), columns_.end(), [&](const Column& c) { return c.key == key; });
    add_field(taken ? "provenance_" + key : key, false);
  }
  text += "\r\n";
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < columns_.size(); ++i) add_field(exact(row.cells[i]), i == 0);
    const auto facts = row.provenance ? row.provenance->facts() : std::vector<std::pair<std::string, std::string>>();
    for (const std::string& key : keys) {
      const auto at = std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == key; });
      add_field(at == facts.end() ? std::string_view() : std::string_view(at->second), false);
    }
    text += "\r\n";
  }
  return text;
}

nlohmann::json Table::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows_) {
    nlohmann::json object = nlohmann::json::object();
    for (std::size_t i = 0; i < columns_.size(); ++i) object[columns_[i].key] = json_value(row.cells[i]);
    if (row.provenance) object["provenance"] = *row.provenance;
    list.push_back(std::move(object));
  }
  return list;
}

std::string Table::print(ReportFormat format) const {
  switch (format) {
    case ReportFormat::table:
      return text();
    case ReportFormat::csv:
      return csv();
    case ReportFormat::json:
      return json().dump(2) + "\n";
    case ReportFormat::markdown:
      return markdown();
  }
  return {};
}

}  // namespace warpsmith
