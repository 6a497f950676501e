// Appending, locking and reading back.
#include "row_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/text.h"

namespace warpsmith::cli {

namespace {

Error cannot(const char* what, const std::filesystem::path& path) {
  return environment_error(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
}

// Names the first member in which two identities differ.
std::string difference(const nlohmann::json& theirs, const nlohmann::json& ours) {
  const auto differing = nlohmann::json::diff(theirs, ours);
  if (differing.empty()) return {};
  const std::string at = differing.front().at("path");
  const nlohmann::json::json_pointer pointer(at);
  const auto shown = [&](const nlohmann::json& json) {
    return json.contains(pointer) ? printable(json.at(pointer).dump(), 60) : std::string("nothing");
  };
  return fmt::format("{} was {} and is {}", printable(at), shown(theirs), shown(ours));
}

// Both are of a bench, or of an audit: they share the member that names it.
bool same_kind(const nlohmann::json& theirs, const nlohmann::json& ours) {
  return std::any_of(ours.items().begin(), ours.items().end(), [&](const auto& member) {
    return member.key().starts_with("warpsmith_") && theirs.contains(member.key());
  });
}

}  // namespace

RowFile::RowFile(RowFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), rows_(std::move(other.rows_)) {}

RowFile& RowFile::operator=(RowFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(rows_, other.rows_);
  return *this;
}

RowFile::~RowFile() {
  if (fd_ >= 0) close(fd_);
}

Result<RowFile> RowFile::open(const std::filesystem::path& path, const nlohmann::json& identity) {
  std::error_code ignored;  // open() says what is wrong
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return cannot("open", path);
  RowFile file(path, fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return environment_error(fmt::format("{} is being written by another run", path.string()));
  }
  const auto text = read_file(path);
  if (!text) return text.error();
  std::size_t line_start = 0, number = 0;
  for (std::size_t end = text->find('\n'); end != std::string::npos; end = text->find('\n', line_start)) {
    const auto line = nlohmann::json::parse(text->substr(line_start, end - line_start), nullptr, false);
    line_start = end + 1;
    ++number;
    if (!line.is_object() || (number == 1 && !same_kind(line, identity))) {
      return bad_input(
          fmt::format("{} line {} is no row of such a run; remove the file to start anew", path.string(), number));
    }
    if (number > 1) {
      file.rows_.push_back(line);
    } else if (const std::string differs = difference(line, identity); !differs.empty()) {
      return bad_input(fmt::format("{} is of another run: {}; remove the file to start anew", path.string(), differs));
    }
  }
  if (line_start < text->size() && ftruncate(fd, static_cast<off_t>(line_start)) != 0) return cannot("shorten", path);
  if (number > 0) return file;
  if (const Status status = file.write_line(identity.dump()); !status) return status.error();
  return file;
}

Status RowFile::write_line(const std::string& line) {
  const std::string whole = line + "\n";
  const off_t start = lseek(fd_, 0, SEEK_END);
  for (std::size_t done = 0; done < whole.size();) {
    const ssize_t written = write(fd_, whole.data() + done, whole.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const Error error = cannot("write", path_);
      // Half a row would spoil the file for --resume; if this fails as well, opening it drops the half.
      if (start >= 0 && ftruncate(fd_, start) != 0) return error;
      return error;
    }
    done += static_cast<std::size_t>(written);
  }
  if (fdatasync(fd_) != 0) return cannot("write", path_);
  return ok_status();
}

Status RowFile::append(const nlohmann::json& row) { return write_line(row.dump()); }

void RowFile::remove() {
  std::error_code ignored;  // it is of no use any more, and does no harm
  std::filesystem::remove(path_, ignored);
}

}  // namespace warpsmith::cli
