// The calling convention between the evaluator and a generated CPU kernel. Plain C types: both sides compile it apart.
#pragma once

#include <cstdint>

// All threads of one call share these arguments. Matrices are row-major as stored, elements are IEEE binary16 (or
// bfloat16) bit patterns, leading dimensions count elements.
struct WarpsmithCpuArguments {
  const std::uint16_t* a;
  const std::uint16_t* b;
  std::uint16_t* c;
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;
  void* workspace;                 // workspace_bytes of the launch, 4096-byte aligned, contents undefined
  const std::int64_t* parameters;  // the launch's run-time knobs
  int threads;
  void (*barrier)(void* barrier_state);  // blocks until all `threads` threads have called it
  void* barrier_state;
};

// Called once per thread, 0 <= thread < threads, all at the same time.
using WarpsmithCpuKernel = void (*)(const WarpsmithCpuArguments* arguments, int thread);
