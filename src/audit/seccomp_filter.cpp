// A list of denied calls rather than of allowed ones: the CUDA driver's set is undocumented and changes, while what
// foreign code must not reach (network, programs, other processes, kernel interfaces) is known. Calls newer than the
// list are unknown to the program and answer ENOSYS.
#include "audit/seccomp_filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>

#ifndef CLONE_THREAD
#include <linux/sched.h>
#endif

namespace warpsmith::audit {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the filter knows x86-64 and AArch64 only"
#endif

constexpr std::uint32_t kLastKnownCall = 462;  // of Linux 6.8; from 424 on, numbers agree between architectures

constexpr std::uint32_t kDenied[] = {
    // network; the one socket that the process has was made before
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    // other processes
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    440 /* process_madvise */,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_tkill,
    // namespaces and mounts
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    431 /* fsconfig */,
    432 /* fsmount */,
    433 /* fspick */,
    442 /* mount_setattr */,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_acct,
    // kernel interfaces
    SYS_reboot,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    425 /* io_uring_setup */,
    426,
    427,
    SYS_seccomp,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_fanotify_init,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
    // the clock and the machine
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_personality,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_kexec_file_load,
#endif
};

constexpr std::uint32_t kProgramCalls[] = {
    SYS_execve,
    SYS_execveat,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
#endif
};

class Program {
 public:
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void load_call() { load(offsetof(seccomp_data, nr)); }
  // The low half of an argument: pids, options and flags are 32 bits wide in the kernel.
  void load_argument(int index) {
    load(offsetof(seccomp_data, args) + static_cast<std::size_t>(index) * sizeof(std::uint64_t));
  }
  void load_argument_high(int index) {
    load(offsetof(seccomp_data, args) + static_cast<std::size_t>(index) * sizeof(std::uint64_t) + 4);
  }
  void answer(std::uint32_t action) { add(BPF_RET | BPF_K, action); }
  void answer_if_equal(std::uint32_t value, std::uint32_t action) {
    jump(BPF_JEQ, value, 0, 1);
    answer(action);
  }
  void answer_unless_equal(std::uint32_t value, std::uint32_t action) {
    jump(BPF_JEQ, value, 1, 0);
    answer(action);
  }
  void answer_if_set(std::uint32_t bits, std::uint32_t action) {
    jump(BPF_JSET, bits, 0, 1);
    answer(action);
  }
  // The statements that `body` adds run for one call only.
  template <class Body>
  void for_call(std::uint32_t call, Body body) {
    jump(BPF_JEQ, call, 0, 0);
    const std::size_t at = code_.size() - 1;
    body();
    load_call();
    code_[at].jf = static_cast<std::uint8_t>(code_.size() - at - 1);
  }
  void jump(std::uint16_t test, std::uint32_t value, std::uint8_t if_true, std::uint8_t if_false) {
    code_.push_back({static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), if_true, if_false, value});
  }
  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  void add(int code, std::uint32_t value) { code_.push_back({static_cast<std::uint16_t>(code), 0, 0, value}); }
  std::vector<sock_filter> code_;
};

constexpr std::uint32_t error(int number) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(number); }

void filter_signals(Program& program, int own_pid) {
  for (const std::uint32_t call : {static_cast<std::uint32_t>(SYS_kill), static_cast<std::uint32_t>(SYS_tgkill)}) {
    program.for_call(call, [&] {
      program.load_argument(0);
      program.answer_unless_equal(static_cast<std::uint32_t>(own_pid), error(EPERM));
    });
  }
}

}  // namespace

std::vector<sock_filter> seccomp_program(bool programs, int own_pid) {
  Program program;
  program.load(offsetof(seccomp_data, arch));
  program.answer_unless_equal(kArchitecture, SECCOMP_RET_KILL_PROCESS);
  program.load_call();
  program.jump(BPF_JGT, kLastKnownCall, 0, 1);  // the x32 calls lie above as well
  program.answer(error(ENOSYS));
  for (const std::uint32_t call : kDenied) program.answer_if_equal(call, error(EPERM));
  // The parent decides when this process has outlived it.
  program.for_call(SYS_prctl, [&] {
    program.load_argument(0);
    program.answer_if_equal(PR_SET_PDEATHSIG, error(EPERM));
  });
  // A message needs no address on the one socket there is.
  program.for_call(SYS_sendto, [&] {
    program.load_argument(4);
    program.answer_unless_equal(0, error(EPERM));
    program.load_argument_high(4);
    program.answer_unless_equal(0, error(EPERM));
  });
  if (!programs) {
    filter_signals(program, own_pid);
    for (const std::uint32_t call : kProgramCalls) program.answer_if_equal(call, error(EPERM));
    // clone3 keeps its flags in memory, which no filter can read; without it the C library uses clone.
    program.answer_if_equal(SYS_clone3, error(ENOSYS));
    program.for_call(SYS_clone, [&] {
      program.load_argument(0);
      program.jump(BPF_JSET, CLONE_THREAD, 1, 0);
      program.answer(error(EPERM));
    });
  }
  program.answer(SECCOMP_RET_ALLOW);
  return program.take();
}

}  // namespace warpsmith::audit
