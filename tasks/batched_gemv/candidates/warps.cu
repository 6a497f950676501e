// A warp for ROWS rows of a matrix: x is loaded once for all of them, eight values a load where rows allow.
typedef unsigned short u16;

__device__ float widen(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
  return value;
}
__device__ unsigned narrow(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warps(const u16* a, const u16* x, u16* y, int rows, int columns, float alpha) {
  const int row = ROWS * (blockIdx.x * WARPS + threadIdx.x / 32), lane = threadIdx.x % 32;
  if (row >= rows) return;
  const long long batch = blockIdx.y;
  x += batch * columns;
  a += (batch * rows + row) * columns;
  const int count = min(ROWS, rows - row);
  float sums[ROWS] = {};
  if (WHOLE_VECTORS) {
#pragma unroll 2
    for (int at = 8 * lane; at < columns; at += 256) {
      const uint4 loaded = *(const uint4*)(x + at);
      const unsigned right[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        if (i >= count) break;
        const uint4 loaded_a = *(const uint4*)(a + (long long)i * columns + at);
        const unsigned left[4] = {loaded_a.x, loaded_a.y, loaded_a.z, loaded_a.w};
        for (int j = 0; j < 8; ++j) {
          sums[i] += widen(left[j / 2] >> 16 * (j % 2)) * widen(right[j / 2] >> 16 * (j % 2));
        }
      }
    }
  } else {
    for (int at = lane; at < columns; at += 32) {
      for (int i = 0; i < count; ++i) sums[i] += widen(a[(long long)i * columns + at]) * widen(x[at]);
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    for (int step = 16; step > 0; step /= 2) sums[i] += __shfl_xor_sync(~0u, sums[i], step);
    if (lane == 0 && i < count) y[batch * rows + row + i] = (u16)narrow(alpha * sums[i]);
  }
}
