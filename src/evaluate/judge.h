// The judge: which 16-bit results are acceptable for an element, given its FP64 value and the sum of |a||b|, and how
// many of many may differ from the correctly rounded one. The same for host and device; docs/evaluation.md derives
// both.
#pragma once

#include <cmath>
#include <cstdint>

#include "evaluate/element.h"

namespace warpsmith {

// How the output of a run is judged against the FP64 reference.
enum class Criterion {
  bound,  // |c - c64| <= rounding of the element type + gamma(K) * sum |a||b|, NaN and Inf as IEEE says
  exact,  // bit for bit (the reference is exactly representable)
};

// gamma(K) = K u / (1 - K u) with u = 2^-23: tensor cores truncate, which costs twice the roundoff of rounding.
// Precondition: k <= kMaxDimension (2^20), so K u <= 1/8.
WARPSMITH_HOST_DEVICE inline double error_gamma(std::int64_t k) {
  const double ku = static_cast<double>(k) * power_of_two(-23);
  return ku / (1.0 - ku);
}

// The acceptable results: every bit pattern whose number lies in [lo, hi], or any NaN and nothing else.
struct AcceptableRange {
  std::uint16_t lo = 0, hi = 0;
  bool nan = false;

  WARPSMITH_HOST_DEVICE bool contains(std::uint16_t c, ElementType type) const {
    if (nan) return is_nan_bits(c, type);
    const int key = ordered_key(c);
    return key >= ordered_key(lo) && key <= ordered_key(hi);  // a NaN's key lies outside
  }
};

// bound: any FP32 sum lies within c64 +- gamma(K) * sum|a||b|, and rounding is monotone, so the rounded ends bracket
// every right answer; where they straddle 65520, both 65504 and infinity are right. exact: the rounded value alone.
WARPSMITH_HOST_DEVICE inline AcceptableRange acceptable_range(Criterion criterion, double c64, double sum_of_magnitudes,
                                                              std::int64_t k, ElementType type) {
  AcceptableRange range;
  if (c64 != c64) {
    range.nan = true;
    return range;
  }
  const bool infinite = (double_bits(c64) & 0x7fffffffffffffffULL) == 0x7ff0000000000000ULL;
  if (criterion == Criterion::exact || infinite) {
    range.lo = range.hi = double_to_element(c64, type);
    return range;
  }
  const double error = error_gamma(k) * sum_of_magnitudes;
  range.lo = double_to_element(c64 - error, type);
  range.hi = double_to_element(c64 + error, type);
  return range;
}

// gamma(K) * sum|a||b| plus half a unit in the last place of a finite c64 in the element type.
WARPSMITH_HOST_DEVICE inline double allowed_error(double c64, double sum_of_magnitudes, std::int64_t k,
                                                  ElementType type) {
  int exponent = static_cast<int>((double_bits(c64) >> 52) & 0x7ff) - 1023;
  if (exponent < 1 - exponent_bias(type)) exponent = 1 - exponent_bias(type);
  return power_of_two(exponent - mantissa_bits(type) - 1) + error_gamma(k) * sum_of_magnitudes;
}

// |c - c64| over the allowed error: at most about 1 for a right result. 0 where it has no meaning (NaN or infinity on
// either side).
WARPSMITH_HOST_DEVICE inline double error_ratio(std::uint16_t c, double c64, double sum_of_magnitudes, std::int64_t k,
                                                ElementType type) {
  const double got = element_to_double(c, type);
  const double difference = got > c64 ? got - c64 : c64 - got;
  if (!(difference <= 1e300)) return 0;
  return difference / allowed_error(c64, sum_of_magnitudes, k, type);
}

// Not the correctly rounded result. `range`: what acceptable_range() says of the element; where only a NaN is right
// there is nothing to round.
WARPSMITH_HOST_DEVICE inline bool is_misrounded(std::uint16_t c, const AcceptableRange& range, double c64,
                                                ElementType type) {
  if (range.nan) return false;
  const std::uint16_t rounded = range.lo == range.hi ? range.lo : double_to_element(c64, type);
  return ordered_key(c) != ordered_key(rounded);
}

// The share of N(0,1) results that FP32 sums may misround. Truncating tensor cores that add few products a step
// misround most, in proportion to the number of steps; an element type of fewer bits has as many fewer results near a
// tie.
inline double misrounding_limit(std::int64_t k, ElementType type) {
  constexpr double kFloor = 0.02, kPerTerm = 1.2e-5;
  const int missing_bits = mantissa_bits(ElementType::f16) - mantissa_bits(type);
  return kFloor + kPerTerm * power_of_two(-missing_bits) * static_cast<double>(k);
}

// How many of `elements` results differ from the correctly rounded one.
struct Precision {
  std::int64_t misrounded = 0, elements = 0;
  double limit = 0;  // misrounding_limit()

  // Four standard deviations over the limit, and a few where elements are too few for a share to mean anything.
  double allowed() const {
    if (limit >= 1) return static_cast<double>(elements);
    const double expected = limit * static_cast<double>(elements);
    return expected + 4 * std::sqrt(expected * (1 - limit)) + 8;
  }
  bool good() const { return static_cast<double>(misrounded) <= allowed(); }
  // Of other outputs of the same problem. One that is not good stays that, however many good ones come.
  void add(const Precision& other) {
    if (!good()) return;
    if (!other.good() || elements == 0) {
      *this = other;
      return;
    }
    misrounded += other.misrounded;
    elements += other.elements;
  }
};

}  // namespace warpsmith
