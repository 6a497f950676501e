// Tries one forbidden thing the way foreign code would, after the process has been filtered, and says how it went:
// "allowed" or the system's reason. Started by the sandbox tests under warpsmith-sandbox.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "audit/sandbox.h"

// The leak checker traces its own process at the end, which is one of the things that the sandbox forbids.
#if defined(__SANITIZE_ADDRESS__)
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return 1; }
#endif

namespace {

int open_for_writing(const char* path) { return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600); }

int attempt(const std::string& what, const char* path) {
  if (what == "read") return open(path, O_RDONLY);
  if (what == "write") return open_for_writing(path);
  if (what == "remove") return unlink(path);
  if (what == "socket") return socket(AF_INET, SOCK_STREAM, 0);
  if (what == "unix-socket") return socket(AF_UNIX, SOCK_STREAM, 0);
  if (what == "fork") {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    return child;
  }
  if (what == "exec") return execl("/bin/true", "true", nullptr);
  if (what == "ptrace") return static_cast<int>(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
  if (what == "signal-parent") return kill(getppid() > 0 ? getppid() : 1, 0);
  if (what == "signal-self") return kill(getpid(), 0);
  if (what == "outlive-parent") return prctl(PR_SET_PDEATHSIG, 0);
  if (what == "io-uring") return static_cast<int>(syscall(425, 1, nullptr));
  if (what == "unknown-call") return static_cast<int>(syscall(100000));
  if (what == "thread") {
    std::thread([] {}).join();
    return 0;
  }
  if (what == "memory") {
    const std::size_t bytes = std::size_t{8} << 30;
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
  }
  if (what == "environment") {
    errno = ENOENT;
    return std::getenv(path) != nullptr ? 0 : -1;
  }
  errno = EINVAL;
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto confinement = warpsmith::audit::filter_system_calls(false);
  if (!confinement.has(warpsmith::audit::measure::kSeccomp)) {
    std::puts("no seccomp");
    return 0;
  }
  warpsmith::audit::limit_further_memory(std::uint64_t{1} << 30);
  errno = 0;
  const int result = attempt(argv[1], argc > 2 ? argv[2] : "");
  std::puts(result >= 0 ? "allowed" : std::strerror(errno));
  std::fflush(stdout);
  _exit(0);  // a sanitizer's work at exit needs what is denied here
}
