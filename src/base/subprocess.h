// Child processes: one-shot commands under limits, and long-lived workers with a message channel. Every child dies with
// its parent (PR_SET_PDEATHSIG), so a killed run leaves nothing behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace warpsmith {

class Landlock;  // base/landlock.h

struct ProcessLimits {
  double wall_seconds = 0;               // 0: none. The whole process group is killed at the limit.
  std::uint64_t memory_bytes = 0;        // RLIMIT_AS; 0: none
  std::uint64_t file_bytes = 0;          // RLIMIT_FSIZE, the largest file the child may write; 0: none
  std::uint64_t output_bytes = 1 << 20;  // kept of each of stdout and stderr; the rest is read and dropped
};

using EnvironmentOverrides = std::vector<std::pair<std::string, std::optional<std::string>>>;  // nullopt: unset

// How a process ended. Exactly one of: timed_out, signal != 0, or exit_code.
struct ExitStatus {
  bool timed_out = false;
  int signal = 0;
  int exit_code = 0;
  bool success() const { return !timed_out && signal == 0 && exit_code == 0; }
  std::string describe() const;  // "exit code 1", "signal 11 (Segmentation fault)", "timed out"
};

struct ProcessOutput {
  ExitStatus status;
  std::string out, err;
  double seconds = 0;
};

struct ProcessRequest {
  std::vector<std::string> argv;  // argv[0] is looked up on PATH
  std::string stdin_text;
  ProcessLimits limits;
  EnvironmentOverrides environment;
  std::filesystem::path working_directory;  // empty: the parent's
  const Landlock* rules = nullptr;          // the child is held to them, and opens no sockets; nullptr: it is free
};

// Runs to the end. Error: environment, when the program cannot be started at all.
Result<ProcessOutput> run_process(const ProcessRequest& request);

// A child that exchanges lines with its parent over a socket pair. The socket is file descriptor kChannelFd in the
// child; its stdout and stderr go to /dev/null or to `log`, so that printing cannot forge a message.
class ChildProcess {
 public:
  static constexpr int kChannelFd = 3;

  struct Options {
    std::vector<std::string> argv;
    EnvironmentOverrides environment;
    std::filesystem::path log;     // empty: /dev/null
    ProcessLimits limits;          // memory and file size; wall time is the caller's, through receive()
    std::vector<int> descriptors;  // further ones that the child inherits, as kChannelFd + 1, + 2, ...
  };
  static Result<ChildProcess> spawn(const Options& options);

  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills the process group and reaps it

  enum class Receive { line, timeout, closed };
  bool send(std::string_view line);                            // false once the child has gone
  Receive receive(std::string& line, double timeout_seconds);  // closed: the child ended or closed its channel
  void kill();
  ExitStatus wait();                                   // blocks until the child ends; idempotent
  std::optional<ExitStatus> wait_for(double seconds);  // nullopt: it still runs
  pid_t pid() const { return pid_; }

 private:
  ChildProcess(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  void reset() noexcept;

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string buffer_;
  std::optional<ExitStatus> status_;
};

// The child's side of the channel: blocking line reads and writes on kChannelFd.
class ParentChannel {
 public:
  explicit ParentChannel(int fd = ChildProcess::kChannelFd) : fd_(fd) {}
  bool send(std::string_view line);  // false once the parent has gone
  bool receive(std::string& line);   // false once the parent has gone

 private:
  int fd_;
  std::string buffer_;
};

}  // namespace warpsmith
