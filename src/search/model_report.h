// How the performance model compares with recorded measurements, per size bucket.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "evaluate/replay/replay.h"
#include "model/agreement.h"

namespace warpsmith {

// What was timed of a problem: recipes that were accepted, and those that were found too slow before all was measured.
std::vector<model::Measured> measured_times(const ReplayTable& table, const Problem& problem);

// Ratios are geometric means over problems: 1 when the model's choice is the fastest measured recipe.
struct ModelReportRow {
  std::string bucket;  // "all", or of kSizeBuckets
  std::size_t problems = 0, recipes = 0;
  double best_over_first =
      0;  // fastest measured time over that of the recipe that the model finds fastest of all measured
  double best_over_top = 0;     // over the fastest of the model's first 16 of all measured
  double worst_first = 0;       // lowest best_over_first of a problem
  double bias = 0, spread = 0;  // of log(model / measured), see model::Agreement
  // The same for what rank() returns, over the problems where it was measured.
  std::size_t ranked_first = 0, ranked_top = 0;  // problems
  double best_over_ranked_first = 0, best_over_ranked_top = 0;
};

// Over the problems of the table that the model's families fit; first "all", then the buckets that have problems. Empty
// where there is none.
std::vector<ModelReportRow> report_model(const ReplayTable& table);

}  // namespace warpsmith
