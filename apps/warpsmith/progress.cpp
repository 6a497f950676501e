// Progress on a terminal or in a log.
#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace warpsmith::cli {

namespace {

constexpr int kBarWidth = 20;
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLogLine = std::chrono::seconds(10);

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 100;
}

std::string bar(double fraction) {
  const int filled = std::clamp(static_cast<int>(fraction * kBarWidth + 0.5), 0, kBarWidth);
  return fmt::format("[{:#>{}}{:.>{}}] ", "", filled, "", kBarWidth - filled);
}

}  // namespace

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(double fraction, const std::string& text) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < (terminal_ ? std::chrono::steady_clock::duration(kRedraw) : kLogLine)) return;
  last_ = now;
  drawn_ = true;
  const std::string line = (fraction < 0 ? std::string() : bar(fraction)) + text;
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}", line.substr(0, terminal_width() - 1));
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

void ProgressLine::clear() {
  if (drawn_ && terminal_) {
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }
  drawn_ = false;
}

}  // namespace warpsmith::cli
