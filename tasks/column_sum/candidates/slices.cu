// Rows are dealt to SLICES slices; each sums its rows of eight columns a thread into the workspace, and a second kernel
// adds the slices in order, so the bits are the same every time.
typedef unsigned short u16;

__device__ float widen(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    partial_sums(const u16* x, float* partial, int rows, int columns, int rows_a_slice) {
  const int column = VECTOR * (blockIdx.x * THREADS + threadIdx.x);
  if (column >= columns) return;
  const int first = blockIdx.y * rows_a_slice, last = min(rows, first + rows_a_slice);
  float sums[VECTOR] = {};
#pragma unroll 4
  for (int row = first; row < last; ++row) {
    const u16* from = x + (long long)row * columns + column;
    if (VECTOR == 8) {
      const uint4 loaded = *(const uint4*)from;
      const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
      for (int j = 0; j < VECTOR; ++j) sums[j] += widen(words[j / 2] >> 16 * (j % 2));
    } else {
      sums[0] += widen(from[0]);
    }
  }
  for (int j = 0; j < VECTOR; ++j) partial[(long long)blockIdx.y * columns + column + j] = sums[j];
}

extern "C" __global__ void add_slices(const float* partial, float* y, int columns, int slices, float scale) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (int slice = 0; slice < slices; ++slice) sum += partial[(long long)slice * columns + column];
  y[column] = scale * sum;
}
