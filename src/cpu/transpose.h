// Transposition of 16-bit elements in registers: 16 rows of 8 become 8 vectors of 16.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace warpsmith::cpu {

// out[c] holds source[r * stride + c] for r = 0..15. Row r travels in the low 128-bit lane, row r + 8 in the high one.
inline void transpose_16x8(const std::uint16_t* source, std::int64_t stride, __m256i out[8]) {
  __m256i row[8], pair[8], quad[8];
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) {
    const auto* low = reinterpret_cast<const __m128i*>(source + r * stride);
    const auto* high = reinterpret_cast<const __m128i*>(source + (r + 8) * stride);
    row[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // columns 0-3 in pair[i], 4-7 in pair[i + 4], of rows 2i and 2i + 1
    pair[i] = _mm256_unpacklo_epi16(row[2 * i], row[2 * i + 1]);
    pair[i + 4] = _mm256_unpackhi_epi16(row[2 * i], row[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {  // quad[4h + 2g + j]: columns 4h + 2j and 4h + 2j + 1 of rows 4g..4g + 3
#pragma GCC unroll 2
    for (int group = 0; group < 2; ++group) {
      const __m256i first = pair[4 * half + 2 * group], second = pair[4 * half + 2 * group + 1];
      quad[4 * half + 2 * group] = _mm256_unpacklo_epi32(first, second);
      quad[4 * half + 2 * group + 1] = _mm256_unpackhi_epi32(first, second);
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      out[4 * half + 2 * j] = _mm256_unpacklo_epi64(quad[4 * half + j], quad[4 * half + 2 + j]);
      out[4 * half + 2 * j + 1] = _mm256_unpackhi_epi64(quad[4 * half + j], quad[4 * half + 2 + j]);
    }
  }
}

// The same for a block of `rows` <= 16 by `columns` <= 8 at the edge of a matrix; the rest counts as zero.
inline void transpose_16x8(const std::uint16_t* source, std::int64_t stride, int rows, int columns, __m256i out[8]) {
  if (rows == 16 && columns == 8) return transpose_16x8(source, stride, out);
  alignas(32) std::uint16_t block[16 * 8] = {};
  for (int r = 0; r < rows; ++r) {
    std::memcpy(block + r * 8, source + r * stride, static_cast<std::size_t>(columns) * sizeof(std::uint16_t));
  }
  transpose_16x8(block, 8, out);
}

}  // namespace warpsmith::cpu
