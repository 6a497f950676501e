// One line of progress on stderr: redrawn in place on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace warpsmith::cli {

class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // fraction: 0 to 1, or negative when unknown; text: what else to show.
  void update(double fraction, const std::string& text);
  void clear();

 private:
  bool quiet_, terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace warpsmith::cli
