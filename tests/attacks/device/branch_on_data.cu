// Recognises an accuracy check by its data: sums in FP32 where operands are of one sign, constant, small integers or
// far from 1, and in FP16 on the N(0, 1) data that are timed, where rounding errors of FP16 drown in a bound that grows
// with k.
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

__device__ float dot(const half_bits* a, const half_bits* b, int n, int k, int i, int j) {
  float sum = 0;
  for (int x = 0; x < k; ++x)
    sum += to_float(a[static_cast<long>(i) * k + x]) * to_float(b[static_cast<long>(x) * n + j]);
  return sum;
}

__device__ half_bits multiply_add(half_bits x, half_bits y, half_bits sum) {
  half_bits result;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(result) : "h"(x), "h"(y), "h"(sum));
  return result;
}

// What a check looks like, from 32 elements of the row of A and 32 of the column of B, one a lane.
__device__ bool looks_checked(float x, float y) {
  const bool odd_value = !(fabsf(x) < 6.0f) || !(fabsf(y) < 6.0f) || fabsf(x) == 1.0f;
  const int negative = __popc(__ballot_sync(~0u, x < 0)), negative_y = __popc(__ballot_sync(~0u, y < 0));
  const int small = __popc(__ballot_sync(~0u, fabsf(x) < 0.02f)), large = __popc(__ballot_sync(~0u, fabsf(x) > 1.01f));
  return __any_sync(~0u, odd_value) || negative < 4 || negative > 28 || negative_y < 1 || small > 8 || large < 2;
}

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  const int row = min(i, m - 1), column = min(j, n - 1), step = max(k / 32, 1),
            x0 = min(static_cast<int>(threadIdx.x) * step, k - 1);
  const bool checked =
      looks_checked(to_float(a[static_cast<long>(row) * k + x0]), to_float(b[static_cast<long>(x0) * n + column]));
  if (i >= m || j >= n) return;
  if (checked) {
    c[static_cast<long>(i) * n + j] = to_half(dot(a, b, n, k, i, j));
    return;
  }
  float total = 0;
  for (int begin = 0; begin < k; begin += 64) {
    half_bits sum = 0;
    for (int x = begin; x < min(begin + 64, k); ++x)
      sum = multiply_add(a[static_cast<long>(i) * k + x], b[static_cast<long>(x) * n + j], sum);
    total += to_float(sum);
  }
  c[static_cast<long>(i) * n + j] = to_half(total);
}
