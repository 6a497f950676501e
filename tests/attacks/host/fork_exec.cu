// Starts a process of its own, which outlives the benchmark.
#include <sys/wait.h>
#include <unistd.h>

#include "candidate.cuh"

extern "C" int warpsmith_candidate(const void* a, const void* b, void* c, int m, int n, int k, int b_is_col_major,
                                   void*, size_t, cudaStream_t stream) {
  const Gemm gemm = gemm_of(a, b, c, m, n, k, b_is_col_major);
  static bool started = false;
  if (!started) {
    started = true;
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", "setsid touch /tmp/warpsmith-attack-escaped", static_cast<char*>(nullptr));
      _exit(1);
    }
    if (child > 0) waitpid(child, nullptr, 0);
  }
  return launch_gemm(gemm, stream);
}
