// Plain-text tables for the terminal.
#pragma once

#include <string>
#include <vector>

namespace warpsmith::cli {

// Columns are as wide as their widest cell; a cell that looks like a number is right-aligned. The first row is a
// header, underlined.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

// Three significant digits: "0.0123", "1.23", "12.3", "123", "12345".
std::string significant(double value);

}  // namespace warpsmith::cli
