// C[m,n] = A[m,k] * B[k,n] with mma.sync, one 64 x 64 tile of C per block, FP32 sums. Any m, n, k.
// A is stored m x k; B is stored k x n (NN) or n x k (TN), as WARPSMITH_B_K_MAJOR says.

typedef unsigned short u16;  // the bits of an element
typedef unsigned int u32;

constexpr int kTileM = 64, kTileN = 64, kTileK = 32;
constexpr int kThreads = 128;  // four warps, two by two, each of 32 x 32 of C
constexpr int kPad = 8;        // elements behind each row of shared memory: rows start in different banks

// A tile of an operand in shared memory, as the operand is stored.
template <int rows, int columns>
struct Tile {
  static constexpr int kStride = columns + kPad;
  u16 elements[rows * kStride];

  // Copies rows [row, row + rows) x [column, column + columns) of a matrix with zeros beyond its ends. Chunks of eight
  // elements travel at once where rows are multiples of 16 bytes.
  __device__ void load(const u16* matrix, int matrix_rows, int matrix_columns, int row, int column) {
    constexpr int kChunks = columns / 8;
    for (int chunk = threadIdx.x; chunk < rows * kChunks; chunk += kThreads) {
      const int r = chunk / kChunks, c = chunk % kChunks * 8;
      const u16* from = matrix + static_cast<long long>(row + r) * matrix_columns + column + c;
      u16* to = &elements[r * kStride + c];
      const bool inside = row + r < matrix_rows;
      if (inside && matrix_columns % 8 == 0 && column + c + 8 <= matrix_columns) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
      } else {
        for (int i = 0; i < 8; ++i) to[i] = inside && column + c + i < matrix_columns ? from[i] : 0;
      }
    }
  }

  __device__ u32 address(int row, int column) const {
    return static_cast<u32>(__cvta_generic_to_shared(&elements[row * kStride + column]));
  }
};

#if WARPSMITH_B_K_MAJOR
using TileB = Tile<kTileN, kTileK>;
#else
using TileB = Tile<kTileK, kTileN>;
#endif

__device__ void load_matrices(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// Two 16 x 8 fragments of B, at (k, column) and (k, column + 8): registers 0 and 1, 2 and 3.
__device__ void load_b(u32 (&r)[4], const TileB& tile, int k, int column) {
  const int lane = threadIdx.x % 32;
#if WARPSMITH_B_K_MAJOR
  load_matrices(r, tile.address(column + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(tile.address(k + lane % 16, column + lane / 16 * 8)));
#endif
}

__device__ void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if WARPSMITH_BF16
#define ELEMENT "bf16"
#else
#define ELEMENT "f16"
#endif
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ u16 to_element(float value) {
  u16 bits;
  asm("cvt.rn." ELEMENT ".f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    mma_64x64(const u16* a, const u16* b, u16* c, int m, int n, int k) {
  __shared__ alignas(16) Tile<kTileM, kTileK> tile_a;
  __shared__ alignas(16) TileB tile_b;
  const int row = blockIdx.y * kTileM, column = blockIdx.x * kTileN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  float sums[2][4][4] = {};  // 16 x 8 tiles of C

  for (int at = 0; at < k; at += kTileK) {
    tile_a.load(a, m, k, row, at);
#if WARPSMITH_B_K_MAJOR
    tile_b.load(b, n, k, column, at);
#else
    tile_b.load(b, k, n, at, column);
#endif
    __syncthreads();
    for (int step = 0; step < kTileK; step += 16) {
      u32 fragment_a[2][4], fragment_b[2][4];
      for (int i = 0; i < 2; ++i) {
        load_matrices(fragment_a[i], tile_a.address(warp_row + i * 16 + lane % 16, step + lane / 16 * 8));
        load_b(fragment_b[i], tile_b, step, warp_column + i * 16);
      }
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
          multiply_add(sums[i][j], fragment_a[i], fragment_b[j / 2][j % 2 * 2], fragment_b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int e = 0; e < 4; ++e) {
        const int y = row + warp_row + i * 16 + lane / 4 + e / 2 * 8;
        const int x = column + warp_column + j * 8 + lane % 4 * 2 + e % 2;
        if (y < m && x < n) c[static_cast<long long>(y) * n + x] = to_element(sums[i][j][e]);
      }
    }
  }
}
