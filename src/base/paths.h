// Where warpsmith keeps its files, following the XDG base-directory rules.
#pragma once

#include <filesystem>

namespace warpsmith {

// Compiled kernels: $WARPSMITH_CACHE, else $XDG_CACHE_HOME/warpsmith, else ~/.cache/warpsmith. Safe to delete.
std::filesystem::path cache_dir();

// Archive and exported kernels: $WARPSMITH_DATA, else $XDG_DATA_HOME/warpsmith, else ~/.local/share/warpsmith.
std::filesystem::path data_dir();

// The directory that holds the running executable; worker executables are looked for beside it.
std::filesystem::path executable_dir();

}  // namespace warpsmith
