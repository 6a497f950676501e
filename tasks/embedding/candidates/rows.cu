// A block copies TOKENS rows, sixteen bytes a thread and step where rows are whole vectors.
typedef unsigned short u16;

extern "C" __global__ void __launch_bounds__(THREADS)
    rows(const u16* table, const int* tokens, u16* y, int count, int columns) {
  for (int i = blockIdx.x * TOKENS; i < min(count, (int)(blockIdx.x + 1) * TOKENS); ++i) {
    const u16* from = table + (long long)tokens[i] * columns;
    u16* to = y + (long long)i * columns;
    if (WHOLE_VECTORS) {
#pragma unroll 4
      for (int at = 8 * threadIdx.x; at < columns; at += 8 * THREADS) *(uint4*)(to + at) = *(const uint4*)(from + at);
    } else {
      for (int at = threadIdx.x; at < columns; at += THREADS) to[at] = from[at];
    }
  }
}
