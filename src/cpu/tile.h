// Register tiles: the innermost kernels. Each accumulates one tile of C over a block of k in registers.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/config.h"
#include "cpu/simd.h"

namespace warpsmith::cpu {

struct TileArguments {
  const void* a = nullptr;  // packed floats, or 16-bit elements with `lda` between rows
  const void* b = nullptr;  // packed floats, or 16-bit elements with `ldb` between rows as stored
  std::int64_t lda = 0, ldb = 0;
  std::int64_t depth = 0;  // elements of k
  float* copy = nullptr;   // Source::fused: receives the widened B
  float* sums = nullptr;   // float accumulators between blocks of k
  std::int64_t ld_sums = 0;
  bool add_sums = false;       // there are sums of earlier blocks of k
  std::uint16_t* c = nullptr;  // null: not the last block of k, leave the result in sums
  std::int64_t ldc = 0;
  int last_count = 0;           // outer: valid lanes of the tile's last vector
  std::int64_t prefetch_a = 0;  // inner: elements from A's current position to the place to prefetch
  std::int64_t prefetch = 0;    // elements from B's current position to the place to prefetch
};

// Fetches the cache lines that a tile writes at its end, while it computes.
inline void prefetch_result(const TileArguments& t, int rows, int columns) {
  const char* first = t.c != nullptr ? reinterpret_cast<const char*>(t.c) : reinterpret_cast<const char*>(t.sums);
  const std::int64_t stride = t.c != nullptr ? 2 * t.ldc : 4 * t.ld_sums;
  const std::int64_t bytes = columns * (t.c != nullptr ? 2 : 4);
  for (int i = 0; i < rows; ++i) {
    for (std::int64_t byte = 0; byte < bytes; byte += 64) prefetch_l1(first + i * stride + byte);
    prefetch_l1(first + i * stride + bytes - 1);
  }
}

// Floats between consecutive k of packed A in the outer form when A is stored k x m.
template <CpuConfig kConfig>
constexpr int packed_a_width() {
  return (kConfig.rows + kConfig.lanes - 1) / kConfig.lanes * kConfig.lanes;
}

// C tile of kRows x (kColumns vectors): for each k one row of B against a broadcast element of A per row.
template <CpuConfig kConfig, int kRows, int kColumns, Source kB, bool kRagged>
struct OuterTile {
  using S = Simd<kConfig.lanes>;
  using Float = typename S::Float;
  static constexpr int kLanes = kConfig.lanes;
  static constexpr int kStrideRow = kConfig.a_k_major ? kConfig.a_stride : 1;
  static constexpr int kStrideK = kConfig.a_k_major ? 1 : packed_a_width<kConfig>();

  [[gnu::always_inline]] static Float load_b(const void* row, int vector, const TileArguments& t) {
    if constexpr (kB == Source::packed) {
      return S::load(static_cast<const float*>(row) + vector * kLanes);
    } else {
      const std::uint16_t* p = static_cast<const std::uint16_t*>(row) + vector * kLanes;
      if (kRagged && vector == kColumns - 1) return S::template widen<kConfig.element>(S::load_half(p, t.last_count));
      return S::template widen<kConfig.element>(S::load_half(p));
    }
  }

  [[gnu::always_inline]] static void rank_one_update(const float* a, const void* b_row, float* copy,
                                                     const TileArguments& t, Float (&sum)[kRows][kColumns]) {
    Float b[kColumns];
#pragma GCC unroll 32
    for (int j = 0; j < kColumns; ++j) {
      b[j] = load_b(b_row, j, t);
      if constexpr (kB == Source::fused) S::store(copy + j * kLanes, b[j]);
    }
    if constexpr (kConfig.prefetch && kB != Source::packed) {
      const auto* ahead = static_cast<const char*>(b_row) + 2 * t.prefetch;
#pragma GCC unroll 32
      for (int byte = 0; byte < kColumns * kLanes * 2; byte += 64) prefetch_l1(ahead + byte);
    }
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
      const Float a_element = S::broadcast(a + i * kStrideRow);
#pragma GCC unroll 32
      for (int j = 0; j < kColumns; ++j) sum[i][j] = S::fma(a_element, b[j], sum[i][j]);
    }
  }

  [[gnu::noinline]] static void run(const TileArguments& t) {
    prefetch_result(t, kRows, kColumns * kLanes);
    Float sum[kRows][kColumns];
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
      for (int j = 0; j < kColumns; ++j) sum[i][j] = S::zero();
    }

    constexpr int kElementBytes = kB == Source::packed ? 4 : 2;
    const std::int64_t row_bytes = kElementBytes * (kB == Source::packed ? kColumns * kLanes : t.ldb);
    const float* a = static_cast<const float*>(t.a);
    const char* b = static_cast<const char*>(t.b);
    float* copy = t.copy;
    std::int64_t k = t.depth;
    for (; k >= kConfig.unroll; k -= kConfig.unroll) {
#pragma GCC unroll 16
      for (int u = 0; u < kConfig.unroll; ++u) {
        rank_one_update(a + u * kStrideK, b, copy, t, sum);
        b += row_bytes;
        copy += kColumns * kLanes;
      }
      a += kConfig.unroll * kStrideK;
    }
    for (; k > 0; --k) {
      rank_one_update(a, b, copy, t, sum);
      a += kStrideK;
      b += row_bytes;
      copy += kColumns * kLanes;
    }
    store(t, sum);
  }

  [[gnu::always_inline]] static void store(const TileArguments& t, Float (&sum)[kRows][kColumns]) {
    if (t.add_sums) {
#pragma GCC unroll 32
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
        for (int j = 0; j < kColumns; ++j) {
          sum[i][j] = S::add(sum[i][j], S::load(t.sums + i * t.ld_sums + j * kLanes));
        }
      }
    }
    if (t.c == nullptr) {
#pragma GCC unroll 32
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
        for (int j = 0; j < kColumns; ++j) S::store(t.sums + i * t.ld_sums + j * kLanes, sum[i][j]);
      }
      return;
    }
    const bool partial = t.last_count < kLanes;
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
      for (int j = 0; j < kColumns; ++j) {
        std::uint16_t* c = t.c + i * t.ldc + j * kLanes;
        const auto half = S::template narrow<kConfig.element>(sum[i][j]);
        if (j == kColumns - 1 && partial)
          S::store_half(c, half, t.last_count);
        else
          S::store_half(c, half);
      }
    }
  }
};

// C tile of kRows x kColumns elements: dot products of rows of A with columns of B, both read along k.
template <CpuConfig kConfig, int kRows, int kColumns>
struct InnerTile {
  using S = Simd<kConfig.lanes>;
  using Float = typename S::Float;
  static constexpr int kLanes = kConfig.lanes;

  // Vector `index` of k of one row. `count` < kLanes at the end of a row that is read in place.
  template <Source kSource, int kCount>
  [[gnu::always_inline]] static Float load(const void* base, std::int64_t stride, int row, std::int64_t k, int count) {
    if constexpr (kSource == Source::packed) {
      return S::load(static_cast<const float*>(base) + k * kCount + row * kLanes);
    } else {
      const std::uint16_t* p = static_cast<const std::uint16_t*>(base) + row * stride + k;
      return S::template widen<kConfig.element>(count < kLanes ? S::load_half(p, count) : S::load_half(p));
    }
  }

  [[gnu::always_inline]] static void step(const TileArguments& t, std::int64_t k, int count,
                                          Float (&sum)[kRows][kColumns]) {
    Float b[kColumns];
#pragma GCC unroll 32
    for (int j = 0; j < kColumns; ++j) {
      b[j] = load<kConfig.b, kColumns>(t.b, t.ldb, j, k, count);
      if constexpr (kConfig.prefetch && kConfig.b == Source::direct) {
        prefetch_l1(static_cast<const char*>(t.b) + 2 * (j * t.ldb + k + t.prefetch));
      }
    }
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
      const Float a = load<kConfig.a, kRows>(t.a, t.lda, i, k, count);
      if constexpr (kConfig.prefetch_a && kConfig.a == Source::direct) {
        prefetch_l1(static_cast<const char*>(t.a) + 2 * (i * t.lda + k + t.prefetch_a));
      }
#pragma GCC unroll 32
      for (int j = 0; j < kColumns; ++j) sum[i][j] = S::fma(a, b[j], sum[i][j]);
    }
  }

  [[gnu::noinline]] static void run(const TileArguments& t) {
    Float sum[kRows][kColumns];
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
      for (int j = 0; j < kColumns; ++j) sum[i][j] = S::zero();
    }
    std::int64_t k = 0;
    for (; k + kLanes <= t.depth; k += kLanes) step(t, k, kLanes, sum);
    if (k < t.depth) step(t, k, static_cast<int>(t.depth - k), sum);

    constexpr int kPadded = (kColumns + 7) / 8 * 8;
    alignas(64) float result[kRows][kPadded];
    reduce(sum, result);
    store(t, result);
  }

  template <int kPadded>
  [[gnu::always_inline]] static void reduce(Float (&sum)[kRows][kColumns], float (&result)[kRows][kPadded]) {
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kPadded; j += 4) {
        const auto lane = [&](int column) {
          return column < kColumns ? fold(sum[i][column < kColumns ? column : 0]) : _mm256_setzero_ps();
        };
        _mm_store_ps(&result[i][j], sum_lanes(lane(j), lane(j + 1), lane(j + 2), lane(j + 3)));
      }
    }
  }

  template <int kPadded>
  [[gnu::always_inline]] static void store(const TileArguments& t, const float (&result)[kRows][kPadded]) {
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; j += 8) {
        const int count = kColumns - j < 8 ? kColumns - j : 8;
        float* sums = t.sums + i * t.ld_sums + j;
        __m256 row = _mm256_load_ps(&result[i][j]);
        if (t.add_sums) row = _mm256_add_ps(row, _mm256_loadu_ps(sums));  // lanes past `count` are not kept
        if (t.c == nullptr) {
          alignas(32) float lanes[8];
          _mm256_store_ps(lanes, row);
          std::memcpy(sums, lanes, static_cast<std::size_t>(count) * sizeof(float));
        } else {
          const auto half = Simd<8>::narrow<kConfig.element>(row);
          std::uint16_t* c = t.c + i * t.ldc + j;
          if (count == 8)
            Simd<8>::store_half(c, half);
          else
            Simd<8>::store_half(c, half, count);
        }
      }
    }
  }
};

}  // namespace warpsmith::cpu
