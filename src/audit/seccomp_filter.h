// The filter on system calls as a classic BPF program.
#pragma once

#include <linux/filter.h>

#include <vector>

namespace warpsmith::audit {

// programs: starting processes and programs is allowed. own_pid: the only process that may be signalled.
std::vector<sock_filter> seccomp_program(bool programs, int own_pid);

}  // namespace warpsmith::audit
