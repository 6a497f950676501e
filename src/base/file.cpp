// Whole-file reads and atomic writes over POSIX calls, so that every failure has its reason.
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace warpsmith {

namespace {

Error io_error(const char* what, const std::filesystem::path& path) {
  return environment_error(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open", path);
  std::string bytes;
  std::vector<char> chunk(1 << 16);
  for (;;) {
    const ssize_t got = read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const Error error = io_error("read", path);
      close(fd);
      return error;
    }
    if (got == 0) break;
    bytes.append(chunk.data(), static_cast<std::size_t>(got));
  }
  close(fd);
  return bytes;
}

Status write_file_atomic(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code made;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), made);
  if (made) return environment_error(fmt::format("cannot create {}: {}", path.parent_path().string(), made.message()));
  std::string temporary = path.string() + ".XXXXXX";
  const int fd = mkstemp(temporary.data());
  if (fd < 0) return io_error("create", path);
  const auto fail = [&](const char* what) {
    const Error error = io_error(what, path);
    close(fd);
    unlink(temporary.c_str());
    return error;
  };
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = write(fd, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail("write");
    done += static_cast<std::size_t>(put);
  }
  if (fchmod(fd, 0644) != 0 || fsync(fd) != 0) return fail("write");
  if (close(fd) != 0) {
    const Error error = io_error("write", path);
    unlink(temporary.c_str());
    return error;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = io_error("rename into", path);
    unlink(temporary.c_str());
    return error;
  }
  return ok_status();
}

}  // namespace warpsmith
