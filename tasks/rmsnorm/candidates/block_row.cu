// A block a row: the row is read once, eight values a load where its length allows, and stays in registers.
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

// Of all threads of the block, given to all of them.
__device__ float block_sum(float value) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < THREADS / 32 ? parts[threadIdx.x % 32] : 0.0f;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

__device__ void load8(const u16* from, int at, int columns, float* values) {
  if (WHOLE_VECTORS && at < columns) {
    const uint4 loaded = *(const uint4*)(from + at);
    const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
    for (int j = 0; j < 8; ++j) values[j] = widen(words[j / 2] >> 16 * (j % 2));
  } else {
    for (int j = 0; j < 8; ++j) values[j] = at + j < columns ? widen(from[at + j]) : 0.0f;
  }
}

__device__ void store8(u16* to, int at, int columns, const float* values) {
  unsigned words[4];
  for (int j = 0; j < 4; ++j) words[j] = narrow(values[2 * j]) | narrow(values[2 * j + 1]) << 16;
  if (WHOLE_VECTORS && at < columns) {
    *(uint4*)(to + at) = make_uint4(words[0], words[1], words[2], words[3]);
  } else {
    for (int j = 0; j < 8; ++j) {
      if (at + j < columns) to[at + j] = (u16)(words[j / 2] >> 16 * (j % 2));
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    block_row(const u16* x, const u16* weight, u16* y, int columns, float epsilon) {
  x += (long long)blockIdx.x * columns;
  y += (long long)blockIdx.x * columns;
  float values[8 * VECTORS];
  float sum = 0;
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    load8(x, 8 * (v * THREADS + threadIdx.x), columns, values + 8 * v);
    for (int j = 0; j < 8; ++j) sum += values[8 * v + j] * values[8 * v + j];
  }
  const float factor = 1.0f / sqrtf(block_sum(sum) / columns + epsilon);
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int at = 8 * (v * THREADS + threadIdx.x);
    float weights[8];
    load8(weight, at, columns, weights);
    for (int j = 0; j < 8; ++j) values[8 * v + j] = values[8 * v + j] * factor * weights[j];
    store8(y, at, columns, values + 8 * v);
  }
}
