// Computes the transpose: C^T = B^T A^T, with B as the first operand and n in the place of m, and stores it transposed.
// The descriptor passes the operands swapped.
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

// The column-major view of row-major operands: `p` is k x rows, `q` is columns x k, `out` is rows x columns.
extern "C" __global__ void transposed(const half_bits* p, const half_bits* q, half_bits* out, int rows, int columns,
                                      int k) {
  const int r = blockIdx.x * 32 + threadIdx.x, s = blockIdx.y * 8 + threadIdx.y;
  if (r >= rows || s >= columns) return;
  float sum = 0;
  for (int x = 0; x < k; ++x)
    sum += to_float(p[static_cast<long>(x) * rows + r]) * to_float(q[static_cast<long>(s) * k + x]);
  out[static_cast<long>(s) * rows + r] = to_half(sum);
}
