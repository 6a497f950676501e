// The gates' inputs as pure functions of (kind, seed, operand, row, column, sizes, element type): a counter-based
// generator, so that host and device make the same bits at any element in any order. docs/evaluation.md specifies each
// kind and what it catches. Indices are logical (A[i,k], B[k,j]); how an operand is stored does not matter.
#pragma once

#include <cstdint>

#include "evaluate/element.h"

namespace warpsmith {

// Distributions of the gates' inputs.
enum class InputKind {
  normal,       // N(0,1); also what is timed
  uniform,      // [-1, 1]
  positive,     // [0, 1]
  wide_range,   // +-f * 2^e, e uniform over most of the format's exponents
  large,        // magnitudes at which some results overflow the element type
  subnormal,    // subnormal operands and results
  special,      // normal with NaN and +-Inf at random places
  zero_one,     // {0,1}, thinned so that every expected value is below 2048 (bf16: 256): exact gate
  accumulator,  // large partial sums that cancel to a small exact result: accumulator probe
  edge,         // a table of edge cases: NaN, Inf, signed zeros, subnormals, overflow and its neighbours
  offset,       // of tasks alone: the declared values, moved away from 0 by what the input says
};

struct InputSpec {
  InputKind kind = InputKind::normal;
  std::uint64_t seed = 0;
  std::int64_t m = 0, n = 0, k = 0;
  ElementType element = ElementType::f16;

  bool operator==(const InputSpec&) const = default;
};

namespace inputs {

// The finaliser of splitmix64: a bijection with full avalanche.
WARPSMITH_HOST_DEVICE inline std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Elements of C that hold poison in a run on what the last one left: one in any case, and one in `stride` (0: no more).
// Nobody can foresee them who does not know the key.
struct Holes {
  std::uint64_t key = 0;
  std::uint64_t stride = 0;

  WARPSMITH_HOST_DEVICE bool at(std::int64_t index, std::int64_t count) const {
    const auto i = static_cast<std::uint64_t>(index);
    return i == mix(key) % static_cast<std::uint64_t>(count) || (stride != 0 && mix(key + 1 + i) % stride == 0);
  }
};

// 64 random bits for element `index` of a stream; streams differ by seed, kind, operand and draw.
WARPSMITH_HOST_DEVICE inline std::uint64_t random_bits(const InputSpec& spec, int operand, std::int64_t index,
                                                       int draw) {
  const auto stream = static_cast<std::uint64_t>((static_cast<int>(spec.kind) * 4 + operand) * 16 + draw);
  const std::uint64_t key = mix(spec.seed + 0x9e3779b97f4a7c15ULL * (stream + 1));
  return mix(key + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(index + 1));
}

// floor(log2(x)) for x >= 1, and its rounding up.
WARPSMITH_HOST_DEVICE inline int log2_floor(std::int64_t x) {
  int result = 0;
  while (x > 1) {
    x >>= 1;
    ++result;
  }
  return result;
}
WARPSMITH_HOST_DEVICE inline int log2_ceil(std::int64_t x) { return x <= 1 ? 0 : log2_floor(x - 1) + 1; }

WARPSMITH_HOST_DEVICE inline int sum_of_halves(std::uint64_t bits) {
  return static_cast<int>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
}

// Sum of 12 uniform 16-bit numbers, centred and scaled: mean 0, variance 1, |x| < 6 (Irwin-Hall).
WARPSMITH_HOST_DEVICE inline double standard_normal(const InputSpec& spec, int operand, std::int64_t index) {
  const int sum = sum_of_halves(random_bits(spec, operand, index, 0)) +
                  sum_of_halves(random_bits(spec, operand, index, 1)) +
                  sum_of_halves(random_bits(spec, operand, index, 2));
  return (sum - 393210) * power_of_two(-16);
}

// [0, 1) in steps of 2^-32.
WARPSMITH_HOST_DEVICE inline double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 32) * power_of_two(-32);
}

WARPSMITH_HOST_DEVICE inline std::uint16_t uniform_value(const InputSpec& spec, int operand, std::int64_t index) {
  return double_to_element(2.0 * unit_interval(random_bits(spec, operand, index, 0)) - 1.0, spec.element);
}

// [0, 1], scaled down by a power of two beyond K = 65536 so that results stay finite in f16.
WARPSMITH_HOST_DEVICE inline std::uint16_t positive_value(const InputSpec& spec, int operand, std::int64_t index) {
  const int excess = log2_ceil(spec.k) - 16;
  const double scale = excess > 0 ? power_of_two(-(excess + 1) / 2) : 1.0;
  return double_to_element(unit_interval(random_bits(spec, operand, index, 0)) * scale, spec.element);
}

// +-f * 2^e: f uniform in [1, 2), e uniform in [-14, 8 - log2(K)/4] (f16) or [-40, 40] (bf16).
WARPSMITH_HOST_DEVICE inline std::uint16_t wide_range_value(const InputSpec& spec, int operand, std::int64_t index) {
  const std::uint64_t bits = random_bits(spec, operand, index, 0);
  const bool half = spec.element == ElementType::f16;
  const int low = half ? -14 : -40;
  const int high = half ? 8 - log2_floor(spec.k) / 4 : 40;
  const int exponent = low + static_cast<int>((bits & 0xffff) % static_cast<std::uint64_t>(high - low + 1));
  const double magnitude = (1.0 + unit_interval(bits)) * power_of_two(exponent);
  return double_to_element((bits & 0x10000) != 0 ? -magnitude : magnitude, spec.element);
}

// f16: N(0,1) scaled so that results have a standard deviation near 2^15: many overflow, most do not. bf16 shares
// FP32's range, where the order of the sum decides about overflow: large, but finite in every order.
WARPSMITH_HOST_DEVICE inline std::uint16_t large_value(const InputSpec& spec, int operand, std::int64_t index) {
  const double x = standard_normal(spec, operand, index);
  if (spec.element == ElementType::bf16) return double_to_element(x * power_of_two(48), spec.element);
  const int quarters = 30 - log2_floor(spec.k);  // log2 of the scale, in quarters
  const double step = (quarters & 3) == 0   ? 1.0
                      : (quarters & 3) == 1 ? 1.189207115002721
                      : (quarters & 3) == 2 ? 1.4142135623730951
                                            : 1.681792830507429;
  return double_to_element(x * step * power_of_two(quarters >> 2), spec.element);
}

// f16: A within two binades of zero's end (three quarters subnormal), B near 1/sqrt(K), one in 16 of them subnormal:
// results are subnormal too. bf16: A subnormal, B near 2^24: products and sums are normal in FP32.
WARPSMITH_HOST_DEVICE inline std::uint16_t subnormal_value(const InputSpec& spec, int operand, std::int64_t index) {
  const std::uint64_t bits = random_bits(spec, operand, index, 0);
  const auto sign = static_cast<std::uint16_t>((bits & 1) << 15);
  const int width = mantissa_bits(spec.element);
  const auto tiny =
      static_cast<std::uint16_t>(sign | (((bits >> 1) & ((1u << (width + 1)) - 1)) >> ((bits >> 40) & 1)));
  if (operand == 0) return tiny;
  if (spec.element == ElementType::f16 && ((bits >> 20) & 15) == 0) return tiny;
  const int exponent = spec.element == ElementType::f16 ? -(log2_floor(spec.k) / 2) : 24;
  const double magnitude = (0.5 + 0.5 * unit_interval(bits)) * power_of_two(exponent);
  return double_to_element((bits & 1) != 0 ? -magnitude : magnitude, spec.element);
}

// N(0,1) with one element in 4K replaced by NaN, +Inf or -Inf, so that about a third of the results is touched; one Inf
// in A and one NaN in B are there always.
WARPSMITH_HOST_DEVICE inline std::uint16_t special_value(const InputSpec& spec, int operand, std::int64_t index) {
  const std::int64_t count = operand == 0 ? spec.m * spec.k : spec.k * spec.n;
  const std::uint64_t place = random_bits(spec, operand, -1, 3) % static_cast<std::uint64_t>(count);
  const std::uint16_t infinity = infinity_bits(spec.element);
  if (static_cast<std::uint64_t>(index) == place) return operand == 0 ? infinity : quiet_nan_bits(spec.element);
  const std::uint64_t bits = random_bits(spec, operand, index, 4);
  if (bits < ~0ULL / (4 * static_cast<std::uint64_t>(spec.k))) {
    switch (random_bits(spec, operand, index, 5) % 3) {
      case 0:
        return quiet_nan_bits(spec.element);
      case 1:
        return infinity;
      default:
        return static_cast<std::uint16_t>(infinity | 0x8000);
    }
  }
  return double_to_element(standard_normal(spec, operand, index), spec.element);
}

// 1 with probability 2^-t, t the least that keeps the mean result, K * 4^-t, at 1024 (bf16: 128) or below: results stay
// below 2048 (bf16: 256), where every integer is exact, by 30 (10) standard deviations.
WARPSMITH_HOST_DEVICE inline std::uint16_t zero_one_value(const InputSpec& spec, int operand, std::int64_t index) {
  const int free_bits = spec.element == ElementType::f16 ? 12 : 9;
  const int excess = log2_ceil(spec.k) - free_bits;
  const int thinning = 1 + (excess > 0 ? (excess + 1) / 2 : 0);
  const bool one = (random_bits(spec, operand, index, 0) >> (64 - thinning)) == 0;
  return double_to_element(one ? 1.0 : 0.0, spec.element);
}

// --- Accumulator probe: A = +-1 by row; a column of B holds H = K/2 positive integers, then the same integers negated
// in another order, and an odd residue. In even columns integers come in blocks of `unit` that are large and small in
// turn; the second half swaps neighbouring blocks, so that a split of K that deals out units in turn leaves large
// partial sums as well. In odd columns large and small ones are drawn, and the second half steps through the first by
// a prime: partial sums of any split are like those of a random walk.

// Position x of the first half whose magnitude stands at position x of the second half; its own inverse.
WARPSMITH_HOST_DEVICE inline std::int64_t probe_partner(std::int64_t x, std::int64_t half, std::int64_t unit) {
  const std::int64_t swapped = x ^ unit;
  return swapped < half ? swapped : x;
}

// The same for a column that steps by a prime; a bijection, because no prime is taken that divides `half`.
WARPSMITH_HOST_DEVICE inline std::int64_t probe_step(std::int64_t x, std::int64_t half, std::uint64_t draw) {
  constexpr int kPrimes[] = {3, 5, 7, 11, 13, 17, 19};  // half has not all of them as factors: K is below 2^21
  auto at = static_cast<int>(draw % 7);
  while (half % kPrimes[at] == 0) at = (at + 1) % 7;
  return (x * kPrimes[at] + static_cast<std::int64_t>((draw >> 8) & 0xfffff)) % half;
}

// Block length of an even column: 1, 2, 4 ... half/2 in turn; 0: the column is not made of blocks.
WARPSMITH_HOST_DEVICE inline std::int64_t probe_unit(const InputSpec& spec, std::int64_t column) {
  const std::int64_t half = spec.k / 2;
  if (half < 2 || column % 2 != 0) return 0;
  const std::int64_t start = static_cast<std::int64_t>(spec.seed & 0xffff);
  return std::int64_t{1} << ((column / 2 + start) % log2_floor(half));
}

// A magnitude of the first half. f16: small ones 513...639, large ones 1920...2046 up to K = 8192 and 1280...1406
// beyond, so that K/2 of them stay below 2^23; beyond K = 16384 all are shifted down to keep that. bf16: 65...80 and
// 225...240, exact in 8 bits.
WARPSMITH_HOST_DEVICE inline int probe_magnitude(const InputSpec& spec, std::int64_t position, std::int64_t column,
                                                 std::int64_t unit) {
  const std::uint64_t bits = random_bits(spec, 1, position * spec.n + column, 0);
  const auto noise = static_cast<int>(bits >> 40);
  const bool large = unit != 0 ? (position & unit) == 0 : (bits & 1) != 0;
  const int excess = log2_ceil(spec.k) - (spec.element == ElementType::f16 ? 14 : 16);
  const int shift = excess > 0 ? excess : 0;
  int magnitude = 0;
  if (spec.element == ElementType::bf16) {
    magnitude = (large ? 225 : 65) + noise % 16;
  } else {
    magnitude = (large ? (spec.k <= 8192 ? 1920 : 1280) : 513) + noise % 127;
  }
  magnitude >>= shift;
  return magnitude > 1 ? magnitude : 1;
}

WARPSMITH_HOST_DEVICE inline std::uint16_t probe_b(const InputSpec& spec, std::int64_t row, std::int64_t column) {
  const std::int64_t half = spec.k / 2;
  const std::uint64_t draw = random_bits(spec, 1, column, 1);
  const int residue = 1 + 2 * static_cast<int>(draw & 3);  // 1, 3, 5 or 7: never a multiple of a coarser spacing
  int value = 0;
  if (half == 0) {
    value = residue;
  } else if (row < half) {
    value = probe_magnitude(spec, row, column, probe_unit(spec, column));
  } else if (row < 2 * half) {
    const std::int64_t unit = probe_unit(spec, column);
    const std::int64_t source = unit != 0 ? probe_partner(row - half, half, unit) : probe_step(row - half, half, draw);
    value = -probe_magnitude(spec, source, column, unit);
    if (static_cast<std::uint64_t>(row - half) == (draw >> 8) % static_cast<std::uint64_t>(half)) value += residue;
  } else {
    value = 2 + 2 * static_cast<int>((draw >> 4) & 1);  // odd K: the last element counts too
  }
  return double_to_element(value, spec.element);
}

WARPSMITH_HOST_DEVICE inline std::uint16_t probe_a(const InputSpec& spec, std::int64_t row) {
  return double_to_element((random_bits(spec, 0, row, 0) & 1) != 0 ? -1.0 : 1.0, spec.element);
}

// --- Edge cases: row i of A holds the first factors of case i mod 32, column j of B the second ones of case j mod 32,
// so C(i, i) is case i and every other element a mixture. A case has up to four terms, a quarter of K apart; all else
// is zero. As f16 bits; bf16 takes the same values rounded.

inline constexpr int kEdgeCases = 32;
inline constexpr int kEdgeTerms = 4;

WARPSMITH_HOST_DEVICE inline std::uint16_t edge_factor(int edge_case, int operand, int term) {
  constexpr std::uint16_t kZero = 0x0000, kMinusZero = 0x8000, kOne = 0x3c00, kMinusOne = 0xbc00, kHalf = 0x3800;
  constexpr std::uint16_t kMax = 0x7bff, kInf = 0x7c00, kNaN = 0x7e00, kSignallingNaN = 0x7c01, kPayloadNaN = 0xfe55;
  constexpr std::uint16_t kTiny = 0x0001, kMinusTiny = 0x8001, kLeastNormal = 0x0400;
  constexpr std::uint16_t k15 = 0x4b80, kBelow16 = 0x4bff, k16 = 0x4c00, k17 = 0x4c40, k256 = 0x5c00, k300 = 0x5cb0,
                          kMinus299 = 0xdcac, kMinusMax = 0xfbff, kTwoToMinus10 = 0x1400;
  constexpr std::uint16_t kTable[kEdgeCases][2][kEdgeTerms] = {
      {{kZero}, {kZero}},                              //  0
      {{kMinusZero}, {kOne}},                          //  1  -0
      {{kOne}, {kOne}},                                //  2
      {{kMax}, {kOne}},                                //  3  65504
      {{kMax, k15}, {kOne, kOne}},                     //  4  65519
      {{kMax, kBelow16}, {kOne, kOne}},                //  5  65519.992
      {{kMax, k16}, {kOne, kOne}},                     //  6  65520
      {{kMax, k17}, {kOne, kOne}},                     //  7  65521
      {{kMax, k17}, {kMinusOne, kMinusOne}},           //  8  -65521
      {{kMax, kMax, kMax}, {kOne, kOne, kMinusOne}},   //  9  65504, beyond it on the way
      {{k300, k300}, {k300, kMinus299}},               // 10  300, beyond 65504 on the way
      {{k256}, {k256}},                                // 11  65536
      {{kTiny}, {kOne}},                               // 12  2^-24
      {{kTiny}, {kHalf}},                              // 13  2^-25
      {{kTiny, kTiny, kTiny}, {kHalf, kHalf, kHalf}},  // 14  1.5 * 2^-24
      {{kLeastNormal, kTiny}, {kOne, kMinusOne}},      // 15  2^-14 - 2^-24
      {{kTiny}, {kTiny}},                              // 16  2^-48
      {{kOne, kOne}, {kOne, kMinusOne}},               // 17  0 by cancellation
      {{kMinusTiny}, {kOne}},                          // 18  -2^-24
      {{kInf}, {kOne}},                                // 19
      {{kInf}, {kMinusOne}},                           // 20
      {{kInf, kInf}, {kOne, kMinusOne}},               // 21  NaN
      {{kInf}, {kZero}},                               // 22  NaN
      {{kNaN}, {kZero}},                               // 23  NaN
      {{kOne}, {kNaN}},                                // 24  NaN
      {{kInf, kNaN}, {kOne, kOne}},                    // 25  NaN
      {{kInf, kMax}, {kOne, kMax}},                    // 26  Inf
      {{kSignallingNaN}, {kOne}},                      // 27  NaN
      {{kPayloadNaN}, {kOne}},                         // 28  NaN
      {{kMax}, {kMax}},                                // 29  4.3e9
      {{kMax, kMinusMax, kOne}, {kMax, kMax, kOne}},   // 30  1, after 4.3e9
      {{kLeastNormal}, {kTwoToMinus10}},               // 31  2^-24
  };
  return kTable[edge_case][operand][term];
}

WARPSMITH_HOST_DEVICE inline std::uint16_t edge_value(const InputSpec& spec, int operand, std::int64_t line,
                                                      std::int64_t k) {
  const std::int64_t step = spec.k < kEdgeTerms ? 1 : spec.k / kEdgeTerms;
  if (k % step != 0 || k / step >= kEdgeTerms) return 0;
  const std::uint16_t bits = edge_factor(static_cast<int>(line % kEdgeCases), operand, static_cast<int>(k / step));
  return spec.element == ElementType::f16 ? bits
                                          : double_to_element(element_to_double(bits, ElementType::f16), spec.element);
}

WARPSMITH_HOST_DEVICE inline std::uint16_t value(const InputSpec& spec, int operand, std::int64_t index) {
  switch (spec.kind) {
    case InputKind::uniform:
      return uniform_value(spec, operand, index);
    case InputKind::positive:
      return positive_value(spec, operand, index);
    case InputKind::wide_range:
      return wide_range_value(spec, operand, index);
    case InputKind::large:
      return large_value(spec, operand, index);
    case InputKind::subnormal:
      return subnormal_value(spec, operand, index);
    case InputKind::special:
      return special_value(spec, operand, index);
    case InputKind::zero_one:
      return zero_one_value(spec, operand, index);
    default:
      return double_to_element(standard_normal(spec, operand, index), spec.element);
  }
}

}  // namespace inputs

// Element A[i,k] and B[k,j], 0 <= i < m, 0 <= k < spec.k, 0 <= j < n, as bits of the element type.
WARPSMITH_HOST_DEVICE inline std::uint16_t input_a(const InputSpec& spec, std::int64_t i, std::int64_t k) {
  if (spec.kind == InputKind::accumulator) return inputs::probe_a(spec, i);
  if (spec.kind == InputKind::edge) return inputs::edge_value(spec, 0, i, k);
  return inputs::value(spec, 0, i * spec.k + k);
}
WARPSMITH_HOST_DEVICE inline std::uint16_t input_b(const InputSpec& spec, std::int64_t k, std::int64_t j) {
  if (spec.kind == InputKind::accumulator) return inputs::probe_b(spec, k, j);
  if (spec.kind == InputKind::edge) return inputs::edge_value(spec, 1, j, k);
  return inputs::value(spec, 1, k * spec.n + j);
}

// What C[i,j] holds before a run whose beta is not 0: of the size of results on N(0,1) data; -2 to 2 where results are
// exact integers; subnormal, NaN and infinite where operands are.
WARPSMITH_HOST_DEVICE inline std::uint16_t input_c(const InputSpec& spec, std::int64_t i, std::int64_t j) {
  const std::int64_t index = i * spec.n + j;
  const std::uint64_t bits = inputs::random_bits(spec, 2, index, 6);
  if (spec.kind == InputKind::zero_one || spec.kind == InputKind::accumulator) {
    return double_to_element(static_cast<double>(bits % 5) - 2.0, spec.element);
  }
  if (spec.kind == InputKind::subnormal) {
    const std::uint64_t magnitude = (bits >> 1) & ((1u << (mantissa_bits(spec.element) + 1)) - 1);
    return static_cast<std::uint16_t>((bits & 1) << 15 | magnitude);
  }
  if (spec.kind == InputKind::special && bits % 16 < 3) {
    if (bits % 16 == 0) return quiet_nan_bits(spec.element);
    return static_cast<std::uint16_t>(infinity_bits(spec.element) | (bits % 16 == 1 ? 0x8000 : 0));
  }
  const double x = inputs::standard_normal(spec, 2, index);
  return double_to_element(x * power_of_two(inputs::log2_floor(spec.k) / 2), spec.element);
}

// Standard deviation of a product of one element of A and one of B, of the kinds whose elements are independent and
// symmetric about 0 and all of one size; 0: of the others.
WARPSMITH_HOST_DEVICE inline double term_spread(InputKind kind) {
  return kind == InputKind::normal ? 1.0 : kind == InputKind::uniform ? 1.0 / 3.0 : 0.0;
}

}  // namespace warpsmith
