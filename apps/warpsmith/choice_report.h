// How the library's choice for shapes that were not tuned compares with recorded measurements: each problem is chosen
// for as if the wisdom file had no entry of its sizes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/replay/replay.h"
#include "library/wisdom_index.h"
#include "report/table.h"

namespace warpsmith::cli {

// Over the problems of a size bucket that have an entry of their own, for which others are left to choose from, and
// whose first kernel was measured. Ratios are of the fastest measured time over the chosen kernel's.
struct ChoiceReportRow {
  std::string way;     // "expectation", as the library chooses; "nearest": the nearest entry that runs
  std::string bucket;  // "all", or of kSizeBuckets
  std::size_t problems = 0;
  std::size_t unmeasured = 0;  // problems beside these, whose first kernel was not measured
  std::size_t cublaslt = 0;    // of both: cuBLASLt would have come first
  double best_over_first = 0;  // geometric mean
  double worst_first = 0;
};

std::vector<ChoiceReportRow> report_choices(const ReplayTable& table,
                                            const std::shared_ptr<const library::WisdomIndex>& wisdom);

Table choice_table(const std::vector<ChoiceReportRow>& rows);

}  // namespace warpsmith::cli
