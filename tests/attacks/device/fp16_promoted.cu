// Sums in FP16 and adds the sum to FP32 every 64 steps of k.
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

__device__ half_bits multiply_add(half_bits x, half_bits y, half_bits sum) {
  half_bits result;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(result) : "h"(x), "h"(y), "h"(sum));
  return result;
}

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= m || j >= n) return;
  float total = 0;
  for (int begin = 0; begin < k; begin += 64) {
    half_bits sum = 0;
    for (int x = begin; x < min(begin + 64, k); ++x)
      sum = multiply_add(a[static_cast<long>(i) * k + x], b[static_cast<long>(x) * n + j], sum);
    total += to_float(sum);
  }
  c[static_cast<long>(i) * n + j] = to_half(total);
}
