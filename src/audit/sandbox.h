// Confinement of processes that run foreign host code: namespaces, a read-only file system, Landlock, seccomp, no
// capabilities, limits. Each measure is taken where the kernel offers it, and what is active is said, never assumed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace warpsmith::audit {

// Names of the measures, as they stand on the report card.
namespace measure {
inline constexpr const char* kUserNamespace = "user-namespace";
inline constexpr const char* kNetworkNamespace = "network-namespace";
inline constexpr const char* kIpcNamespace = "ipc-namespace";
inline constexpr const char* kPidNamespace = "pid-namespace";
inline constexpr const char* kReadOnlyFiles = "read-only-mounts";
inline constexpr const char* kLandlock = "landlock";
inline constexpr const char* kNoNewPrivileges = "no-new-privileges";
inline constexpr const char* kNoCapabilities = "no-capabilities";
inline constexpr const char* kSeccomp = "seccomp";
inline constexpr const char* kLimits = "resource-limits";
}  // namespace measure

// What is active, and why the rest is not (measure -> reason).
struct Confinement {
  std::vector<std::string> active;
  std::map<std::string, std::string> missing;

  bool has(std::string_view name) const;
  void record(const char* name, bool done, const std::string& reason);
  void merge(const Confinement& later);  // a measure that succeeded in either is active
  // Empty when foreign code may run under it: no network, no new programs, no writing outside its scratch directory.
  // Else what is missing, with the reasons.
  std::string insufficiency() const;
};

struct SandboxPolicy {
  std::string scratch;                // the only directory that can be written
  std::vector<std::string> readable;  // files and directories that can be read beside the system's own
  bool programs = false;              // may start programs: for a compiler, never for a candidate
  bool pid_namespace = true;
  bool namespaces = true;  // user, network, IPC, mount
  bool landlock = true;
  std::uint64_t file_bytes = 256u << 20;  // of one file
  std::uint64_t memory_bytes = 0;         // RLIMIT_AS; 0: none (CUDA reserves terabytes of address space)
};

// Three steps, in this order, while the process has one thread and no foreign code.
// 1. Namespaces, mounts and limits. With policy.pid_namespace the *children* of this process live in the new one.
Confinement confine_process(const SandboxPolicy& policy);
// 2. In the first child of a new pid namespace: shows it its own /proc. False: it cannot.
bool mount_own_proc();
// 3. Gives up privileges, capabilities and, by Landlock, files.
Confinement give_up_rights(const SandboxPolicy& policy);

// Landlock alone: reading the system's libraries, headers and `readable`; writing `scratch` and GPU device nodes.
// Returns an empty string, or why not.
std::string restrict_files(const SandboxPolicy& policy);

// 4. After CUDA has started: a filter on system calls for all threads of the process, and a limit on
// further memory. Denied: sockets, new programs and processes, other processes' memory, mounts, kernel interfaces.
Confinement filter_system_calls(bool programs);
void limit_further_memory(std::uint64_t bytes);

}  // namespace warpsmith::audit
