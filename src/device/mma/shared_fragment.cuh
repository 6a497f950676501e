// mma.m16n8k16 fragments of an operand whose rows run along N, by way of shared memory: whole rows come in 16-byte
// pieces (cp.async) and leave transposed (ldmatrix), a third of the instructions that loading a lane's own elements
// takes. The sum over k is taken in the order of DirectFragment, so that the other operand may be one of those.
#pragma once

#include "device/ptx/cp_async.cuh"
#include "device/ptx/ldmatrix.cuh"

namespace warpsmith::device {

// ldmatrix reads rows that are eight apart: a gap of so many bytes after every eight spreads them over the banks.
__host__ __device__ constexpr int shared_fragment_gap(int groups) { return groups == 1 ? 32 : 16; }
__host__ __device__ constexpr int shared_fragment_bytes(int groups, int depth) {
  return depth * 16 * groups + depth / 8 * shared_fragment_gap(groups);
}

// 8 kGroups columns by kDepth of k, for a warp. Rows are whole 16-byte units. Unlike there, column 8 j + i of the tile
// is number i of mma's block j: a lane's results lie in pairs. kWhole, kWholeDepth: no tile reaches past the last
// column, or past the last k.
template <int kGroups, int kDepth, bool kWhole, bool kWholeDepth, int kFetch>
struct SharedFragment {
  static_assert(kDepth % 32 == 0 && (kGroups == 1 || kGroups % 2 == 0) && 32 % kGroups == 0);
  static constexpr int kRowBytes = 16 * kGroups;
  static constexpr int kGap = shared_fragment_gap(kGroups);

  u32 memory;  // of the warp

  static __device__ __forceinline__ int offset(int k) { return k * kRowBytes + k / 8 * kGap; }

  // column: the tile's first; depth: the warp's first k; columns, k: the matrix's extents; ld: elements from row to
  // row.
  __device__ __forceinline__ void load(const u16* matrix, int ld, int column, int columns, int depth, int k) const {
    constexpr int kRows = 32 / kGroups;  // that a warp copies at once
    const int lane = threadIdx.x % 32, row = lane / kGroups, piece = lane % kGroups;
    const bool inside = kWhole || column + 8 * piece < columns;
    const u16* source = matrix + static_cast<long long>(depth + row) * ld + column + 8 * piece;
    const u32 target = memory + offset(row) + 16 * piece;
#pragma unroll
    for (int first = 0; first < kDepth; first += kRows) {
      const bool valid = inside && (kWholeDepth || depth + row + first < k);
      const u16* line = source + static_cast<long long>(first) * ld;
      cp_async<16, kFetch>(target + offset(first), valid ? line : matrix, valid ? 16 : 0, true);
    }
    cp_async_commit();
  }

  // What mma takes for k-step `step`, of every block of eight columns.
  __device__ __forceinline__ void step_fragments(int step, u32 (&b)[kGroups][2]) const {
    // Matrix number lane / 8: block (lane / 16), half of the step (lane / 8 % 2). Its rows are the k of lanes 0 to 3.
    const int lane = threadIdx.x % 32, row = lane % 8;
    const int k = 8 * (row / 2) + row % 2 + 2 * (lane / 8 % 2);  // four further on is before the next gap
    const u32 address = memory + offset(k) + offset(32 * (step / 2)) + step % 2 * (4 * kRowBytes);
    if constexpr (kGroups == 1) {
      load_matrix_x2<true>(address, b[0][0], b[0][1]);
    } else {
#pragma unroll
      for (int j = 0; j < kGroups; j += 2) {
        u32 r[4];
        load_matrix_x4<true>(address + 16 * (j + lane / 16), r);
        b[j][0] = r[0], b[j][1] = r[1], b[j + 1][0] = r[2], b[j + 1][1] = r[3];
      }
    }
  }
};

}  // namespace warpsmith::device
