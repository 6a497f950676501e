// The measures one by one. Everything here runs in a process of one thread, before foreign code is loaded.
#include "audit/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "audit/seccomp_filter.h"
#include "base/landlock.h"

namespace warpsmith::audit {

namespace fs = std::filesystem;

namespace {

std::string reason() { return std::strerror(errno); }

bool write_text(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return written;
}

// The user keeps its number: what it owns outside, it owns inside.
bool enter_user_namespace() {
  const auto uid = std::to_string(geteuid()), gid = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER) != 0) return false;
  return write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", uid + " " + uid + " 1") &&
         write_text("/proc/self/gid_map", gid + " " + gid + " 1");
}

// struct mount_attr and its flags, which older headers lack.
struct MountAttributes {
  std::uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};
constexpr std::uint64_t kMountReadOnly = 1;
constexpr long kMountSetattr = 442;

bool set_mount_attributes(const char* path, unsigned flags, MountAttributes attributes) {
  return syscall(kMountSetattr, AT_FDCWD, path, flags, &attributes, sizeof attributes) == 0;
}

// The CUDA driver names its threads through files here and gives up where it cannot.
constexpr const char* kOwnThreads = "/proc/self/task";

bool keep_thread_names_writable(const char* rest) {
  return mount(kOwnThreads, kOwnThreads, nullptr, MS_BIND, nullptr) == 0 &&
         set_mount_attributes(rest, AT_RECURSIVE, {kMountReadOnly, 0, 0, 0}) &&
         set_mount_attributes(kOwnThreads, 0, {0, kMountReadOnly, 0, 0});
}

// Every mount becomes read-only but for the names of the process's own threads and the scratch directory. A candidate's
// is a small memory file system; a compiler's is the real one, because what it writes is wanted.
bool make_files_read_only(const SandboxPolicy& policy) {
  if (mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  const char* scratch = policy.scratch.c_str();
  if (policy.programs && mount(scratch, scratch, nullptr, MS_BIND, nullptr) != 0) return false;
  if (!keep_thread_names_writable("/")) return false;
  if (policy.programs) return set_mount_attributes(scratch, 0, {0, kMountReadOnly, 0, 0});
  if (mount("tmpfs", scratch, "tmpfs", MS_NOSUID | MS_NODEV, "size=256m,mode=0700") != 0) return false;
  if (fs::exists("/dev/shm")) mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=256m,mode=1777");
  return true;
}

// What programs and the driver read of the system: libraries and headers, devices, facts on processor and process.
constexpr const char* kSystemPaths[] = {"/usr",
                                        "/lib",
                                        "/lib64",
                                        "/bin",
                                        "/sbin",
                                        "/opt",
                                        "/proc",
                                        "/sys",
                                        "/dev",
                                        "/etc/ld.so.cache",
                                        "/etc/ld.so.preload",
                                        "/etc/ld.so.conf",
                                        "/etc/ld.so.conf.d",
                                        "/etc/alternatives",
                                        "/etc/localtime",
                                        "/etc/nvidia",
                                        "/etc/OpenCL"};

std::vector<std::string> device_nodes() {
  std::vector<std::string> nodes = {"/dev/null", "/dev/zero", "/dev/shm"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    if (entry.path().filename().string().starts_with("nvidia")) nodes.push_back(entry.path().string());
  }
  return nodes;
}

bool drop_capabilities() {
  for (int capability = 0; capability < 64; ++capability) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  // Neither does a program started later get any back for running as user 0: SECBIT_NOROOT and its lock.
  prctl(PR_SET_SECUREBITS, 3, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

bool lower_limit(decltype(RLIMIT_AS) resource, std::uint64_t value) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, value);
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(resource, &limit) == 0;
}

constexpr std::uint64_t kOpenFiles = 4096;

bool lower_limits(const SandboxPolicy& policy) {
  return lower_limit(RLIMIT_CORE, 0) && lower_limit(RLIMIT_FSIZE, policy.file_bytes) &&
         lower_limit(RLIMIT_NOFILE, kOpenFiles) &&
         (policy.memory_bytes == 0 || lower_limit(RLIMIT_AS, policy.memory_bytes));
}

void enter_namespaces(const SandboxPolicy& policy, Confinement& result) {
  if (!policy.namespaces) {
    for (const char* name : {measure::kUserNamespace, measure::kNetworkNamespace, measure::kIpcNamespace,
                             measure::kReadOnlyFiles, measure::kPidNamespace}) {
      result.record(name, false, "not asked for");
    }
    return;
  }
  const bool user = enter_user_namespace();
  result.record(measure::kUserNamespace, user, reason());
  result.record(measure::kNetworkNamespace, unshare(CLONE_NEWNET) == 0, reason());
  result.record(measure::kIpcNamespace, unshare(CLONE_NEWIPC) == 0, reason());
  const bool mounts = unshare(CLONE_NEWNS) == 0;
  result.record(measure::kReadOnlyFiles, mounts && make_files_read_only(policy), reason());
  if (!policy.pid_namespace) {
    result.record(measure::kPidNamespace, false, "not asked for");
  } else {
    result.record(measure::kPidNamespace, mounts && unshare(CLONE_NEWPID) == 0, reason());
  }
}

}  // namespace

bool Confinement::has(std::string_view name) const {
  return std::find(active.begin(), active.end(), name) != active.end();
}

void Confinement::record(const char* name, bool done, const std::string& why_not) {
  if (done) {
    missing.erase(name);
    if (!has(name)) active.emplace_back(name);
  } else if (!has(name)) {
    missing[name] = why_not;
  }
}

void Confinement::merge(const Confinement& later) {
  for (const std::string& name : later.active) record(name.c_str(), true, {});
  for (const auto& [name, why_not] : later.missing) record(name.c_str(), false, why_not);
}

std::string Confinement::insufficiency() const {
  const auto reason_of = [&](const char* name) {
    const auto found = missing.find(name);
    return std::string(name) + " (" + (found == missing.end() ? "not tried" : found->second) + ")";
  };
  if (!has(measure::kSeccomp)) return reason_of(measure::kSeccomp);
  if (!has(measure::kLandlock) && !has(measure::kReadOnlyFiles)) {
    return reason_of(measure::kLandlock) + " and " + reason_of(measure::kReadOnlyFiles);
  }
  return {};
}

std::string restrict_files(const SandboxPolicy& policy) {
  using namespace file_rights;
  // Programs: the sandboxed one itself is started under these rules; candidates lose that right with the filter.
  constexpr std::uint64_t kReadable = kRead | kExecute;
  std::vector<FileRule> rules = {{policy.scratch, kAll}, {kOwnThreads, kRead | kWriteFiles}};
  for (const char* path : kSystemPaths) rules.push_back({path, kReadable});
  for (const std::string& path : policy.readable) rules.push_back({path, kReadable});
  for (const std::string& path : device_nodes()) {
    rules.push_back({path, kRead | kWriteFiles | kMakeFiles | kRemoveFiles});
  }
  const Result<Landlock> landlock = Landlock::create(rules);
  if (!landlock) return landlock.error().message;
  return landlock->enter() ? "" : reason();
}

Confinement confine_process(const SandboxPolicy& policy) {
  Confinement result;
  enter_namespaces(policy, result);
  result.record(measure::kLimits, lower_limits(policy), reason());
  return result;
}

bool mount_own_proc() {
  return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0 &&
         keep_thread_names_writable("/proc");
}

Confinement give_up_rights(const SandboxPolicy& policy) {
  Confinement result;
  result.record(measure::kNoNewPrivileges, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, reason());
  if (policy.landlock) {
    const std::string why_not = restrict_files(policy);
    result.record(measure::kLandlock, why_not.empty(), why_not);
  }
  result.record(measure::kNoCapabilities, drop_capabilities(), reason());
  return result;
}

Confinement filter_system_calls(bool programs) {
  Confinement result;
  std::vector<sock_filter> program = seccomp_program(programs, getpid());
  const sock_fprog compiled{static_cast<unsigned short>(program.size()), program.data()};
  const bool private_enough = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  const long done =
      private_enough ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &compiled) : -1;
  result.record(measure::kSeccomp, done == 0, done > 0 ? "a thread could not be filtered" : reason());
  return result;
}

void limit_further_memory(std::uint64_t bytes) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t data_kb = 0;
  while (status >> word) {
    if (word == "VmData:") status >> data_kb;
  }
  lower_limit(RLIMIT_DATA, data_kb * 1024 + bytes);
}

}  // namespace warpsmith::audit
