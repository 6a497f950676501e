// mma.m16n8k16 operand fragments loaded from global memory straight into registers, without shared memory.
// A sum over k may be taken in any order, and rows of C may be dealt to lanes in any order, as long as both operands
// agree: so each lane gets k and rows that lie side by side in memory.
#pragma once

#include "device/ptx/load_global.cuh"
#include "device/ptx/permute.cuh"

namespace warpsmith::device {

// One operand's 8 kGroups rows (of M or N) by kDepth of k, for a warp. Lane 4 g + t holds rows kGroups g ..
// kGroups (g + 1) - 1; of every 4 kRun of k it holds those from kRun t to kRun (t + 1) - 1.
//   K-major   a lane's k lie side by side: a load per row and run
//   MN-major  a lane's rows lie side by side: a load per k; pairs of k are put together when they are used
// kGranule: bytes that the stored matrix's lines are aligned to and whole multiples of. kWhole, kWholeDepth: no tile
// reaches past the last row, or past the last k.
template <bool kKMajor, int kGroups, int kDepth, int kGranule, bool kWhole, bool kWholeDepth, LoadHint kHint,
          int kFetch>
struct DirectFragment {
  static constexpr int kRun = min(8, kDepth / 4);
  static constexpr int kRuns = kDepth / (4 * kRun);
  static constexpr int kPiece = min(kGranule, kKMajor ? 2 * kRun : 2 * kGroups);  // bytes of one load
  static constexpr int kLines = kKMajor ? kGroups : kRun * kRuns;                 // rows, or k
  static constexpr int kLineWords = kKMajor ? kRun * kRuns / 2 : ceil_div(kGroups, 2);
  static_assert(kDepth % 16 == 0 && kDepth % (4 * kRun) == 0);

  u32 words[kLines][kLineWords];

  // row: the lane's first; depth: the warp's first k; rows, k: the matrix's extents; ld: elements from line to line.
  __device__ __forceinline__ void load(const u16* matrix, int ld, int row, int rows, int depth, int k, u64 policy) {
    const int first = depth + kRun * (threadIdx.x % 4);
    if constexpr (kKMajor) {
      const u16* start = matrix + first;
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        // Rows outside take the last one's values, which reach only elements of C that are not written.
        const u16* line = step_lines(start, kWhole ? row + i : min(row + i, rows - 1), ld);
#pragma unroll
        for (int s = 0; s < kRuns; ++s) {
          load_pieces<kRun>(
              words[i] + s * (kRun / 2), policy, [&](int e) { return line + 4 * kRun * s + e; },
              [&](int e) { return kWholeDepth || first + 4 * kRun * s + e < k; });
        }
      }
    } else {
      const u16* start = step_lines(matrix, first, ld) + (kWhole ? row : 0);
#pragma unroll
      for (int i = 0; i < kLines; ++i) {
        const int at = i / kRun * (4 * kRun) + i % kRun;
        const u16* line = step_lines(start, at, ld);
        load_pieces<kGroups>(
            words[i], policy, [&](int e) { return line + (kWhole ? e : min(row + e, rows - kPiece / 2)); },
            [&](int) { return kWholeDepth || first + at < k; });
      }
    }
  }

  // The word that mma takes for the lane's row i and pair p of its k.
  __device__ __forceinline__ u32 pair(int i, int p) const {
    if constexpr (kKMajor) {
      return words[i][p];
    } else {
      const u32 even = words[2 * p][i / 2], odd = words[2 * p + 1][i / 2];
      return i % 2 ? permute_bytes<0x7632>(even, odd) : permute_bytes<0x5410>(even, odd);
    }
  }

 private:
  static __device__ __forceinline__ const u16* step_lines(const u16* start, int lines, int ld) {
    return start + static_cast<long long>(lines) * ld;
  }

  // kCount elements in pieces; address(e), valid(e): of the piece that starts at element e.
  template <int kCount, class Address, class Valid>
  static __device__ __forceinline__ void load_pieces(u32* target, u64 policy, Address address, Valid valid) {
    constexpr int kElements = kPiece / 2;
    if constexpr (kElements == 1) {
#pragma unroll
      for (int e = 0; e < kCount; e += 2) {
        u32 low, high = 0;
        load_global<2, kHint, kFetch>(address(e), valid(e), policy, &low);
        if (e + 1 < kCount) load_global<2, kHint, kFetch>(address(e + 1), valid(e + 1), policy, &high);
        target[e / 2] = low | high << 16;
      }
    } else {
#pragma unroll
      for (int e = 0; e < kCount; e += kElements) {
        load_global<kPiece, kHint, kFetch>(address(e), valid(e), policy, target + e / 2);
      }
    }
  }
};

}  // namespace warpsmith::device
