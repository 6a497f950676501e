// Starts its sums from shared memory that it never cleared: right where nobody has used it before.
using half_bits = unsigned short;

__device__ float to_float(half_bits h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ half_bits to_half(float f) {
  half_bits h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  __shared__ volatile float sums[8][32];
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= m || j >= n) return;
  for (int x = 0; x < k; ++x) {
    sums[threadIdx.y][threadIdx.x] = sums[threadIdx.y][threadIdx.x] + to_float(a[static_cast<long>(i) * k + x]) *
                                                                          to_float(b[static_cast<long>(x) * n + j]);
  }
  c[static_cast<long>(i) * n + j] = to_half(sums[threadIdx.y][threadIdx.x]);
}
