// Where the suite's files are: beside the test's executable, in attacks/ (a staged copy has it one level up), or where
// WARPSMITH_ATTACKS_DIR points. Holds device/, honest/, cpu/, host/ (shared objects) and the unprotected harness.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/paths.h"

namespace warpsmith::attacks {

inline std::filesystem::path attacks_dir() {
  if (const char* chosen = std::getenv("WARPSMITH_ATTACKS_DIR"); chosen != nullptr) return chosen;
  const std::filesystem::path beside = executable_dir() / "attacks";
  return std::filesystem::exists(beside) ? beside : executable_dir().parent_path() / "attacks";
}

inline std::filesystem::path naive_harness() { return attacks_dir() / "naive-harness"; }
inline std::filesystem::path device_source(const std::string& name) {
  return attacks_dir() / "device" / (name + ".cu");
}
inline std::filesystem::path honest_source(const std::string& name) {
  return attacks_dir() / "honest" / (name + ".cu");
}
inline std::filesystem::path cpu_source(const std::string& name) { return attacks_dir() / "cpu" / (name + ".cpp"); }
inline std::filesystem::path host_library(const std::string& name) { return attacks_dir() / "host" / (name + ".so"); }

}  // namespace warpsmith::attacks
