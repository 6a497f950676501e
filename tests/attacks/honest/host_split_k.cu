// Split-K through the caller's workspace: partial sums, then their sum in a fixed order. Without room it takes one
// pass.
#include "candidate.cuh"

constexpr int kSplits = 4;

static __global__ void partial_sums(Gemm p, float* partials) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= p.m || j >= p.n) return;
  const int slice = (p.k + kSplits - 1) / kSplits;
  const int begin = min(p.k, static_cast<int>(blockIdx.z) * slice), end = min(p.k, begin + slice);
  const size_t step = p.b_is_col_major != 0 ? 1 : static_cast<size_t>(p.n);
  const __half* column = p.b + (p.b_is_col_major != 0 ? static_cast<size_t>(j) * p.k : static_cast<size_t>(j));
  float sum = 0;
  for (int x = begin; x < end; ++x) {
    sum += __half2float(p.a[static_cast<size_t>(i) * p.k + x]) * __half2float(column[x * step]);
  }
  partials[(static_cast<size_t>(blockIdx.z) * p.m + i) * p.n + j] = sum;
}

static __global__ void add_partials(Gemm p, const float* partials) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= p.m || j >= p.n) return;
  float sum = 0;
  for (int split = 0; split < kSplits; ++split) sum += partials[(static_cast<size_t>(split) * p.m + i) * p.n + j];
  p.c[static_cast<size_t>(i) * p.n + j] = __float2half_rn(sum);
}

extern "C" int warpsmith_candidate(const void* a, const void* b, void* c, int m, int n, int k, int b_is_col_major,
                                   void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const Gemm gemm = gemm_of(a, b, c, m, n, k, b_is_col_major);
  if (workspace_bytes < sizeof(float) * kSplits * static_cast<size_t>(m) * static_cast<size_t>(n)) {
    return launch_gemm(gemm, stream);
  }
  const dim3 grid = gemm_grid(gemm);
  partial_sums<<<dim3(grid.x, grid.y, kSplits), dim3(32, 8), 0, stream>>>(gemm, static_cast<float*>(workspace));
  add_partials<<<grid, dim3(32, 8), 0, stream>>>(gemm, static_cast<const float*>(workspace));
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
