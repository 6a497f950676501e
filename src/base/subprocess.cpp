// fork + exec with nothing but async-signal-safe calls in between: everything the child needs (path, arguments,
// environment, descriptors) is prepared by the parent. PR_SET_PDEATHSIG is tied to the *thread* that forks, so a
// long-lived worker must be spawned by a thread that outlives it.
#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/landlock.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace warpsmith {

namespace {

using Clock = std::chrono::steady_clock;

// Descriptors are kept above the ones that the child rearranges (0..kChannelFd), so that dup2 never overwrites one that
// is still needed.
constexpr int kFirstOwnFd = 16;
constexpr std::size_t kMaxLineBytes = 64u << 20;  // of one message: a worker gone wild must not fill our memory

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

Error system_error(std::string_view what) {
  return environment_error(fmt::format("cannot {}: {}", what, std::strerror(errno)));
}

// The same open file above kFirstOwnFd; closes the original.
UniqueFd move_up(int fd) {
  if (fd < 0) return {};
  UniqueFd original(fd);
  return UniqueFd(fcntl(original.get(), F_DUPFD_CLOEXEC, kFirstOwnFd));
}

struct Pipe {
  UniqueFd read_end, write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) return system_error("make a pipe");
  Pipe result{move_up(fds[0]), move_up(fds[1])};
  if (!result.read_end.valid() || !result.write_end.valid()) return system_error("make a pipe");
  return result;
}

// argv[0] as execvp would find it; empty when there is no such program.
std::string find_program(const std::string& name) {
  if (name.empty()) return {};
  if (name.find('/') != std::string::npos) return name;
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string directory = path.substr(at, end - at);
    std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate)) return candidate;
    at = end + 1;
  }
  return {};
}

std::vector<std::string> build_environment(const EnvironmentOverrides& overrides) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(overrides.begin(), overrides.end(), [&](const auto& override) { return override.first == name; });
    if (!replaced) result.emplace_back(text);
  }
  for (const auto& [name, value] : overrides) {
    if (value) result.push_back(name + "=" + *value);
  }
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// Everything the child needs between fork and exec.
struct SpawnPlan {
  std::string program;
  std::vector<std::string> argv, environment;
  std::string working_directory;
  ProcessLimits limits;
  int in = -1, out = -1, err = -1, channel = -1;  // become 0, 1, 2, kChannelFd
  std::vector<int> further;                       // become those after the channel
  int rules = -1;                                 // of Landlock
};

[[noreturn]] void report_and_exit(int report_fd) {
  const int code = errno;
  [[maybe_unused]] const ssize_t put = write(report_fd, &code, sizeof code);
  _exit(127);
}

// Lowers a limit; a lower one that the user has set stays.
bool set_limit(decltype(RLIMIT_AS) resource, rlim_t value) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min(limit.rlim_max, value);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  return setrlimit(resource, &limit) == 0;
}

#if defined(__x86_64__)
constexpr unsigned kOwnCalls = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kOwnCalls = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned kOwnCalls = 0;
#endif

// No sockets from here on: Landlock knows those of TCP alone, and not in every kernel. A kernel without seccomp only
// loses this precaution. Async-signal-safe.
void deny_sockets() {
  std::array<sock_filter, 6> program = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, arch)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, kOwnCalls},  // elsewhere the number means another call
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_socket},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EACCES},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

// Runs in the child: async-signal-safe calls only.
[[noreturn]] void enter_program(const SpawnPlan& plan, char* const* argv, char* const* environment, pid_t parent,
                                int report_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above took effect
  for (int number = 1; number < 32; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  if (dup2(plan.in, 0) < 0 || dup2(plan.out, 1) < 0 || dup2(plan.err, 2) < 0) report_and_exit(report_fd);
  if (plan.channel >= 0 && dup2(plan.channel, ChildProcess::kChannelFd) < 0) report_and_exit(report_fd);
  unsigned first = plan.channel >= 0 ? ChildProcess::kChannelFd + 1 : 3;
  for (const int fd : plan.further) {
    if (dup2(fd, static_cast<int>(first++)) < 0) report_and_exit(report_fd);
  }
  // Descriptors that some library opened without close-on-exec do not leak into the child. (4 = CLOSE_RANGE_CLOEXEC;
  // a kernel without close_range only loses this precaution.)
  syscall(SYS_close_range, first, ~0U, 4U);

  if (!plan.working_directory.empty() && chdir(plan.working_directory.c_str()) != 0) report_and_exit(report_fd);
  set_limit(RLIMIT_CORE, 0);
  if (plan.limits.memory_bytes != 0 && !set_limit(RLIMIT_AS, plan.limits.memory_bytes)) report_and_exit(report_fd);
  if (plan.limits.file_bytes != 0 && !set_limit(RLIMIT_FSIZE, plan.limits.file_bytes)) report_and_exit(report_fd);
  if (plan.rules >= 0) {
    if (!Landlock::enter(plan.rules)) report_and_exit(report_fd);
    deny_sockets();
  }
  execve(plan.program.c_str(), argv, environment);
  report_and_exit(report_fd);
}

int reap(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// The child's process id once its exec has succeeded.
Result<pid_t> spawn_process(SpawnPlan& plan) {
  if (plan.argv.empty()) return environment_error("cannot start a program without a name");
  plan.program = find_program(plan.argv[0]);
  if (plan.program.empty()) return environment_error(fmt::format("cannot find {} on PATH", plan.argv[0]));
  auto report = make_pipe();
  if (!report) return report.error();
  const std::vector<char*> argv = pointers_to(plan.argv);
  const std::vector<char*> environment = pointers_to(plan.environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) enter_program(plan, argv.data(), environment.data(), parent, report->write_end.get());

  setpgid(pid, pid);  // whichever of the two processes comes first
  report->write_end.reset();
  int code = 0;
  ssize_t got = 0;
  do {
    got = read(report->read_end.get(), &code, sizeof code);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof code)) {
    reap(pid);
    return environment_error(fmt::format("cannot start {}: {}", plan.program, std::strerror(code)));
  }
  return pid;
}

ExitStatus decode(int status) {
  ExitStatus result;
  if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  } else {
    result.exit_code = WEXITSTATUS(status);
  }
  return result;
}

// A descriptor that reads `text`: a memory file, so that no write can block or raise SIGPIPE.
Result<UniqueFd> input_descriptor(std::string_view text) {
  if (text.empty()) {
    UniqueFd null = move_up(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return system_error("open /dev/null");
    return null;
  }
  UniqueFd file = move_up(memfd_create("stdin", MFD_CLOEXEC));
  if (!file.valid()) return system_error("make a memory file");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t put = write(file.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("fill a memory file");
    done += static_cast<std::size_t>(put);
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Reads what is there; keeps at most `limit` bytes. False at end of file.
bool drain(int fd, std::string& kept, std::uint64_t limit) {
  std::array<char, 65536> chunk{};
  const ssize_t got = read(fd, chunk.data(), chunk.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  const std::uint64_t room = kept.size() < limit ? limit - kept.size() : 0;
  kept.append(chunk.data(), std::min(static_cast<std::uint64_t>(got), room));
  return true;
}

int milliseconds_until(Clock::time_point deadline) {
  const double left = std::chrono::duration<double, std::milli>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp(left + 1.0, 0.0, 1e9));
}

// Follows a running child: collects its output until it has ended, or kills its group at the wall limit.
class OutputCollector {
 public:
  OutputCollector(pid_t pid, const ProcessLimits& limits, UniqueFd out, UniqueFd err)
      : pid_(pid), limits_(limits), out_(std::move(out)), err_(std::move(err)) {
    fcntl(out_.get(), F_SETFL, O_NONBLOCK);
    fcntl(err_.get(), F_SETFL, O_NONBLOCK);
    exit_event_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));  // missing on old kernels: we poll
  }

  void run(ProcessOutput& result) {
    const auto start = Clock::now();
    const bool limited = limits_.wall_seconds > 0;
    const auto deadline = start + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(limited ? limits_.wall_seconds : 0));
    for (;;) {
      wait_for_event(limited ? milliseconds_until(deadline) : -1, result);
      siginfo_t ended{};
      const int asked = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
      if ((asked == 0 && ended.si_pid == pid_) || (asked < 0 && errno != EINTR)) break;
      if (limited && Clock::now() >= deadline) {
        result.status.timed_out = true;
        break;
      }
    }
    ::kill(-pid_, SIGKILL);  // with what it started; its number is still held by the unreaped child
    const int status = reap(pid_);
    while (pending(out_) && drain(out_.get(), result.out, limits_.output_bytes)) {
    }
    while (pending(err_) && drain(err_.get(), result.err, limits_.output_bytes)) {
    }
    if (!result.status.timed_out) result.status = decode(status);
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  static bool pending(const UniqueFd& fd) {
    pollfd event{fd.get(), POLLIN, 0};
    return fd.valid() && poll(&event, 1, 0) > 0;
  }

  void wait_for_event(int timeout_ms, ProcessOutput& result) {
    std::array<pollfd, 3> events{{{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {exit_event_.get(), POLLIN, 0}}};
    if (!exit_event_.valid()) timeout_ms = timeout_ms < 0 ? 10 : std::min(timeout_ms, 10);
    if (poll(events.data(), events.size(), timeout_ms) <= 0) return;
    if (events[0].revents != 0 && !drain(out_.get(), result.out, limits_.output_bytes)) out_.reset();
    if (events[1].revents != 0 && !drain(err_.get(), result.err, limits_.output_bytes)) err_.reset();
  }

  pid_t pid_;
  ProcessLimits limits_;
  UniqueFd out_, err_, exit_event_;
};

// Writes all of `line` and a newline to a socket. False when the other end has gone.
bool send_line(int fd, std::string_view line) {
  std::string message(line);
  message.push_back('\n');
  for (std::size_t done = 0; done < message.size();) {
    const ssize_t put = ::send(fd, message.data() + done, message.size() - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

bool take_line(std::string& buffer, std::string& line) {
  const std::size_t end = buffer.find('\n');
  if (end == std::string::npos) return false;
  line.assign(buffer, 0, end);
  buffer.erase(0, end + 1);
  return true;
}

// Appends what the socket holds, blocking for at least one byte. False when the other end has gone.
bool read_more(int fd, std::string& buffer) {
  std::array<char, 65536> chunk{};
  ssize_t got = 0;
  do {
    got = ::read(fd, chunk.data(), chunk.size());
  } while (got < 0 && errno == EINTR);
  if (got <= 0 || buffer.size() > kMaxLineBytes) return false;
  buffer.append(chunk.data(), static_cast<std::size_t>(got));
  return true;
}

}  // namespace

std::string ExitStatus::describe() const {
  if (timed_out) return "timed out";
  if (signal != 0) return fmt::format("signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

Result<ProcessOutput> run_process(const ProcessRequest& request) {
  auto in = input_descriptor(request.stdin_text);
  if (!in) return in.error();
  auto out = make_pipe();
  if (!out) return out.error();
  auto err = make_pipe();
  if (!err) return err.error();

  SpawnPlan plan;
  plan.argv = request.argv;
  plan.environment = build_environment(request.environment);
  plan.working_directory = request.working_directory.string();
  plan.limits = request.limits;
  UniqueFd rules;  // out of the range that the child rearranges
  if (request.rules != nullptr) {
    rules = UniqueFd(fcntl(request.rules->descriptor(), F_DUPFD_CLOEXEC, kFirstOwnFd));
    if (!rules.valid()) return system_error("pass a descriptor on");
    plan.rules = rules.get();
  }
  plan.in = in->get();
  plan.out = out->write_end.get();
  plan.err = err->write_end.get();
  const auto pid = spawn_process(plan);
  if (!pid) return pid.error();
  out->write_end.reset();
  err->write_end.reset();

  ProcessOutput result;
  OutputCollector(*pid, request.limits, std::move(out->read_end), std::move(err->read_end)).run(result);
  return result;
}

Result<ChildProcess> ChildProcess::spawn(const Options& options) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    return system_error("make a socket pair");
  UniqueFd ours = move_up(sockets[0]);
  UniqueFd theirs = move_up(sockets[1]);
  UniqueFd null = move_up(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!ours.valid() || !theirs.valid() || !null.valid()) return system_error("make a worker's channel");
  UniqueFd log;
  if (!options.log.empty()) {
    log = move_up(open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!log.valid()) return system_error(fmt::format("open {}", options.log.string()));
  }
  SpawnPlan plan;
  std::vector<UniqueFd> further;  // out of the range that the child rearranges
  for (const int fd : options.descriptors) {
    further.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnFd));
    if (!further.back().valid()) return system_error("pass a descriptor on");
    plan.further.push_back(further.back().get());
  }
  plan.argv = options.argv;
  plan.environment = build_environment(options.environment);
  plan.limits = options.limits;
  plan.in = null.get();
  plan.out = plan.err = log.valid() ? log.get() : null.get();
  plan.channel = theirs.get();
  const auto pid = spawn_process(plan);
  if (!pid) return pid.error();
  return ChildProcess(*pid, ours.release());
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    reset();
    pid_ = std::exchange(other.pid_, -1);
    fd_ = std::exchange(other.fd_, -1);
    buffer_ = std::move(other.buffer_);
    status_ = std::exchange(other.status_, std::nullopt);
  }
  return *this;
}

ChildProcess::~ChildProcess() { reset(); }

void ChildProcess::reset() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  if (pid_ > 0) {
    kill();
    if (!status_) status_ = decode(reap(pid_));
  }
  pid_ = -1;
}

bool ChildProcess::send(std::string_view line) { return fd_ >= 0 && send_line(fd_, line); }

ChildProcess::Receive ChildProcess::receive(std::string& line, double timeout_seconds) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds));
  for (;;) {
    if (take_line(buffer_, line)) return Receive::line;
    if (fd_ < 0) return Receive::closed;
    pollfd event{fd_, POLLIN, 0};
    const int ready = poll(&event, 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && Clock::now() >= deadline) return Receive::timeout;
    if (ready > 0 && !read_more(fd_, buffer_)) return Receive::closed;
  }
}

void ChildProcess::kill() {
  // A reaped child's number may belong to somebody else by now.
  if (pid_ > 0 && !status_) ::kill(-pid_, SIGKILL);
}

ExitStatus ChildProcess::wait() {
  if (!status_ && pid_ > 0) {
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    ::kill(-pid_, SIGKILL);  // what the child started; its own number is still held by the unreaped child
    status_ = decode(reap(pid_));
  }
  return status_.value_or(ExitStatus{});
}

std::optional<ExitStatus> ChildProcess::wait_for(double seconds) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (!status_ && pid_ > 0) {
    siginfo_t info{};
    const int asked = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (asked == 0 && info.si_pid == pid_) return wait();
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return wait();
}

bool ParentChannel::send(std::string_view line) { return send_line(fd_, line); }

bool ParentChannel::receive(std::string& line) {
  while (!take_line(buffer_, line)) {
    if (!read_more(fd_, buffer_)) return false;
  }
  return true;
}

}  // namespace warpsmith
