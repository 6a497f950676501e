// Where the library finds its wisdom, its kernel pack and its compiler.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace warpsmith::library {

// The folder of the shared library (or of the program that it is linked into).
std::filesystem::path own_directory();

// A file that was named by the user, or found in a place where files of this GPU are installed.
struct Located {
  std::filesystem::path path;
  bool named = false;  // by an option or an environment variable: its absence is worth a message
};

// gpu: wisdom_name() of the machine ("h200"). In this order: `option` (may be null), $WARPSMITH_WISDOM, then the first
// that exists of GPU.jsonl in wisdom/ beside the library, in its ../share/warpsmith/wisdom, in the installation's, and
// in the user's data folder.
std::optional<Located> find_wisdom(const char* option, const std::string& gpu);
// Likewise for the pack: `option`, $WARPSMITH_PACK, GPU.wspack in packs/ of the same places.
std::optional<Located> find_pack(const char* option, const std::string& gpu);
// Where `warpsmith pack` writes when it is not told: the user's data folder.
std::filesystem::path default_pack_path(const std::string& gpu);

// warpsmith-nvrtc: $WARPSMITH_NVRTC, then beside the library or program, in ../bin of either, or above it, then in the
// installation's bin. Empty: none.
std::filesystem::path find_nvrtc_helper();

}  // namespace warpsmith::library
