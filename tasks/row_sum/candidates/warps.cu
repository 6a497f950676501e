// A row a group of WARPS warps, eight values a load where its length allows, two loads under way.
typedef unsigned short u16;

__device__ float widen(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
  return value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) row_sum(const u16* x, float* y, int columns, float scale) {
  __shared__ float parts[WARPS];
  x += (long long)blockIdx.x * columns;
  float sums[8] = {};
  if (WHOLE_VECTORS) {
#pragma unroll 4
    for (int at = 8 * threadIdx.x; at < columns; at += 8 * 32 * WARPS) {
      const uint4 loaded = *(const uint4*)(x + at);
      const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
      for (int j = 0; j < 8; ++j) sums[j] += widen(words[j / 2] >> 16 * (j % 2));
    }
  } else {
    for (int at = threadIdx.x; at < columns; at += 32 * WARPS) sums[0] += widen(x[at]);
  }
  float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (int i = 0; i < WARPS; ++i) sum += parts[i];
  y[blockIdx.x] = scale * sum;
}
