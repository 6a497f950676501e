// Content-addressed store of compiled kernels. An entry is a directory (binary, source, manifest) that is renamed into
// place whole; whatever is wrong with one makes it a miss. Any part of the cache may be deleted at any time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "compile/compile.h"

namespace warpsmith {

// File names inside an entry.
struct EntryNames {
  std::string binary;  // "kernel.cubin", "kernel.so"
  std::string source;  // "kernel.cu", "kernel.cpp"
};

// A directory inside the cache that a compile works in; removed unless it became an entry.
class EntryDraft {
 public:
  static Result<EntryDraft> create(const std::filesystem::path& cache);
  EntryDraft(EntryDraft&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  EntryDraft& operator=(EntryDraft&&) = delete;
  EntryDraft(const EntryDraft&) = delete;
  EntryDraft& operator=(const EntryDraft&) = delete;
  ~EntryDraft();

  const std::filesystem::path& path() const { return path_; }
  // Not ours any more: it was renamed away.
  void release() { path_.clear(); }

 private:
  explicit EntryDraft(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Absent, truncated or altered entries give nullopt.
std::optional<Artifact> load_entry(const std::filesystem::path& cache, const std::string& key, const EntryNames& names,
                                   const std::string& source);

// Writes the manifest of the draft (which holds the binary and the source already), syncs it and renames it into place.
// Where a good entry came first, that one is returned. Error: environment.
Result<Artifact> store_entry(const std::filesystem::path& cache, EntryDraft draft, const EntryNames& names,
                             const std::string& source, const Artifact& facts);

}  // namespace warpsmith
