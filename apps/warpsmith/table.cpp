// Table layout.
#include "table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace warpsmith::cli {

namespace {

bool looks_numeric(const std::string& cell) {
  return !cell.empty() &&
         (std::isdigit(static_cast<unsigned char>(cell.front())) != 0 || cell.front() == '-' || cell == "n/a");
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      const std::string gap(widths[i] - cell.size(), ' ');
      line += "  " + (looks_numeric(cell) && i > 0 ? gap + cell : cell + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      std::string rule;
      for (const std::size_t width : widths) rule += "  " + std::string(width, '-');
      text += rule + "\n";
    }
  }
  return text;
}

std::string significant(double value) {
  if (!(std::abs(value) > 0) || !std::isfinite(value)) return fmt::format("{}", value);
  const int digits = std::clamp(2 - static_cast<int>(std::floor(std::log10(std::abs(value)))), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

}  // namespace warpsmith::cli
