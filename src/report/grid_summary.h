// Sums up the CSV files of a survey: geometric means of the ratios per size bucket with intervals, win rates, tests.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "report/csv.h"

namespace warpsmith {

// Each as `warpsmith survey` writes it; those that are absent have no part in the summary.
struct SurveyFiles {
  std::optional<CsvTable> offline, call, server, accuracy, llm;
};

// {"provenance": {...}, "shapes": {"offline": 1000, ...},
//  "offline": {"cold": {"best": GROUPS, "nn": GROUPS, "tn": GROUPS}, "warm": {"best": GROUPS, "nn": ...},
//              "pdl": {"best": GROUPS}, "cold_over_heuristic": ..., "cold_over_cublas": ...},
//  "call": {"lt_auto": GROUPS, "lt_heuristic": GROUPS, "cublas": GROUPS}, "server": {.., "lt_auto_p95": GROUPS, ..},
//  "llm": {...}, "accuracy": {...}}
// GROUPS: {"all": STATISTICS, "< 24": STATISTICS, ...} of their time over ours; a bucket without shapes is left out.
// Error: bad_input, with file and line, for a column that is missing or a cell that is no positive time.
Result<nlohmann::json> grid_summary(const SurveyFiles& files);

}  // namespace warpsmith
