// Vectors of 8 or 16 floats, and of as many 16-bit elements, behind one interface. Partial accesses touch only the
// elements asked for: operands may end at the edge of a mapped page.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "cpu/config.h"

namespace warpsmith::cpu {

// Prefetches into the first or the second level of cache. The empty statement keeps functions that do nothing else from
// being taken for free of effects and dropped.
[[gnu::always_inline]] inline void prefetch_l1(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  asm volatile("");
}
[[gnu::always_inline]] inline void prefetch_l2(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
  asm volatile("");
}

template <int kLanes>
struct Simd;

template <>
struct Simd<8> {
  using Float = __m256;
  using Half = __m128i;  // 8 elements of 16 bits

  static Float zero() { return _mm256_setzero_ps(); }
  static Float load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Float v) { _mm256_storeu_ps(p, v); }
  static Float broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }

  static Half load_half(const std::uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static void store_half(std::uint16_t* p, Half v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
#ifdef __AVX512VL__
  static __mmask8 mask(int count) { return static_cast<__mmask8>((1u << count) - 1); }
  static Half load_half(const std::uint16_t* p, int count) { return _mm_maskz_loadu_epi16(mask(count), p); }
  static void store_half(std::uint16_t* p, Half v, int count) { _mm_mask_storeu_epi16(p, mask(count), v); }
#else
  static Half load_half(const std::uint16_t* p, int count) {
    // Pairs through a masked load, which does not fault where its mask is off; an odd last element on its own.
    const __m128i pairs = _mm_cmpgt_epi32(_mm_set1_epi32(count / 2), _mm_setr_epi32(0, 1, 2, 3));
    const __m128i even = _mm_maskload_epi32(reinterpret_cast<const int*>(p), pairs);
    if (count % 2 == 0) return even;
    const __m128i last =
        _mm_cmpeq_epi16(_mm_set1_epi16(static_cast<short>(count - 1)), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm_or_si128(even, _mm_and_si128(last, _mm_set1_epi16(static_cast<short>(p[count - 1]))));
  }
  static void store_half(std::uint16_t* p, Half v, int count) {
    alignas(16) std::uint16_t buffer[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(buffer), v);
    std::memcpy(p, buffer, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
  }
#endif

  template <Element kElement>
  static Float widen(Half v) {
    if constexpr (kElement == Element::f16)
      return _mm256_cvtph_ps(v);
    else
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  }
  // Round to nearest, ties to even; NaN stays NaN.
  template <Element kElement>
  static Half narrow(Float v) {
    if constexpr (kElement == Element::f16) {
      return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
      const __m256i bits = _mm256_castps_si256(v);
      const __m256i high = _mm256_srli_epi32(bits, 16);
      const __m256i bias = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(high, _mm256_set1_epi32(1)));
      const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
      const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
      const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
      const __m256i result = _mm256_blendv_epi8(rounded, quiet, nan);
      return _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1));
    }
  }
};

#ifdef __AVX512F__
template <>
struct Simd<16> {
  using Float = __m512;
  using Half = __m256i;  // 16 elements of 16 bits

  static Float zero() { return _mm512_setzero_ps(); }
  static Float load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Float v) { _mm512_storeu_ps(p, v); }
  static Float broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }

  static Half load_half(const std::uint16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store_half(std::uint16_t* p, Half v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static __mmask16 mask(int count) { return static_cast<__mmask16>((1u << count) - 1); }
  static Half load_half(const std::uint16_t* p, int count) { return _mm256_maskz_loadu_epi16(mask(count), p); }
  static void store_half(std::uint16_t* p, Half v, int count) { _mm256_mask_storeu_epi16(p, mask(count), v); }

  template <Element kElement>
  static Float widen(Half v) {
    if constexpr (kElement == Element::f16)
      return _mm512_cvtph_ps(v);
    else
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
  }
  template <Element kElement>
  static Half narrow(Float v) {
    if constexpr (kElement == Element::f16) {
      return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
      const __m512i bits = _mm512_castps_si512(v);
      const __m512i high = _mm512_srli_epi32(bits, 16);
      const __m512i bias = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(high, _mm512_set1_epi32(1)));
      const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
      const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
      const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
      return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, nan, quiet));
    }
  }
};
#endif

// Four sums, of the lanes of each of four vectors.
inline __m128 sum_lanes(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}
inline __m256 fold(__m256 v) { return v; }
#ifdef __AVX512F__
inline __m256 fold(__m512 v) { return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); }
#endif

}  // namespace warpsmith::cpu
