// Most warps leave; the two that stay wait at two barriers in opposite orders, for each other and for ever.
using half_bits = unsigned short;

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  if (threadIdx.y > 1) return;
  if (threadIdx.y == 0) {
    asm volatile("barrier.sync 1, 64; barrier.sync 2, 64;" ::: "memory");
  } else {
    asm volatile("barrier.sync 2, 64; barrier.sync 1, 64;" ::: "memory");
  }
}
