// Eight columns of gate and up a thread; blocks cover columns in x and rows in y.
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

extern "C" __global__ void __launch_bounds__(THREADS) vectors(const u16* x, u16* y, int rows, int columns, float beta) {
  const int column = 8 * (blockIdx.x * THREADS + threadIdx.x);
  if (column >= columns) return;
  for (int row = blockIdx.y * ROWS; row < min(rows, (int)(blockIdx.y + 1) * ROWS); ++row) {
    const u16* gates = x + (long long)row * 2 * columns + column;
    float gate[8], up[8];
    load8(gates, columns - column, gate);
    load8(gates + columns, columns - column, up);
    for (int j = 0; j < 8; ++j) gate[j] = gate[j] / (1.0f + __expf(-beta * gate[j])) * up[j];
    store8(y + (long long)row * columns + column, columns - column, gate);
  }
}
