// Packing: copies of operand blocks, widened to float and laid out in the order in which the register tiles read them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/config.h"
#include "cpu/partition.h"
#include "cpu/simd.h"
#include "cpu/transpose.h"

namespace warpsmith::cpu {

// `count` contiguous elements; the destination has room for a multiple of kLanes, the excess becomes zero.
template <Element kElement, int kLanes>
inline void widen_run(const std::uint16_t* source, std::int64_t count, float* destination) {
  using S = Simd<kLanes>;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const auto first = S::template widen<kElement>(S::load_half(source + i));
    const auto second = S::template widen<kElement>(S::load_half(source + i + kLanes));
    S::store(destination + i, first);
    S::store(destination + i + kLanes, second);
  }
  for (; i + kLanes <= count; i += kLanes) {
    S::store(destination + i, S::template widen<kElement>(S::load_half(source + i)));
  }
  if (i < count) {
    S::store(destination + i, S::template widen<kElement>(S::load_half(source + i, static_cast<int>(count - i))));
  }
}

// `rows` runs of `count` elements, `stride` apart, to rows of `width` floats: a block that is read as it is stored.
// With `ahead` > 0 the elements that far on are fetched on the way: those of the next block.
template <Element kElement, int kLanes>
inline void pack_rows(const std::uint16_t* source, std::int64_t stride, std::int64_t rows, std::int64_t count,
                      float* destination, std::int64_t width, std::int64_t ahead = 0) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (ahead > 0) {
      for (std::int64_t i = 0; i < count; i += 32) prefetch_l2(source + r * stride + ahead + i);
    }
    widen_run<kElement, kLanes>(source + r * stride, count, destination + r * width);
  }
}

// A block of `rows` by `count`, transposed: element (r, i) goes to destination[i * width + r]. `width` is a multiple of
// 8 and at least `rows`; lanes up to it become zero.
template <Element kElement>
inline void pack_transposed(const std::uint16_t* source, std::int64_t stride, std::int64_t rows, std::int64_t count,
                            float* destination, std::int64_t width) {
  for (std::int64_t r = 0; r < width; r += 16) {
    const int height = static_cast<int>(std::clamp<std::int64_t>(rows - r, 0, 16));
    const bool wide = width - r >= 16;
    for (std::int64_t i = 0; i < count; i += 8) {
      const int depth = static_cast<int>(std::min<std::int64_t>(8, count - i));
      __m256i column[8];
      transpose_16x8(source + r * stride + i, stride, height, depth, column);
      for (int j = 0; j < depth; ++j) {
        float* to = destination + (i + j) * width + r;
        Simd<8>::store(to, Simd<8>::widen<kElement>(_mm256_castsi256_si128(column[j])));
        if (wide) Simd<8>::store(to + 8, Simd<8>::widen<kElement>(_mm256_extracti128_si256(column[j], 1)));
      }
    }
  }
}

// Rows of `count` elements dealt into vectors: vector v of row r goes to destination[(v * rows + r) * kLanes].
template <Element kElement, int kLanes>
inline void interleave_rows(const std::uint16_t* source, std::int64_t stride, std::int64_t rows, std::int64_t count,
                            float* destination) {
  using S = Simd<kLanes>;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint16_t* from = source + r * stride;
    float* to = destination + r * kLanes;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes, to += rows * kLanes) {
      S::store(to, S::template widen<kElement>(S::load_half(from + i)));
    }
    if (i < count) S::store(to, S::template widen<kElement>(S::load_half(from + i, static_cast<int>(count - i))));
  }
}

// The same layout from a block stored the other way: element (r, i) at source[i * stride + r].
template <Element kElement, int kLanes>
inline void interleave_columns(const std::uint16_t* source, std::int64_t stride, std::int64_t rows, std::int64_t count,
                               float* destination) {
  const std::int64_t vectors = ceil_div(count, kLanes);
  for (std::int64_t i = 0; i < count; i += 16) {
    const int height = static_cast<int>(std::min<std::int64_t>(16, count - i));
    for (std::int64_t r = 0; r < rows; r += 8) {
      const int width = static_cast<int>(std::min<std::int64_t>(8, rows - r));
      __m256i column[8];
      transpose_16x8(source + i * stride + r, stride, height, width, column);
      for (int j = 0; j < width; ++j) {
        const __m256 low = Simd<8>::widen<kElement>(_mm256_castsi256_si128(column[j]));
        const __m256 high = Simd<8>::widen<kElement>(_mm256_extracti128_si256(column[j], 1));
        float* to = destination + ((i / kLanes) * rows + r + j) * kLanes;
        Simd<8>::store(to, low);
        if constexpr (kLanes == 16) {
          Simd<8>::store(to + 8, high);
        } else {
          if (i / kLanes + 1 < vectors) Simd<8>::store(to + rows * kLanes, high);
        }
      }
    }
  }
}

}  // namespace warpsmith::cpu
