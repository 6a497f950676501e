// Landlock: the kernel's own list of what a process, and all that it starts, may do with files. Where the kernel has
// it, it also denies TCP and signals to processes outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace warpsmith {

// What may be done with a file, or with everything below a directory. Bits of the kernel's interface; those that it is
// too old for are left out.
namespace file_rights {
inline constexpr std::uint64_t kExecute = 1ULL << 0;
inline constexpr std::uint64_t kWriteFiles = 1ULL << 1 | 1ULL << 14;  // and truncate them
inline constexpr std::uint64_t kReadFiles = 1ULL << 2;
inline constexpr std::uint64_t kRead = kReadFiles | 1ULL << 3;  // and list directories
inline constexpr std::uint64_t kRemoveFiles = 1ULL << 5;
inline constexpr std::uint64_t kMakeFiles = 1ULL << 8;
inline constexpr std::uint64_t kAll = (1ULL << 15) - 1;
}  // namespace file_rights

struct FileRule {
  std::string path;  // one that is not there grants nothing
  std::uint64_t rights = 0;
};

// A set of rules, for this process or for a child (ProcessRequest::rules). What no rule grants is denied.
class Landlock {
 public:
  // Error: environment, where the kernel has no Landlock.
  static Result<Landlock> create(const std::vector<FileRule>& rules);

  Landlock(Landlock&& other) noexcept;
  Landlock& operator=(Landlock&& other) noexcept;
  Landlock(const Landlock&) = delete;
  Landlock& operator=(const Landlock&) = delete;
  ~Landlock();

  int descriptor() const { return descriptor_; }

  // From here on the calling thread is held to the rules; false with errno: it is not. Async-signal-safe. Open
  // descriptors keep working.
  static bool enter(int descriptor);
  bool enter() const { return enter(descriptor_); }

 private:
  explicit Landlock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace warpsmith
