// A tile of 64 x 64 a block by way of shared memory; words of two columns are read and words of two rows written where
// both sizes are even.
typedef unsigned short u16;

extern "C" __global__ void __launch_bounds__(THREADS) tiles(const u16* x, u16* y, int rows, int columns) {
  __shared__ __align__(16) u16 tile[64][66];  // [row][column]; 33 words a row: columns fall into banks of their own
  const int row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  constexpr int kStep = THREADS / 32;
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32;
  for (int i = first; i < 64; i += kStep) {
    const int row = row0 + i, column = column0 + 2 * lane;
    if (row >= rows) break;
    const u16* from = x + (long long)row * columns + column;
    if (EVEN && column < columns) {
      *(unsigned*)&tile[i][2 * lane] = *(const unsigned*)from;
    } else {
      if (column < columns) tile[i][2 * lane] = from[0];
      if (column + 1 < columns) tile[i][2 * lane + 1] = from[1];
    }
  }
  __syncthreads();
  for (int j = first; j < 64; j += kStep) {
    const int column = column0 + j, row = row0 + 2 * lane;
    if (column >= columns) break;
    u16* to = y + (long long)column * rows + row;
    if (EVEN && row < rows) {
      *(unsigned*)to = tile[2 * lane][j] | (unsigned)tile[2 * lane + 1][j] << 16;
    } else {
      if (row < rows) to[0] = tile[2 * lane][j];
      if (row + 1 < rows) to[1] = tile[2 * lane + 1][j];
    }
  }
}
