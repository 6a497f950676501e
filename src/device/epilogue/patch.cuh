// Results that every lane holds as a small rectangle of C, its patch: sums over the warps of a block through shared
// memory, sums over the blocks of a cluster through distributed shared memory, and the stores. Sums are taken in a
// fixed order, so results repeat bit for bit.
#pragma once

#include "device/ptx/barrier.cuh"
#include "device/ptx/convert.cuh"
#include "device/ptx/load_global.cuh"
#include "device/ptx/vector.cuh"

namespace warpsmith::device {

// Partial sums in shared memory, in units of kUnit floats: unit u of all 32 lanes lies together, so that neither
// writing nor reading collides.
template <int kUnit>
struct UnitBuffer {
  static constexpr int kVector = min(kUnit, 4);
  static constexpr int kUnitBytes = 32 * 4 * kUnit;

  static __device__ __forceinline__ u32 address(u32 base, int unit, int lane) {
    return base + unit * kUnitBytes + lane * (4 * kVector);
  }
  static __device__ __forceinline__ void put(u32 address, const float (&v)[kUnit]) {
#pragma unroll
    for (int i = 0; i < kUnit; i += kVector) store_shared_floats<kVector>(address + 128 * i, v + i);
  }
  // Adds kCount units that lie `stride` bytes apart.
  template <int kCount>
  static __device__ __forceinline__ void sum(u32 address, int stride, float (&total)[kUnit]) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      float v[kUnit];
#pragma unroll
      for (int i = 0; i < kUnit; i += kVector) load_shared_floats<kVector>(address + j * stride + 128 * i, v + i);
#pragma unroll
      for (int i = 0; i < kUnit; ++i) total[i] = j == 0 ? v[i] : total[i] + v[i];
    }
  }
};

// The sums of a cluster's blocks: block r owns the results of lanes r kShare .. (r + 1) kShare - 1 of every unit, and
// the others put their sums for these into r's shared memory.
template <int kUnit, int kSplit>
struct UnitExchange {
  static constexpr int kShare = 32 / kSplit;  // lanes
  static constexpr int kVector = min(kUnit, 4);
  static constexpr int kSlotBytes = 4 * kUnit;

  // units: of all the block's tiles together; source: rank of the block that the sum comes from.
  static __device__ __forceinline__ u32 address(u32 base, int units, int source, int unit, int share_lane) {
    return base + ((source * units + unit) * kShare + share_lane) * kSlotBytes;
  }
  static __device__ __forceinline__ void send(u32 base, int units, int source, int unit, int lane,
                                              const float (&v)[kUnit]) {
    const u32 target = map_to_rank(address(base, units, source, unit, lane % kShare), lane / kShare);
#pragma unroll
    for (int i = 0; i < kUnit; i += kVector) store_cluster_floats<kVector>(target + 4 * i, v + i);
  }
  static __device__ __forceinline__ void sum(u32 base, int units, int unit, int share_lane, float (&total)[kUnit]) {
#pragma unroll
    for (int source = 0; source < kSplit; ++source) {
      float v[kUnit];
#pragma unroll
      for (int i = 0; i < kUnit; i += kVector) {
        load_shared_floats<kVector>(address(base, units, source, unit, share_lane) + 4 * i, v + i);
      }
#pragma unroll
      for (int i = 0; i < kUnit; ++i) total[i] = source == 0 ? v[i] : total[i] + v[i];
    }
  }
};

// Scales a unit of a row of C, as far as it lies inside. kGranule: bytes that C's rows are aligned to and whole
// multiples of.
template <Element kElement, int kGranule, bool kWholeM, bool kWholeN, int kUnit>
__device__ __forceinline__ void scale_unit(const u16* c, int ld, float alpha, float beta, int row, int column, int m,
                                           int n, float (&v)[kUnit]) {
  constexpr int kBytes = min(kGranule, 2 * kUnit), kElements = kBytes / 2;
#pragma unroll
  for (int i = 0; i < kUnit; ++i) v[i] *= alpha;
  if (beta == 0) return;
  const u16* source = c + static_cast<long long>(row) * ld + column;
  const auto load = [&](int e, u32* words) {
    const bool inside = (kWholeM || row < m) && (kWholeN || column + e < n);
    load_global<kBytes, LoadHint::keep, 0>(source + e, inside, 0, words);
  };
#pragma unroll
  for (int e = 0; e < kUnit; e += max(kElements, 2)) {
    u32 words[max(kElements / 2, 1)];
    load(e, words);
    if constexpr (kElements == 1) {
      u32 high;
      load(e + 1, &high);
      words[0] |= high << 16;
    }
#pragma unroll
    for (int i = 0; i < max(kElements / 2, 1); ++i) {
      const FloatPair pair = unpack<kElement>(words[i]);
      v[e + 2 * i] = beta * pair.x + v[e + 2 * i];
      v[e + 2 * i + 1] = beta * pair.y + v[e + 2 * i + 1];
    }
  }
}

// Rounds a unit and writes what lies inside C. kGranule: bytes that C's rows are aligned to and whole multiples of.
template <Element kElement, int kGranule, bool kWholeM, bool kWholeN, int kUnit>
__device__ __forceinline__ void store_unit(u16* c, int ld, int row, int column, int m, int n, const float (&v)[kUnit]) {
  constexpr int kBytes = min(kGranule, 2 * kUnit), kElements = kBytes / 2;
  if (!kWholeM && row >= m) return;
  u16* target = c + static_cast<long long>(row) * ld + column;
  u32 words[kUnit / 2];
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) words[i] = pack<kElement>(v[2 * i], v[2 * i + 1]);
#pragma unroll
  for (int e = 0; e < kUnit; e += kElements) {
    if (!kWholeN && column + e >= n) break;
    if (kElements == 1 && e % 2 == 1) {
      const u32 high = words[e / 2] >> 16;
      store_global<kBytes>(target + e, &high);
    } else {
      store_global<kBytes>(target + e, words + e / 2);
    }
  }
}

}  // namespace warpsmith::device
