// The suite's record: one JSON line per attack or honest candidate, appended to $WARPSMITH_ATTACKS_OUT.
#pragma once

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace warpsmith::attacks {

inline void record(const nlohmann::json& line) {
  if (const char* path = std::getenv("WARPSMITH_ATTACKS_OUT"); path != nullptr) {
    std::ofstream(path, std::ios::app) << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
}

}  // namespace warpsmith::attacks
