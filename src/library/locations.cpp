// Paths relative to the library, the installation and the user's folders.
#include "library/locations.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "base/paths.h"

#ifndef WARPSMITH_INSTALL_PREFIX
#define WARPSMITH_INSTALL_PREFIX "/usr/local"
#endif

namespace warpsmith::library {

namespace {

namespace fs = std::filesystem;

const char* from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::optional<Located> find(const char* option, const char* variable, const char* folder, const std::string& file) {
  if (option != nullptr && *option != '\0') return Located{option, true};
  if (const char* value = from_environment(variable)) return Located{value, true};
  std::vector<fs::path> places = {own_directory(), own_directory() / ".." / "share" / "warpsmith",
                                  fs::path(WARPSMITH_INSTALL_PREFIX) / "share" / "warpsmith", data_dir()};
  for (const fs::path& place : places) {
    std::error_code error;
    const fs::path path = place / folder / file;
    if (fs::is_regular_file(path, error)) return Located{path.lexically_normal(), false};
  }
  return std::nullopt;
}

}  // namespace

fs::path own_directory() {
  Dl_info facts{};
  static const char kHere = 0;
  if (dladdr(&kHere, &facts) != 0 && facts.dli_fname != nullptr) {
    std::error_code error;
    const fs::path path = fs::canonical(facts.dli_fname, error);
    if (!error) return path.parent_path();
  }
  return executable_dir();
}

std::optional<Located> find_wisdom(const char* option, const std::string& gpu) {
  return find(option, "WARPSMITH_WISDOM", "wisdom", gpu + ".jsonl");
}

std::optional<Located> find_pack(const char* option, const std::string& gpu) {
  return find(option, "WARPSMITH_PACK", "packs", gpu + ".wspack");
}

fs::path default_pack_path(const std::string& gpu) { return data_dir() / "packs" / (gpu + ".wspack"); }

fs::path find_nvrtc_helper() {
  if (const char* value = from_environment("WARPSMITH_NVRTC")) return value;
  for (const fs::path& folder : {own_directory(), executable_dir()}) {
    for (const fs::path& place : {folder, folder / ".." / "bin", folder / ".."}) {
      const fs::path path = place / "warpsmith-nvrtc";
      if (access(path.c_str(), X_OK) == 0) return path.lexically_normal();
    }
  }
  const fs::path installed = fs::path(WARPSMITH_INSTALL_PREFIX) / "bin" / "warpsmith-nvrtc";
  return access(installed.c_str(), X_OK) == 0 ? installed : fs::path();
}

}  // namespace warpsmith::library
