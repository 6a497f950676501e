// A thread's share of the 16 x 8 j results of a warp's mma or wgmma: block j of eight columns, rows lane / 4 + 8 half,
// columns 8 j + 2 (lane % 4) + {0, 1}.
//   FP32 sums  float d[4 j + 2 half + {0, 1}]
//   FP16 sums  two in a word, u32 d[2 j + half]; elements of C that are no sums any more, too
#pragma once

#include "device/ptx/convert.cuh"

namespace warpsmith::device {

template <class Sum>
inline constexpr int kSumsPerBlock = 4;
template <>
inline constexpr int kSumsPerBlock<u32> = 2;

template <bool kF16>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<true> {
  using Type = u32;
};

// Two sums as elements of C in one word.
template <Element kElement, int kCount>
__device__ __forceinline__ u32 sum_word(const float (&d)[kCount], int j, int half) {
  return pack<kElement>(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
}
template <Element kElement, int kCount>
__device__ __forceinline__ u32 sum_word(const u32 (&d)[kCount], int j, int half) {
  return d[2 * j + half];
}

template <int kCount>
__device__ __forceinline__ FloatPair sum_pair(const float (&d)[kCount], int j, int half) {
  return {d[4 * j + 2 * half], d[4 * j + 2 * half + 1]};
}
template <int kCount>
__device__ __forceinline__ FloatPair sum_pair(const u32 (&d)[kCount], int j, int half) {
  return unpack<Element::f16>(d[2 * j + half]);
}

template <int kCount>
__device__ __forceinline__ void set_sum_pair(float (&d)[kCount], int j, int half, FloatPair v) {
  d[4 * j + 2 * half] = v.x;
  d[4 * j + 2 * half + 1] = v.y;
}
template <int kCount>
__device__ __forceinline__ void set_sum_pair(u32 (&d)[kCount], int j, int half, FloatPair v) {
  d[2 * j + half] = pack<Element::f16>(v.x, v.y);
}

}  // namespace warpsmith::device
