// The files of a survey: one CSV a mode, a row a shape, made of the rows that were kept; and a line a shape for the
// terminal.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evaluate/effort.h"

namespace warpsmith::cli {

// A row is one shape in one mode:
//   {"m", "n", "k", "mode": "offline" | "call" | "server" | "accuracy",
//    "subjects": [Measurement ...] or, of accuracy, "errors": {...},
//    "ours": {"ours-nn": {"recipe", "source_hash", "origin", "gates"} ...}, "seconds": {...}, "provenance": {...}}
// or, where nothing could be measured, {"m", "n", "k", "mode", "failed": REASON}.
using SurveyRows = std::vector<nlohmann::json>;

inline constexpr const char* kAccuracyMode = "accuracy";

// The CSV of a mode, shapes in ascending order; of several rows of a shape the last counts, and failed ones are left
// out. Comments above the header say where and how it was measured. shapes: how many were asked for. Empty: no rows.
std::string survey_csv(const SurveyRows& rows, const std::string& mode, std::size_t shapes);

// "512x512x512 offline  ours 3.21 us (tn)  cublaslt-auto 3.55 us  1.106x".
std::string survey_line(const nlohmann::json& row);

// Lowest cold (or warm) median among the subjects whose names start so, in us; 0: there is none.
double fastest_us(const nlohmann::json& row, const std::string& prefix, bool warm = false);

}  // namespace warpsmith::cli
