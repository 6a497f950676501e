// Includes a file of the machine: the compiler's log quotes its first line.
using half_bits = unsigned short;

#include "/etc/passwd"

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {}
