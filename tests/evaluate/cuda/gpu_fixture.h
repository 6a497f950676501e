// What the GPU tests share: a device or a visible skip, a scratch cache, compiled sources.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "compile/compile.h"
#include "evaluate/cuda/cuda_backend.h"
#include "evaluate/evaluator.h"

namespace warpsmith {

// One cache for the whole test process, removed with it.
struct TestCache {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("warpsmith-gpu-test-" + std::to_string(getpid()));
  ~TestCache() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};
inline const Compiler& test_compiler() {
  static const TestCache kCache;
  static const Compiler kCompiler([] {
    CompilerOptions options;
    options.cache = kCache.path;
    return options;
  }());
  return kCompiler;
}

inline Problem test_problem(const std::string& text) { return parse_problem(text).value(); }

// A kernel of one thread per element of C; `arguments` is (a, b, c, m, n, k).
inline Candidate elementwise_candidate(const Problem& problem, const Machine& machine, std::string source) {
  KernelLaunch launch;
  launch.entry = "entry";
  launch.block = {32, 8, 1};
  launch.grid = {static_cast<int>((problem.n + 31) / 32), static_cast<int>((problem.m + 7) / 8), 1};
  launch.arguments = {KernelArgument::pointer_to(Operand::a),
                      KernelArgument::pointer_to(Operand::b),
                      KernelArgument::pointer_to(Operand::c),
                      KernelArgument::integer(static_cast<int>(problem.m)),
                      KernelArgument::integer(static_cast<int>(problem.n)),
                      KernelArgument::integer(static_cast<int>(problem.k))};
  Candidate candidate;
  candidate.language = Language::cuda;
  candidate.arch = "sm_" + std::to_string(machine.compute_capability);  // machine code runs on its own generation only
  candidate.source = std::move(source);
  candidate.launch = CudaLaunch{{launch}, 0, false};
  return candidate;
}

// An honest NN kernel with room for misdeeds: `state` at file scope, `before` ahead of the sum, `step` after each
// product is added to `sum`, `store` in place of the store of element (i, j).
struct Misdeed {
  std::string state, before, step;
  std::string store = "c[i * n + j] = to_half(sum);";
};
inline std::string naive_source(const Misdeed& misdeed = {}) {
  return R"(
__device__ float to_float(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ unsigned short to_half(float f) {
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
)" + misdeed.state +
         R"(
extern "C" __global__ void entry(unsigned short* a, unsigned short* b, unsigned short* c, int m, int n, int k) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= m || j >= n) return;
)" + misdeed.before +
         R"(
  float sum = 0;
  for (int x = 0; x < k; ++x) {
    sum += to_float(a[i * k + x]) * to_float(b[x * n + j]);
)" + misdeed.step +
         "\n  }\n" + misdeed.store + "\n}\n";
}

// Skips the test where no device is there.
#define WARPSMITH_NEED_GPU(status) \
  if (!(status).ok()) GTEST_SKIP() << (status).error().message

}  // namespace warpsmith
