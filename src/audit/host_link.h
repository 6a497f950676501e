// The judge's end of the talk with the process that runs a foreign kernel. Nothing that this process says is believed:
// a reply ends a wait and carries claims to compare, and whatever else it does (dies, hangs, floods, answers what was
// not asked) is a fault with its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/sandbox.h"
#include "base/result.h"
#include "base/subprocess.h"

namespace warpsmith::audit {

// What /proc shows of a process, from outside.
struct ProcessFacts {
  int threads = 0;
  std::uint64_t resident_bytes = 0;  // memory of its own, not shared files
};
std::optional<ProcessFacts> observe_process(pid_t pid);

struct HostLimits {
  std::uint64_t memory_bytes = 16ULL << 30;  // resident
  int threads = 512;
  int stray_lines = 64;  // said without being asked; then it is a flood
};

enum class HostFault { died, hung, flooded, lied, greedy };
std::string_view to_string(HostFault fault);

struct HostReply {
  nlohmann::json body;
  double seconds = 0;  // by this process's clock, from before the command was sent until the reply was read
};

class HostLink {
 public:
  struct Options {
    std::filesystem::path launcher;  // warpsmith-sandbox; empty: the host program is started as it is
    std::vector<std::string> launcher_arguments;
    std::vector<std::string> host;  // program and arguments
    EnvironmentOverrides environment;
    std::vector<int> descriptors;  // inherited, from kChannelFd + 1 on
    std::filesystem::path log;     // of its standard output and error; empty: dropped
    HostLimits limits;
    double start_seconds = 30;
  };
  // Error (environment): it cannot be started, or the launcher cannot confine it so; the message says why.
  static Result<HostLink> start(const Options& options);

  // Sends {"id": random, "op": operation, ...arguments} and waits for the reply with this id. Error (failed): what the
  // process did instead; last_fault() has it by name and the process is gone.
  Result<HostReply> ask(const std::string& operation, nlohmann::json arguments, double limit_seconds);

  // Lines that came without being asked for since the last call: a forged result shows here.
  int take_stray_lines();

  const std::optional<HostFault>& last_fault() const { return fault_; }
  const Confinement& confinement() const { return confinement_; }
  void confine_further(const Confinement& later) { confinement_.merge(later); }
  pid_t pid() const { return pid_; }  // of the process that holds the foreign code
  std::optional<ProcessFacts> facts() const { return observe_process(pid_); }
  void stop() { child_.kill(); }

 private:
  explicit HostLink(ChildProcess child, HostLimits limits) : child_(std::move(child)), limits_(limits) {}
  Error fail(HostFault fault, const std::string& detail);
  std::optional<Error> exceeds_limits();
  Result<std::string> next_line(double deadline_seconds, double limit_seconds);

  ChildProcess child_;
  HostLimits limits_;
  pid_t pid_ = 0;
  Confinement confinement_;
  std::optional<HostFault> fault_;
  int strays_ = 0;
};

}  // namespace warpsmith::audit
