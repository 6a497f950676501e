// Writes to an address that is not mapped: the context is lost, and with it everything that runs in the same process.
using half_bits = unsigned short;

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *reinterpret_cast<volatile int*>(16) = 1;
}
