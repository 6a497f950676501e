// The tables of `bench`, made of its rows as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/speedup.h"
#include "report/table.h"

namespace warpsmith::cli {

using BenchRows = std::vector<nlohmann::json>;

// The time that is quoted of a subject, cold; warm where a mode has no cold figure. 0: not measured.
double quoted_us(const nlohmann::json& subject);

std::string live_line(const nlohmann::json& row);  // one problem, for the terminal
Table problem_table(const BenchRows& rows);        // one row a problem
Table subject_table(const BenchRows& rows);        // one row a subject: everything measured

// Speed-ups per size bucket, each mode and element type apart.
Result<std::vector<SpeedupReport>> summarize_rows(const BenchRows& rows);
RejectionCounts count_rejections(const BenchRows& rows);

}  // namespace warpsmith::cli
