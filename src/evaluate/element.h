// The 16-bit element types as bit patterns: exact widening to double, round-to-nearest-even back, and a total order.
// Integer arithmetic only, so that host and device agree bit for bit.
#pragma once

#include <cstdint>

#include "problem/problem.h"

#if defined(__CUDACC__)
#define WARPSMITH_HOST_DEVICE __host__ __device__
#else
#define WARPSMITH_HOST_DEVICE
#endif

namespace warpsmith {

// f16: 1 sign, 5 exponent, 10 mantissa bits; bf16: 1, 8, 7.
WARPSMITH_HOST_DEVICE inline int mantissa_bits(ElementType type) { return type == ElementType::f16 ? 10 : 7; }
WARPSMITH_HOST_DEVICE inline int exponent_bias(ElementType type) { return type == ElementType::f16 ? 15 : 127; }
WARPSMITH_HOST_DEVICE inline std::uint16_t infinity_bits(ElementType type) {
  return type == ElementType::f16 ? std::uint16_t{0x7c00} : std::uint16_t{0x7f80};
}
WARPSMITH_HOST_DEVICE inline std::uint16_t quiet_nan_bits(ElementType type) {
  return type == ElementType::f16 ? std::uint16_t{0x7e00} : std::uint16_t{0x7fc0};
}
WARPSMITH_HOST_DEVICE inline bool is_nan_bits(std::uint16_t bits, ElementType type) {
  return (bits & 0x7fff) > infinity_bits(type);
}

WARPSMITH_HOST_DEVICE inline std::uint64_t double_bits(double value) {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
WARPSMITH_HOST_DEVICE inline double double_from_bits(std::uint64_t bits) {
  double value = 0;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// 2^exponent for -1022 <= exponent <= 1023.
WARPSMITH_HOST_DEVICE inline double power_of_two(int exponent) {
  return double_from_bits(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Exact.
WARPSMITH_HOST_DEVICE inline double element_to_double(std::uint16_t bits, ElementType type) {
  const int mantissa_width = mantissa_bits(type);
  const int bias = exponent_bias(type);
  const int magnitude = bits & 0x7fff;
  const std::uint64_t sign = static_cast<std::uint64_t>(bits & 0x8000) << 48;
  const int exponent = magnitude >> mantissa_width;
  const int mantissa = magnitude & ((1 << mantissa_width) - 1);
  if (magnitude >= infinity_bits(type)) {
    return double_from_bits(sign | 0x7ff0000000000000ULL |
                            (static_cast<std::uint64_t>(mantissa) << (52 - mantissa_width)));
  }
  const double value = exponent == 0
                           ? mantissa * power_of_two(1 - bias - mantissa_width)
                           : (mantissa + (1 << mantissa_width)) * power_of_two(exponent - bias - mantissa_width);
  return double_from_bits(double_bits(value) | sign);
}

// Round to nearest, ties to even; overflow to infinity (from 65520 for f16); subnormals are kept; NaN stays NaN.
WARPSMITH_HOST_DEVICE inline std::uint16_t double_to_element(double value, ElementType type) {
  const int mantissa_width = mantissa_bits(type);
  const int bias = exponent_bias(type);
  const std::uint64_t bits = double_bits(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000);
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffULL;
  if (magnitude > 0x7ff0000000000000ULL) return static_cast<std::uint16_t>(sign | quiet_nan_bits(type));
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent > bias) return static_cast<std::uint16_t>(sign | infinity_bits(type));
  std::uint64_t significand = magnitude & 0xfffffffffffffULL;
  if (exponent > -1023) significand |= 1ULL << 52;
  // Below the smallest normal number the quantum stays that of the first binade.
  const int binade = exponent < 1 - bias ? 1 - bias : exponent;
  const int shift = 52 - mantissa_width + (binade - exponent);
  if (shift >= 54) return sign;  // under half of the smallest subnormal
  std::uint64_t quotient = significand >> shift;
  const std::uint64_t rest = significand & ((1ULL << shift) - 1);
  const std::uint64_t half = 1ULL << (shift - 1);
  if (rest > half || (rest == half && (quotient & 1) != 0)) ++quotient;
  // A normal quotient carries its implicit bit into the exponent field; rounding up may carry once more, up to
  // infinity.
  const std::uint64_t result = quotient + (static_cast<std::uint64_t>(binade + bias - 1) << mantissa_width);
  return static_cast<std::uint16_t>(sign | result);
}

// Orders numbers as integers: -inf < ... < -0 == +0 < ... < +inf; positive NaNs lie above +inf, negative ones below
// -inf, so a NaN is outside every interval of numbers.
WARPSMITH_HOST_DEVICE inline int ordered_key(std::uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace warpsmith
