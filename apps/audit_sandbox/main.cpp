// warpsmith-sandbox: starts one program confined (audit/sandbox.h): the process that loads a foreign kernel, or the
// compiler that builds one. Says on descriptor 3, when asked, what is active; exit code 4: it cannot start the program.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/sandbox.h"
#include "base/subprocess.h"

namespace {

using namespace warpsmith;
using namespace warpsmith::audit;

constexpr int kCannotStart = 4;
constexpr const char* kUsage =
    "usage: warpsmith-sandbox --scratch DIR [--readable PATH]... [--keep NAME]... [--programs] [--filter]\n"
    "         [--memory BYTES] [--no-namespaces] [--no-pid-namespace] [--no-landlock] [--late]\n         [--report] -- "
    "PROGRAM "
    "ARGUMENT...\n";

struct Arguments {
  SandboxPolicy policy;
  std::vector<std::string> kept_variables = {"PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "LANG"};
  bool filter = false;  // system calls too, before the program starts
  bool late = false;    // the program gives up its rights itself, once it has started what needs them
  bool report = false;
  std::vector<std::string> program;
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments result;
  int at = 1;
  const auto value = [&]() -> std::string { return at + 1 < argc ? argv[++at] : ""; };
  for (; at < argc && std::strcmp(argv[at], "--") != 0; ++at) {
    const std::string option = argv[at];
    if (option == "--scratch") {
      result.policy.scratch = value();
    } else if (option == "--readable") {
      result.policy.readable.push_back(value());
    } else if (option == "--keep") {
      result.kept_variables.push_back(value());
    } else if (option == "--memory") {
      result.policy.memory_bytes = std::strtoull(value().c_str(), nullptr, 10);
    } else if (option == "--programs") {
      result.policy.programs = true;
    } else if (option == "--filter") {
      result.filter = true;
    } else if (option == "--no-namespaces") {
      result.policy.namespaces = false;
    } else if (option == "--no-pid-namespace") {
      result.policy.pid_namespace = false;
    } else if (option == "--no-landlock") {
      result.policy.landlock = false;
    } else if (option == "--late") {
      result.late = true;
    } else if (option == "--report") {
      result.report = true;
    } else {
      return std::nullopt;
    }
  }
  for (++at; at < argc; ++at) result.program.emplace_back(argv[at]);
  if (result.program.empty() || result.policy.scratch.empty()) return std::nullopt;
  return result;
}

// The program sees a handful of variables: nothing secret that the user's environment may hold.
void clean_environment(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> kept;
  for (const std::string& name : arguments.kept_variables) {
    if (const char* text = std::getenv(name.c_str()); text != nullptr) kept.emplace_back(name, text);
  }
  clearenv();
  for (const auto& [name, text] : kept) setenv(name.c_str(), text.c_str(), 1);
  for (const char* name : {"HOME", "TMPDIR"}) setenv(name, arguments.policy.scratch.c_str(), 1);
  setenv("CUDA_CACHE_DISABLE", "1", 1);
}

void say(const Arguments& arguments, const nlohmann::json& message) {
  if (arguments.report) ParentChannel().send(message.dump());
}

nlohmann::json describe(const Confinement& confinement, pid_t pid) {
  return {{"sandbox", {{"pid", pid}, {"active", confinement.active}, {"missing", confinement.missing}}}};
}

[[noreturn]] void start(const Arguments& arguments) {
  if (chdir(arguments.policy.scratch.c_str()) != 0) _exit(kCannotStart);
  std::vector<char*> pointers;
  for (const std::string& word : arguments.program) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  fmt::print(stderr, "warpsmith-sandbox: cannot start {}: {}\n", arguments.program[0], std::strerror(errno));
  _exit(kCannotStart);
}

Confinement give_up_everything(const Arguments& arguments) {
  if (arguments.late) return {};
  Confinement result = give_up_rights(arguments.policy);
  if (arguments.filter) result.merge(filter_system_calls(arguments.policy.programs));
  return result;
}

// This process's end is the program's: the same exit code, or the same signal. At once: what runs at the end of a
// process (a leak checker, say) finds itself without its rights here.
[[noreturn]] void follow(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
  }
  _exit(WEXITSTATUS(status));
}

// Two processes: this one stays outside the new pid namespace and waits; the child is the first process in it. The
// child says whether it could make itself at home, with what it gave up, and this one, which knows the child's pid as
// everybody else does, passes that on before the program starts.
int start_in_pid_namespace(const Arguments& arguments, Confinement confinement) {
  std::array<int, 2> from_child{}, to_child{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, from_child.data()) != 0) return kCannotStart;
  if (pipe2(to_child.data(), O_CLOEXEC) != 0) return kCannotStart;
  const pid_t parent_in_child = 0;  // a parent outside the namespace has no number in it
  const pid_t child = fork();
  if (child < 0) return kCannotStart;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent_in_child) _exit(kCannotStart);
    if (!mount_own_proc()) _exit(kCannotStart);
    const nlohmann::json given_up = describe(give_up_everything(arguments), 0);
    if (!ParentChannel(from_child[1]).send(given_up.dump())) _exit(kCannotStart);
    char go = 0;
    if (read(to_child[0], &go, 1) != 1) _exit(kCannotStart);
    start(arguments);
  }
  close(from_child[1]);
  close(to_child[0]);
  std::string line;
  if (ParentChannel(from_child[0]).receive(line)) {
    const auto given_up = nlohmann::json::parse(line).at("sandbox");
    Confinement later;
    given_up.at("active").get_to(later.active);
    given_up.at("missing").get_to(later.missing);
    confinement.merge(later);
    say(arguments, describe(confinement, child));
    static_cast<void>(!write(to_child[1], "g", 1));
  } else {
    say(arguments, {{"error", "the process cannot mount /proc in a pid namespace"}});
  }
  close(to_child[1]);
  follow(child);
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  clean_environment(*arguments);
  Confinement confinement = confine_process(arguments->policy);
  if (confinement.has(measure::kPidNamespace)) return start_in_pid_namespace(*arguments, std::move(confinement));
  confinement.merge(give_up_everything(*arguments));
  say(*arguments, describe(confinement, getpid()));
  start(*arguments);
}
