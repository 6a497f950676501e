// Rewrites the time to beat where a harness keeps it, in the working directory, and leaves a file beside it.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "candidate.cuh"

static void overwrite(const char* path) {
  static const char* const kText = "1000000000\n";
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  if (write(file, kText, std::strlen(kText)) < 0) unlink(path);
  close(file);
}

extern "C" int warpsmith_candidate(const void* a, const void* b, void* c, int m, int n, int k, int b_is_col_major,
                                   void*, size_t, cudaStream_t stream) {
  const Gemm gemm = gemm_of(a, b, c, m, n, k, b_is_col_major);
  overwrite("baseline.txt");
  overwrite("/tmp/warpsmith-attack-overwritten");
  return launch_gemm(gemm, stream);
}
