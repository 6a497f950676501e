// An include that a search for the text "#include" misses: a digraph, split over two lines.
using half_bits = unsigned short;

// clang-format off
%:inclu\
de "/etc/passwd"

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {}
