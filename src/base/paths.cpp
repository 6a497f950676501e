// XDG base directories and the executable's own directory.
#include "base/paths.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace warpsmith {

namespace {

std::filesystem::path home_dir() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  if (const passwd* entry = getpwuid(getuid()); entry != nullptr && entry->pw_dir != nullptr) return entry->pw_dir;
  return "/tmp";
}

std::filesystem::path from_environment(const char* own, const char* xdg, const char* fallback) {
  if (const char* value = std::getenv(own); value != nullptr && *value != '\0') return value;
  if (const char* value = std::getenv(xdg); value != nullptr && *value == '/') {
    return std::filesystem::path(value) / "warpsmith";
  }
  return home_dir() / fallback / "warpsmith";
}

}  // namespace

std::filesystem::path cache_dir() { return from_environment("WARPSMITH_CACHE", "XDG_CACHE_HOME", ".cache"); }

std::filesystem::path data_dir() { return from_environment("WARPSMITH_DATA", "XDG_DATA_HOME", ".local/share"); }

std::filesystem::path executable_dir() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::current_path() : path.parent_path();
}

}  // namespace warpsmith
