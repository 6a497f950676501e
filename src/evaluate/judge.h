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
// Precondition: k <= kMaxDimension + 2, so K u is hardly more than 1/8.
WARPSMITH_HOST_DEVICE inline double error_gamma(std::int64_t k) {
  const double ku = static_cast<double>(k) * power_of_two(-23);
  return ku / (1.0 - ku);
}

// The sum that an element is.
struct Summation {
  std::int64_t k = 1;  // terms
  AccumulatorType accumulator = AccumulatorType::f32;
  double spread = 0;  // standard deviation of a term, of terms that are independent and of mean 0; 0: other data
};

// Roundings of an FP16 sum: hardware adds at least eight products at once before it rounds; and a few, for sums that
// are taken in several parts.
WARPSMITH_HOST_DEVICE inline double f16_roundings(std::int64_t k) { return static_cast<double>(k / 8 + 8); }

// What a right result is rounded from: a number within `error` of `value`.
struct Expected {
  double value = 0, error = 0;
  bool may_overflow = false;  // sums in FP16 may have left its range on the way
};

// Of a product's element: its FP64 value and the sum of |a||b|.
WARPSMITH_HOST_DEVICE inline Expected expected_sum(double c64, double sum_of_magnitudes, const Summation& sum) {
  Expected expected{c64, error_gamma(sum.k) * sum_of_magnitudes};
  if (sum.accumulator == AccumulatorType::f32) return expected;
  const double roundings = f16_roundings(sum.k), tiny = roundings * power_of_two(-24);
  const double worst = std::expm1(roundings * power_of_two(-10)) * sum_of_magnitudes + tiny;
  const double magnitude = c64 < 0 ? -c64 : c64;
  const double walk = sum.spread * std::sqrt(static_cast<double>(sum.k));
  const double usual = roundings * power_of_two(-11) * (0.5 * magnitude + 1.5 * walk) + tiny;
  expected.error += walk > 0 && usual < worst ? usual : worst;
  const double largest = walk > 0 ? magnitude + 8 * walk : sum_of_magnitudes + worst;
  expected.may_overflow = !(largest <= 65504);
  return expected;
}

// C = alpha A B + beta C.
struct Factors {
  float alpha = 1, beta = 0;
  bool operator==(const Factors&) const = default;
};

// Of an element of such a C, which held `old` before; beta = 0 leaves `old` out, NaN or not.
WARPSMITH_HOST_DEVICE inline Expected expected_scaled(const Expected& sum, double sum_of_magnitudes,
                                                      const Factors& factors, double old) {
  const auto alpha = static_cast<double>(factors.alpha);
  const double size = alpha < 0 ? -alpha : alpha;
  const double kept = factors.beta == 0 ? 0.0 : static_cast<double>(factors.beta) * old;
  const double kept_size = kept < 0 ? -kept : kept;
  const double terms = size * (sum_of_magnitudes + sum.error) + kept_size;
  return {alpha * sum.value + kept, size * sum.error + error_gamma(3) * terms, sum.may_overflow};
}

// The acceptable results: every bit pattern whose number lies in [lo, hi], or any NaN and nothing else, or anything.
struct AcceptableRange {
  std::uint16_t lo = 0, hi = 0;
  bool nan = false, any = false;
  bool or_nan = false;  // a NaN is right too: parts of an FP16 sum may be infinities of both signs

  WARPSMITH_HOST_DEVICE bool contains(std::uint16_t c, ElementType type) const {
    if (any) return true;
    if (nan) return is_nan_bits(c, type);
    if (or_nan && is_nan_bits(c, type)) return true;
    const int key = ordered_key(c);
    return key >= ordered_key(lo) && key <= ordered_key(hi);  // a NaN's key lies outside
  }
};

// bound: any right sum lies within the expected error, and rounding is monotone, so the rounded ends bracket every
// right answer; where they straddle 65520, both 65504 and infinity are right. exact: the rounded value alone.
WARPSMITH_HOST_DEVICE inline AcceptableRange acceptable_range(Criterion criterion, const Expected& expected,
                                                              ElementType type) {
  AcceptableRange range;
  const double c64 = expected.value;
  if (c64 != c64) {
    range.nan = true;
    return range;
  }
  const bool infinite = (double_bits(c64) & 0x7fffffffffffffffULL) == 0x7ff0000000000000ULL;
  if (criterion == Criterion::exact || infinite) {
    range.lo = range.hi = double_to_element(c64, type);
    range.or_nan = infinite && expected.may_overflow;
    return range;
  }
  range.any = expected.may_overflow;
  range.lo = double_to_element(c64 - expected.error, type);
  range.hi = double_to_element(c64 + expected.error, type);
  return range;
}
// Of a plain product that is summed in FP32.
WARPSMITH_HOST_DEVICE inline AcceptableRange acceptable_range(Criterion criterion, double c64, double sum_of_magnitudes,
                                                              std::int64_t k, ElementType type) {
  return acceptable_range(criterion, expected_sum(c64, sum_of_magnitudes, {k}), type);
}

// The expected error plus half a unit in the last place of a finite value in the element type.
WARPSMITH_HOST_DEVICE inline double allowed_error(const Expected& expected, ElementType type) {
  int exponent = static_cast<int>((double_bits(expected.value) >> 52) & 0x7ff) - 1023;
  if (exponent < 1 - exponent_bias(type)) exponent = 1 - exponent_bias(type);
  return power_of_two(exponent - mantissa_bits(type) - 1) + expected.error;
}

// The error over the allowed one: at most about 1 for a right result. 0 where it has no meaning (NaN or infinity on
// either side, a sum that may have overflowed).
WARPSMITH_HOST_DEVICE inline double error_ratio(std::uint16_t c, const Expected& expected, ElementType type) {
  const double got = element_to_double(c, type);
  const double difference = got > expected.value ? got - expected.value : expected.value - got;
  if (expected.may_overflow || !(difference <= 1e300)) return 0;
  return difference / allowed_error(expected, type);
}
WARPSMITH_HOST_DEVICE inline double error_ratio(std::uint16_t c, double c64, double sum_of_magnitudes, std::int64_t k,
                                                ElementType type) {
  return error_ratio(c, expected_sum(c64, sum_of_magnitudes, {k}), type);
}

// Not the correctly rounded result. `range`: what acceptable_range() says of the element; where only a NaN is right
// there is nothing to round, and where anything is, nothing to say.
WARPSMITH_HOST_DEVICE inline bool is_misrounded(std::uint16_t c, const AcceptableRange& range, double c64,
                                                ElementType type) {
  if (range.nan || range.any) return false;
  const std::uint16_t rounded = range.lo == range.hi ? range.lo : double_to_element(c64, type);
  return ordered_key(c) != ordered_key(rounded);
}

// The share of N(0,1) results that FP32 sums may misround. Truncating tensor cores that add few products a step
// misround most, in proportion to the number of steps; an element type of fewer bits has as many fewer results near a
// tie.
// FP16 sums misround most results: there is no limit to them.
inline double misrounding_limit(std::int64_t k, ElementType type, AccumulatorType accumulator = AccumulatorType::f32) {
  if (accumulator == AccumulatorType::f16) return 1;
  constexpr double kFloor = 0.02, kPerTerm = 1.2e-5;
  const int missing_bits = mantissa_bits(ElementType::f16) - mantissa_bits(type);
  return kFloor + kPerTerm * power_of_two(-missing_bits) * static_cast<double>(k);
}

// How many of `elements` results differ from the correctly rounded one.
struct Precision {
  std::int64_t misrounded = 0, elements = 0;
  double limit = 0;           // misrounding_limit()
  std::int64_t distinct = 0;  // of the elements; the others are the same numbers again. 0: all

  // Four standard deviations over the limit, and a few where elements are too few for a share to mean anything. What
  // comes again is misrounded again.
  double allowed() const {
    const auto all = static_cast<double>(elements);
    if (limit >= 1 || elements == 0) return all;
    const double different = distinct > 0 ? static_cast<double>(distinct) : all, expected = limit * different;
    return all / different * (expected + 4 * std::sqrt(expected * (1 - limit))) + 8;
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
