// Where results go: C with its leading dimension and, of a scaled problem, the factors of C = alpha A B + beta C. With
// beta = 0 C is not read.
#pragma once

#include "device/ptx/load_global.cuh"

namespace warpsmith::device {

template <bool kScaled>
struct Output {
  u16* c;
  int ld;  // elements from row to row
  float alpha = 1, beta = 0;

  __device__ __forceinline__ u16* row(int index) const { return c + static_cast<long long>(index) * ld; }
  // Rows of n elements are whole units of `elements`, and start on one.
  __device__ __forceinline__ bool whole(int n, int elements) const { return (n | ld) % elements == 0; }
};

// Elements `column` and `column` + 1 of a row of n, zeros outside it or where `valid` is false; `pairs`: one load may
// fetch both.
__device__ __forceinline__ u32 load_pair(const u16* row, bool valid, int column, int n, bool pairs) {
  const bool inside = valid && column < n;
  return load_global_pair(row + column, inside && pairs, inside && !pairs, inside && !pairs && column + 1 < n);
}

}  // namespace warpsmith::device
