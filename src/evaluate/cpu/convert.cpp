// f16 through F16C and AVX-512F instructions; bf16 through integer shifts that the compiler vectorises.
#include "evaluate/cpu/convert.h"

#include <immintrin.h>

#include <cstring>

namespace warpsmith {

namespace {

const bool kHasAvx512 = __builtin_cpu_supports("avx512f") != 0;

__m128i load_8(const std::uint16_t* source) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source)); }
void store_8(std::uint16_t* destination, __m128i value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), value);
}

__attribute__((target("avx512f"))) std::int64_t widen_avx512(const std::uint16_t* source, float* destination,
                                                             std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i));
    _mm512_storeu_ps(destination + i, _mm512_maskz_cvtph_ps(0xffff, half));
  }
  return i;
}

__attribute__((target("avx512f"))) std::int64_t narrow_avx512(const float* source, std::uint16_t* destination,
                                                              std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i half = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + i), half);
  }
  return i;
}

void widen_f16(const std::uint16_t* source, float* destination, std::int64_t count) {
  std::int64_t i = kHasAvx512 ? widen_avx512(source, destination, count) : 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(destination + i, _mm256_cvtph_ps(load_8(source + i)));
  for (; i < count; ++i) destination[i] = _cvtsh_ss(source[i]);
}

void narrow_f16(const float* source, std::uint16_t* destination, std::int64_t count) {
  std::int64_t i = kHasAvx512 ? narrow_avx512(source, destination, count) : 0;
  for (; i + 8 <= count; i += 8) {
    store_8(destination + i, _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < count; ++i) destination[i] = _cvtss_sh(source[i], _MM_FROUND_TO_NEAREST_INT);
}

void widen_bf16(const std::uint16_t* source, float* destination, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(source[i]) << 16;
    std::memcpy(destination + i, &bits, sizeof bits);
  }
}

void narrow_bf16(const float* source, std::uint16_t* destination, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, source + i, sizeof bits);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    destination[i] = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40 : rounded);
  }
}

}  // namespace

void elements_to_floats(const std::uint16_t* source, float* destination, std::int64_t count, ElementType type) {
  if (type == ElementType::f16) {
    widen_f16(source, destination, count);
  } else {
    widen_bf16(source, destination, count);
  }
}

void floats_to_elements(const float* source, std::uint16_t* destination, std::int64_t count, ElementType type) {
  if (type == ElementType::f16) {
    narrow_f16(source, destination, count);
  } else {
    narrow_bf16(source, destination, count);
  }
}

}  // namespace warpsmith
