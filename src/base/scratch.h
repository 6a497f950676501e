// Directories for temporary files that nobody has to clean up after: removed by their owner, or, where the owner was
// killed, by whoever makes the next one in the same place.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace warpsmith {

class ScratchDirectory {
 public:
  // A new one in `parent` (empty: the directory for temporary files), named warpsmith-scratch-XXXXXX. Those that lie
  // there and whose owners have ended go first. Error: environment.
  static Result<ScratchDirectory> create(const std::filesystem::path& parent = {});

  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&& other) noexcept;
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory();  // with all that is in it

  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchDirectory(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::filesystem::path path_;
  int lock_ = -1;  // of the directory itself, held as long as the owner lives
};

}  // namespace warpsmith
