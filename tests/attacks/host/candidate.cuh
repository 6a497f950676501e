// What the host candidates of the attack suite share: the entry that an audit calls, and the honest kernel from which
// each is derived.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>

struct Gemm {
  const __half* a;
  const __half* b;
  __half* c;
  int m, n, k;
  int b_is_col_major;
};

// One thread per element of C, FP32 sums.
static __global__ void gemm_kernel(Gemm p) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= p.m || j >= p.n) return;
  const size_t step = p.b_is_col_major != 0 ? 1 : static_cast<size_t>(p.n);
  const __half* row = p.a + static_cast<size_t>(i) * p.k;
  const __half* column = p.b + (p.b_is_col_major != 0 ? static_cast<size_t>(j) * p.k : static_cast<size_t>(j));
  float sum = 0;
  for (int x = 0; x < p.k; ++x) sum += __half2float(row[x]) * __half2float(column[x * step]);
  p.c[static_cast<size_t>(i) * p.n + j] = __float2half_rn(sum);
}

static inline dim3 gemm_grid(const Gemm& p) {
  return dim3(static_cast<unsigned>((p.n + 31) / 32), static_cast<unsigned>((p.m + 7) / 8));
}

static inline int launch_gemm(const Gemm& p, cudaStream_t stream) {
  gemm_kernel<<<gemm_grid(p), dim3(32, 8), 0, stream>>>(p);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}

// 0 on success. A: m x k row-major; B: k x n row-major, or column-major; C: m x n row-major.
extern "C" int warpsmith_candidate(const void* a, const void* b, void* c, int m, int n, int k, int b_is_col_major,
                                   void* workspace, size_t workspace_bytes, cudaStream_t stream);

static inline Gemm gemm_of(const void* a, const void* b, void* c, int m, int n, int k, int b_is_col_major) {
  return {
      static_cast<const __half*>(a), static_cast<const __half*>(b), static_cast<__half*>(c), m, n, k, b_is_col_major};
}
