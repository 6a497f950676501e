// Eight columns a thread; blocks cover columns in x and rows in y.
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

// Eight values; one load where rows are whole vectors.
__device__ void load8(const u16* from, int left, float* values) {
  if (WHOLE_VECTORS) {
    const uint4 loaded = *(const uint4*)from;
    const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
    for (int j = 0; j < 8; ++j) values[j] = widen(words[j / 2] >> 16 * (j % 2));
  } else {
    for (int j = 0; j < 8; ++j) values[j] = j < left ? widen(from[j]) : 0.0f;
  }
}

__device__ void store8(u16* to, int left, const float* values) {
  unsigned words[4];
  for (int j = 0; j < 4; ++j) words[j] = narrow(values[2 * j]) | narrow(values[2 * j + 1]) << 16;
  if (WHOLE_VECTORS) {
    *(uint4*)to = make_uint4(words[0], words[1], words[2], words[3]);
  } else {
    for (int j = 0; j < 8; ++j) {
      if (j < left) to[j] = (u16)(words[j / 2] >> 16 * (j % 2));
    }
  }
}

// Errors of erff cancel where z is far below zero; erfcf keeps them relative to the result.
__device__ float gelu(float z) {
  if (TANH) {
    const float inside = 0.7978845608f * (z + 0.044715f * z * z * z);
    return z / (1.0f + __expf(-2.0f * inside));
  }
  return 0.5f * z * erfcf(-0.7071067812f * z);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    vectors(const u16* x, const u16* bias, u16* y, int rows, int columns) {
  const int column = 8 * (blockIdx.x * THREADS + threadIdx.x);
  if (column >= columns) return;
  float biases[8];
  load8(bias + column, columns - column, biases);
  for (int row = blockIdx.y * ROWS; row < min(rows, (int)(blockIdx.y + 1) * ROWS); ++row) {
    const long long at = (long long)row * columns + column;
    float values[8];
    load8(x + at, columns - column, values);
    for (int j = 0; j < 8; ++j) values[j] = gelu(values[j] + biases[j]);
    store8(y + at, columns - column, values);
  }
}
