// Rows of a bench or an audit on their way to a file, so that an interrupted run loses nothing and can be resumed.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace warpsmith::cli {

// One JSON object a line after a line that says what was run where; a member "warpsmith_..." of it names the command.
// Locked while open.
class RowFile {
 public:
  // Reads the rows of an earlier run, which must have had the same `identity`; a last line that was cut short is
  // dropped. Error: bad_input when identities differ or the file is no such file, environment when it cannot be used.
  static Result<RowFile> open(const std::filesystem::path& path, const nlohmann::json& identity);
  RowFile(RowFile&& other) noexcept;
  RowFile& operator=(RowFile&& other) noexcept;
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  const std::vector<nlohmann::json>& rows() const { return rows_; }  // of the earlier run
  Status append(const nlohmann::json& row);                          // on the disk when it returns
  void remove();

 private:
  RowFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status write_line(const std::string& line);

  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<nlohmann::json> rows_;
};

}  // namespace warpsmith::cli
