// What `optimize` prints at the end, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "archive/archive.h"
#include "llm/session.h"
#include "report/provenance.h"
#include "search/conclude.h"
#include "search/optimize.h"

namespace warpsmith::cli {

struct OptimizeOutcome {
  Archive::Scope scope;
  OptimizeResult search;
  std::optional<Conclusion> conclusion;  // absent on replay, after an interrupt, and when nothing was accepted
  std::string archive_path;
  std::optional<llm::SessionReport> models{};  // of policy llm
  std::string prompt{};                        // of --dry-run: all that there is
  std::string command;                         // to search on, as the user would type it
  std::optional<Provenance> provenance{};      // of what a device has measured
};

std::string format_outcome(const OptimizeOutcome& outcome);
nlohmann::json outcome_to_json(const OptimizeOutcome& outcome);

// "1 wrong (bound/normal 1), 2 too-slow": verdicts that are not `accepted`; empty when there are none.
std::string format_rejections(const OptimizeResult& result);

}  // namespace warpsmith::cli
