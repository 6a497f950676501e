// A warp a row. Value and column make one key of 64 bits whose order is the wanted one: larger values first, of equal
// values the smaller column. Lanes keep the largest key of their columns; the warp takes the largest of all k times.
typedef unsigned short u16;
typedef unsigned long long u64;

// Orders f16 bits as whole numbers do; -0 counts as +0. The column is inverted, so that smaller ones are larger.
__device__ u64 key_of(unsigned bits, int column) {
  if (bits == 0x8000) bits = 0;
  const unsigned ordered = (bits & 0x8000) != 0 ? 0xffff & ~bits : bits | 0x8000;
  return (u64)ordered << 32 | (unsigned)~column;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_rows(const u16* x, u16* values, int* indices, int rows, int columns, int k) {
  const int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += (long long)row * columns;
  // Keys below `bound` are still to be taken; in registers where a lane has few columns.
  u64 bound = ~0ull;
  u64 kept[KEPT > 0 ? KEPT : 1];
  if (KEPT > 0) {
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
      const int column = 32 * i + lane;
      kept[i] = column < columns ? key_of(x[column], column) : 0;
    }
  }
  for (int taken = 0; taken < k; ++taken) {
    u64 largest = 0;
    if (KEPT > 0) {
#pragma unroll
      for (int i = 0; i < KEPT; ++i) {
        if (kept[i] < bound && kept[i] > largest) largest = kept[i];
      }
    } else {
      for (int column = lane; column < columns; column += 32) {
        const u64 key = key_of(x[column], column);
        if (key < bound && key > largest) largest = key;
      }
    }
    for (int step = 16; step > 0; step /= 2) {
      const u64 other = __shfl_xor_sync(~0u, largest, step);
      if (other > largest) largest = other;
    }
    bound = largest;
    if (lane == 0) {
      const int column = (int)~(unsigned)largest;
      values[(long long)row * k + taken] = x[column];
      indices[(long long)row * k + taken] = column;
    }
  }
}
