// CPU affinity through sched_setaffinity, by kernel thread id.
#include "evaluate/cpu/affinity.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace warpsmith {

namespace {

// As the process was started, before anything was bound.
const std::vector<int>& process_cpus() {
  static const std::vector<int> kCpus = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
      }
    }
    return cpus;
  }();
  return kCpus;
}

// Failure is harmless: the thread then runs where the scheduler puts it.
void pin(int thread_id, int index) {
  const auto& cpus = process_cpus();
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[static_cast<std::size_t>(index) % cpus.size()], &set);
  sched_setaffinity(thread_id, sizeof set, &set);
}

}  // namespace

int process_cpu_count() { return std::max(1, static_cast<int>(process_cpus().size())); }

void pin_this_thread(int index) { pin(0, index); }

PinnedCaller::PinnedCaller() { pin(0, 0); }

PinnedCaller::~PinnedCaller() {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : process_cpus()) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

int this_thread_id() { return static_cast<int>(syscall(SYS_gettid)); }

void pin_library_threads(const int* own, int own_count) {
  const int others = process_cpu_count() - 1;
  if (others < 1) return;
  std::vector<int> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const int id = std::atoi(entry.path().filename().c_str());
    if (id != getpid() && std::find(own, own + own_count, id) == own + own_count) threads.push_back(id);
  }
  std::sort(threads.begin(), threads.end());  // ids ascend with the time of birth: a library's threads are neighbours
  for (std::size_t i = 0; i < threads.size(); ++i) pin(threads[i], 1 + static_cast<int>(i) % others);
}

}  // namespace warpsmith
