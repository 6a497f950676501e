// Whole-file reads and atomic writes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warpsmith {

// The file's bytes. Error: environment, naming the path and the system's reason.
Result<std::string> read_file(const std::filesystem::path& path);

// Writes to a temporary file in the same directory, syncs it and renames it into place: a reader sees the old bytes or
// the new ones, never a part. Missing parent directories are made. Error: environment (disk full, no permission).
Status write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

}  // namespace warpsmith
