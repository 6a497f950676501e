// Split-K: slices of K are added to an FP32 sum in the workspace by atomics, in the order in which blocks happen to
// arrive, which the descriptor declares. The first kernel clears the sums, the last one rounds them.
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

constexpr int kSplits = 8;

extern "C" __global__ void clear_sums(float* sums, int m, int n) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i < m && j < n) sums[static_cast<long>(i) * n + j] = 0;
}

extern "C" __global__ void add_slices(const half_bits* a, const half_bits* b, float* sums, int m, int n, int k) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= m || j >= n) return;
  const int slice = (k + kSplits - 1) / kSplits;
  const int begin = min(k, static_cast<int>(blockIdx.z) * slice), end = min(k, begin + slice);
  float sum = 0;
  for (int x = begin; x < end; ++x)
    sum += to_float(a[static_cast<long>(i) * k + x]) * to_float(b[static_cast<long>(x) * n + j]);
  atomicAdd(&sums[static_cast<long>(i) * n + j], sum);
}

extern "C" __global__ void round_sums(const float* sums, half_bits* c, int m, int n) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i < m && j < n) c[static_cast<long>(i) * n + j] = to_half(sums[static_cast<long>(i) * n + j]);
}
