// C[m,n] = A[m,k] * B[k,n] in two kernels: blocks of a third grid dimension sum a slice of k each into an FP32
// workspace of slices x m x n, then the slices are added in order, so that the bits do not vary. FP16 elements, any m,
// n, k. A is stored m x k; B is stored k x n (NN) or n x k (TN), as WARPSMITH_B_K_MAJOR says.

typedef unsigned short u16;  // the bits of an element
typedef unsigned int u32;

constexpr int kTile = 32;    // rows and columns of C of a block: four warps, each of 16 x 16
constexpr int kDepth = 16;   // of k at a time, one mma
constexpr int kStride = 18;  // elements from row to row in shared memory: even, and rows start in different banks

// A 32 x 16 tile with k as the column, whatever the operand's order: (row, k) comes from `at(row, k)`.
template <class At>
__device__ void load(u16 (&tile)[kTile * kStride], At at) {
  for (int i = threadIdx.x; i < kTile * kDepth; i += blockDim.x)
    tile[i / kDepth * kStride + i % kDepth] = at(i / kDepth, i % kDepth);
}

__device__ u32 two_elements(const u16 (&tile)[kTile * kStride], int row, int column) {
  return *reinterpret_cast<const u32*>(&tile[row * kStride + column]);
}

extern "C" __global__ void __launch_bounds__(128)
    partial_sums(const u16* a, const u16* b, float* partials, int m, int n, int k, int slice) {
  __shared__ alignas(4) u16 tile_a[kTile * kStride], tile_b[kTile * kStride];
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  const int begin = min(static_cast<int>(blockIdx.z) * slice, k), end = min(begin + slice, k);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp / 2 * 16, warp_column = warp % 2 * 16;
  float sums[2][4] = {};

  for (int at = begin; at < end; at += kDepth) {
    load(tile_a, [&](int r, int x) -> u16 {
      return row + r < m && at + x < end ? a[static_cast<long long>(row + r) * k + at + x] : 0;
    });
    load(tile_b, [&](int r, int x) -> u16 {
      if (column + r >= n || at + x >= end) return 0;
#if WARPSMITH_B_K_MAJOR
      return b[static_cast<long long>(column + r) * k + at + x];
#else
      return b[static_cast<long long>(at + x) * n + column + r];
#endif
    });
    __syncthreads();
    const int r = warp_row + lane / 4, x = lane % 4 * 2;
    const u32 a0 = two_elements(tile_a, r, x), a1 = two_elements(tile_a, r + 8, x);
    const u32 a2 = two_elements(tile_a, r, x + 8), a3 = two_elements(tile_a, r + 8, x + 8);
    for (int j = 0; j < 2; ++j) {
      const int s = warp_column + j * 8 + lane / 4;
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(two_elements(tile_b, s, x)), "r"(two_elements(tile_b, s, x + 8)));
    }
    __syncthreads();
  }

  float* mine = partials + static_cast<long long>(blockIdx.z) * m * n;
  for (int j = 0; j < 2; ++j) {
    for (int e = 0; e < 4; ++e) {
      const int y = row + warp_row + lane / 4 + e / 2 * 8, x = column + warp_column + j * 8 + lane % 4 * 2 + e % 2;
      if (y < m && x < n) mine[static_cast<long long>(y) * n + x] = sums[j][e];
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) add_up(const float* partials, u16* c, int m, int n, int slices) {
  const long long count = static_cast<long long>(m) * n, step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    float sum = 0;
    for (int slice = 0; slice < slices; ++slice) sum += partials[slice * count + i];
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(sum));
    c[i] = bits;
  }
}
