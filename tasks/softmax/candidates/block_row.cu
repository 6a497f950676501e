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

struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// Of all threads of the block, given to all of them.
template <class Operation>
__device__ float reduce(float value, float neutral, Operation operation) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step /= 2) value = operation(value, __shfl_xor_sync(~0u, value, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < THREADS / 32 ? parts[threadIdx.x % 32] : neutral;
  for (int step = 16; step > 0; step /= 2) value = operation(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) block_row(const u16* x, u16* y, int columns, float scale) {
  x += (long long)blockIdx.x * columns;
  y += (long long)blockIdx.x * columns;
  const float infinity = __int_as_float(0x7f800000);
  float values[8 * VECTORS];
  float largest = -infinity;
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int at = 8 * (v * THREADS + threadIdx.x);
    if (WHOLE_VECTORS && at < columns) {
      const uint4 loaded = *(const uint4*)(x + at);
      const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
      for (int j = 0; j < 8; ++j) values[8 * v + j] = widen(words[j / 2] >> 16 * (j % 2));
    } else {
      for (int j = 0; j < 8; ++j) values[8 * v + j] = at + j < columns ? widen(x[at + j]) : -infinity;
    }
    for (int j = 0; j < 8; ++j) largest = fmaxf(largest, values[8 * v + j]);
  }
  largest = reduce(largest, -infinity, Maximum());
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8 * VECTORS; ++i) {
    // What lies beyond the row adds nothing, even where the row's largest is infinite.
    const int column = 8 * (i / 8 * THREADS + threadIdx.x) + i % 8;
    values[i] = column < columns ? __expf(scale * (values[i] - largest)) : 0.0f;
    sum += values[i];
  }
  const float inverse = 1.0f / reduce(sum, 0.0f, Sum());
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int at = 8 * (v * THREADS + threadIdx.x);
    unsigned words[4];
    for (int j = 0; j < 4; ++j) {
      words[j] = narrow(values[8 * v + 2 * j] * inverse) | narrow(values[8 * v + 2 * j + 1] * inverse) << 16;
    }
    if (WHOLE_VECTORS && at < columns) {
      *(uint4*)(y + at) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
      for (int j = 0; j < 8; ++j) {
        if (at + j < columns) y[at + j] = (u16)(words[j / 2] >> 16 * (j % 2));
      }
    }
  }
}
