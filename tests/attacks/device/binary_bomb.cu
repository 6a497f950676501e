// A short source of half a gigabyte of initialised data: it fills the compiler's memory, and then the cache.
using half_bits = unsigned short;

__device__ int table[1 << 27] = {1};

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  c[0] = static_cast<half_bits>(table[m]);
}
