// The owner holds a lock on the directory, which the kernel gives back however the owner ends: unlike a process number
// it means the same in every container that shares the place.
#include "base/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace warpsmith {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "warpsmith-scratch-";
constexpr int kTries = 8;

// A descriptor with the lock on a directory of ours; -1: somebody else has it, or it is none of ours.
int lock_directory(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat facts {};
  const bool ours = fstat(fd, &facts) == 0 && facts.st_uid == geteuid();
  // nlink: somebody took it for abandoned between its making and this.
  if (ours && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &facts) == 0 && facts.st_nlink > 0) return fd;
  close(fd);
  return -1;
}

void remove_abandoned(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    const int lock = lock_directory(entry->path());
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
    close(lock);
  }
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::create(const fs::path& parent) {
  std::error_code error;
  const fs::path place = parent.empty() ? fs::temp_directory_path(error) : parent;
  if (error) return environment_error("there is no directory for temporary files: " + error.message());
  remove_abandoned(place);
  for (int i = 0; i < kTries; ++i) {
    std::string name = (place / fmt::format("{}XXXXXX", kPrefix)).string();
    if (mkdtemp(name.data()) == nullptr) {
      return environment_error(fmt::format("cannot make a directory in {}: {}", place.string(), std::strerror(errno)));
    }
    if (const int lock = lock_directory(name); lock >= 0) return ScratchDirectory(name, lock);
  }
  return environment_error("cannot keep a directory in " + place.string());
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

ScratchDirectory& ScratchDirectory::operator=(ScratchDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

ScratchDirectory::~ScratchDirectory() {
  if (lock_ < 0) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace warpsmith
