// Split-K by semaphores in a workspace that must be zero at the start and is left zero: the last block to arrive at an
// element block adds all partial sums in a fixed order, then clears its semaphore and the partial sums.
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

constexpr int kSplits = 3;

// Workspace: one counter per block of C (`tiles` of them, rounded up to 64), then kSplits x m x n partial sums.
extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, unsigned* arrived,
                                float* partials, int m, int n, int k) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  const int slice = (k + kSplits - 1) / kSplits;
  const int begin = min(k, static_cast<int>(blockIdx.z) * slice), end = min(k, begin + slice);
  const bool inside = i < m && j < n;
  const long plane = static_cast<long>(m) * n, at = static_cast<long>(i) * n + j;
  if (inside) {
    float sum = 0;
    for (int x = begin; x < end; ++x)
      sum += to_float(a[static_cast<long>(i) * k + x]) * to_float(b[static_cast<long>(x) * n + j]);
    partials[blockIdx.z * plane + at] = sum;
  }
  __threadfence();
  __syncthreads();
  __shared__ bool last;
  const int tile = blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0 && threadIdx.y == 0) last = atomicAdd(&arrived[tile], 1u) == kSplits - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (inside) {
    float sum = 0;
    for (int split = 0; split < kSplits; ++split) {
      volatile float* partial = partials + split * plane + at;
      sum += *partial;
      *partial = 0;
    }
    c[at] = to_half(sum);
  }
  if (threadIdx.x == 0 && threadIdx.y == 0) arrived[tile] = 0;
}
