// Landlock through its system calls: the C library has no wrappers for them, and headers are older than kernels.
#include "base/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace warpsmith {

namespace {

using namespace file_rights;

static_assert(kExecute == LANDLOCK_ACCESS_FS_EXECUTE && (kWriteFiles & LANDLOCK_ACCESS_FS_WRITE_FILE) != 0);
static_assert(kRead == (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR));
static_assert(kRemoveFiles == LANDLOCK_ACCESS_FS_REMOVE_FILE && kMakeFiles == LANDLOCK_ACCESS_FS_MAKE_REG);

constexpr std::uint64_t kTruncate = 1ULL << 14;  // of the third version
constexpr std::uint64_t kRefer = 1ULL << 13;     // of the second
constexpr std::uint64_t kFirstRights = (1ULL << 13) - 1;
constexpr std::uint64_t kRightsOnFiles = kExecute | kWriteFiles | kReadFiles;  // the others are directories'

// As the kernel has it.
struct Ruleset {
  std::uint64_t files = 0, network = 0, scoped = 0;
};

Ruleset all_rights(long version) {
  Ruleset ruleset;
  ruleset.files = kFirstRights | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0);
  if (version >= 4) ruleset.network = 3;  // binding and connecting TCP sockets
  if (version >= 6) ruleset.scoped = 3;   // abstract sockets and signals to processes outside
  return ruleset;
}

std::size_t size_of(long version) { return version >= 6 ? 24 : version >= 4 ? 16 : 8; }

bool add(int ruleset, const std::string& path, std::uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return true;
  struct stat status {};
  if (fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode)) rights &= kRightsOnFiles;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = fd;
  const bool added = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  return added;
}

Error missing() { return environment_error(std::strerror(errno)); }

}  // namespace

Result<Landlock> Landlock::create(const std::vector<FileRule>& rules) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return missing();
  const Ruleset all = all_rights(version);
  Landlock result(static_cast<int>(syscall(SYS_landlock_create_ruleset, &all, size_of(version), 0)));
  if (result.descriptor_ < 0) return missing();
  for (const FileRule& rule : rules) {
    if (!add(result.descriptor_, rule.path, rule.rights & all.files)) return missing();
  }
  return result;
}

Landlock::Landlock(Landlock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Landlock& Landlock::operator=(Landlock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Landlock::~Landlock() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Landlock::enter(int descriptor) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, descriptor, 0) == 0;
}

}  // namespace warpsmith
