// What `tune` prints and writes: a line a problem, the speed-ups per size bucket, a row a shape in a CSV file, wisdom.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/provenance.h"
#include "search/tune.h"
#include "search/tune_finish.h"
#include "wisdom/wisdom.h"

namespace warpsmith::cli {

// One problem, as --json prints it; of the form that the tables of bench take.
nlohmann::json tune_row(const TuneConclusion& conclusion, Target target, int threads);

std::string tune_line(const nlohmann::json& row);

// One row a shape: the faster layout of ours (cold), baselines from its comparison, per-layout times from each layout's
// own. `shapes`: how many were asked for. Comments above say where it was measured.
std::string shapes_csv(const std::vector<TuneConclusion>& conclusions, const Provenance& provenance,
                       std::size_t shapes);

WisdomEntry wisdom_entry(const TuneConclusion& conclusion);

// Merges into the file what was found; makes it when missing. The number of entries that were taken. Error: bad_input
// for a file of another machine or one that is no wisdom.
Result<std::size_t> write_wisdom(const std::filesystem::path& path, const WisdomHeader& header,
                                 const std::vector<TuneConclusion>& conclusions);

std::string progress_text(const TuneProgress& progress);
nlohmann::json to_json(const TuneResult& result);
std::string describe(const TuneResult& result);  // one or two lines, for a terminal

}  // namespace warpsmith::cli
