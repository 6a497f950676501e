// Element conversions and the acceptable range of a result.
#include "evaluate/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "evaluate/inputs.h"

namespace warpsmith {
namespace {

constexpr auto kF16 = ElementType::f16;
constexpr auto kBf16 = ElementType::bf16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool accepts(std::uint16_t c, double c64, double sum, std::int64_t k, ElementType type = kF16) {
  return acceptable_range(Criterion::bound, c64, sum, k, type).contains(c, type);
}

TEST(Element, EveryBitPatternRoundTrips) {
  for (const ElementType type : {kF16, kBf16}) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const auto element = static_cast<std::uint16_t>(bits);
      const double value = element_to_double(element, type);
      if (is_nan_bits(element, type)) {
        EXPECT_TRUE(std::isnan(value));
        EXPECT_TRUE(is_nan_bits(double_to_element(value, type), type));
      } else {
        EXPECT_EQ(double_to_element(value, type), element);
      }
    }
  }
}

TEST(Element, WideningOfBf16IsTheUpperHalfOfAFloat) {
  for (int bits = 0; bits < 0x7f80; ++bits) {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float expected = 0;
    std::memcpy(&expected, &word, sizeof word);
    EXPECT_EQ(element_to_double(static_cast<std::uint16_t>(bits), kBf16), static_cast<double>(expected));
  }
}

TEST(Element, RoundsToNearestEven) {
  // Between every two neighbours: below, at and above the middle.
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const double low = element_to_double(static_cast<std::uint16_t>(bits), kF16);
    const double high = element_to_double(static_cast<std::uint16_t>(bits + 1), kF16);
    const double middle = (low + high) / 2;
    EXPECT_EQ(double_to_element(std::nextafter(middle, 0), kF16), bits);
    EXPECT_EQ(double_to_element(middle, kF16), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(double_to_element(std::nextafter(middle, kInfinity), kF16), bits + 1);
    EXPECT_EQ(double_to_element(-middle, kF16), 0x8000 | (bits % 2 == 0 ? bits : bits + 1));
  }
}

TEST(Element, RoundsAtTheEnds) {
  EXPECT_EQ(double_to_element(std::nextafter(65520.0, 0), kF16), 0x7bff);
  EXPECT_EQ(double_to_element(65520.0, kF16), 0x7c00);
  EXPECT_EQ(double_to_element(1e300, kF16), 0x7c00);
  EXPECT_EQ(double_to_element(-kInfinity, kF16), 0xfc00);
  EXPECT_EQ(double_to_element(std::ldexp(1.0, -25), kF16), 0);
  EXPECT_EQ(double_to_element(std::nextafter(std::ldexp(1.0, -25), 1), kF16), 1);
  EXPECT_EQ(double_to_element(5e-324, kF16), 0);
  EXPECT_EQ(double_to_element(-0.0, kF16), 0x8000);
  EXPECT_EQ(double_to_element(3.4e38, kBf16), 0x7f80);
}

TEST(Judge, AcceptsTheRoundedValueAndItsNeighboursWithinTheBound) {
  const std::uint16_t one = 0x3c00;
  EXPECT_TRUE(accepts(one, 1.0, 1.0, 16));
  EXPECT_FALSE(accepts(one + 1, 1.0, 1.0, 16));
  EXPECT_FALSE(accepts(one - 1, 1.0, 1.0, 16));
  // A tie between 1 and 1 + 2^-10: any error at all decides, so both are right.
  const double tie = 1.0 + std::ldexp(1.0, -11);
  EXPECT_TRUE(accepts(one, tie, tie, 16));
  EXPECT_TRUE(accepts(one + 1, tie, tie, 16));
  EXPECT_FALSE(accepts(one + 2, tie, tie, 16));
  // Without any error only the even one is.
  EXPECT_TRUE(accepts(one, tie, 0, 16));
  EXPECT_FALSE(accepts(one + 1, tie, 0, 16));
}

TEST(Judge, WidensWithTheSumOfMagnitudes) {
  // gamma(1024) * 4096 is 1/2: f16 steps around 64 are 1/16.
  const std::uint16_t sixty_four = 0x5400;
  EXPECT_TRUE(accepts(sixty_four + 8, 64, 4096, 1024));
  EXPECT_FALSE(accepts(sixty_four + 10, 64, 4096, 1024));
  EXPECT_FALSE(accepts(sixty_four + 8, 64, 1024, 1024));
}

TEST(Judge, StraddlingTheOverflowThresholdAllowsBoth) {
  const std::uint16_t largest = 0x7bff, infinity = 0x7c00;
  EXPECT_TRUE(accepts(largest, 65519.9, 1e6, 64));
  EXPECT_TRUE(accepts(infinity, 65519.9, 1e6, 64));
  EXPECT_TRUE(accepts(largest, 65520.1, 1e6, 64));
  EXPECT_TRUE(accepts(infinity, 65520.1, 1e6, 64));
  EXPECT_FALSE(accepts(infinity, 65500, 65500, 64));
  EXPECT_FALSE(accepts(largest, 65600, 65600, 64));
  EXPECT_TRUE(accepts(0xfc00, -65520.1, 1e6, 64));
  EXPECT_FALSE(accepts(0x7c00, -65520.1, 1e6, 64));
}

TEST(Judge, NaNAndInfinityAsIeeeSays) {
  for (const std::uint16_t nan : {0x7e00, 0x7c01, 0xffff, 0x7fab}) {
    EXPECT_FALSE(accepts(nan, 1.0, 1.0, 16));
    EXPECT_FALSE(accepts(nan, 0.0, 1e30, 1 << 20));
    EXPECT_FALSE(accepts(nan, kInfinity, kInfinity, 16));
    EXPECT_TRUE(accepts(nan, kNaN, kInfinity, 16));
  }
  EXPECT_FALSE(accepts(0x3c00, kNaN, kNaN, 16));
  EXPECT_FALSE(accepts(0x7c00, kNaN, kNaN, 16));
  EXPECT_TRUE(accepts(0x7c00, kInfinity, kInfinity, 16));
  EXPECT_FALSE(accepts(0xfc00, kInfinity, kInfinity, 16));
  EXPECT_FALSE(accepts(0x7bff, kInfinity, kInfinity, 16));
}

TEST(Judge, ZeroHasTwoSigns) {
  EXPECT_TRUE(accepts(0x0000, 0, 0, 16));
  EXPECT_TRUE(accepts(0x8000, 0, 0, 16));
  EXPECT_FALSE(accepts(0x0001, 0, 0, 16));
}

TEST(Judge, ExactAllowsOneValueOnly) {
  const auto range = acceptable_range(Criterion::exact, 7, 1e6, 4096, kF16);
  EXPECT_TRUE(range.contains(double_to_element(7, kF16), kF16));
  EXPECT_FALSE(range.contains(double_to_element(7.0039, kF16), kF16));
}

TEST(Judge, CountsWhatIsNotTheRoundedValue) {
  const auto misrounded = [](std::uint16_t c, double c64, double sum) {
    return is_misrounded(c, acceptable_range(Criterion::bound, c64, sum, 4096, kF16), c64, kF16);
  };
  EXPECT_FALSE(misrounded(0x3c00, 1.0, 100));
  EXPECT_TRUE(misrounded(0x3c01, 1.0, 100));
  EXPECT_TRUE(misrounded(0x3bff, 1.0, 0));
  EXPECT_FALSE(misrounded(0x8000, 0, 100));
  EXPECT_TRUE(misrounded(0x7e00, 1.0, 100));
  EXPECT_FALSE(misrounded(0x7e00, kNaN, kNaN));
  EXPECT_FALSE(misrounded(0x7c00, 1e6, 1e6));
}

TEST(Judge, PrecisionOfManyOutputsKeepsTheWorst) {
  const double limit = 0.05;
  Precision sum;
  sum.add({30, 1000, limit});
  sum.add({40, 1000, limit});
  EXPECT_TRUE(sum.good());
  EXPECT_EQ(sum.misrounded, 70);
  EXPECT_EQ(sum.elements, 2000);
  sum.add({400, 1000, limit});
  EXPECT_FALSE(sum.good());
  for (int i = 0; i < 100; ++i) sum.add({0, 1000, limit});
  EXPECT_FALSE(sum.good());
}

// Any FP32 accumulation, in any order and also with truncation, must pass.
TEST(Judge, EverySinglePrecisionSumPasses) {
  std::mt19937 generator(7);
  std::normal_distribution<double> normal;
  for (const ElementType type : {kF16, kBf16}) {
    for (const int k : {1, 7, 64, 1000, 4096}) {
      for (int trial = 0; trial < 50; ++trial) {
        double c64 = 0, sum = 0;
        float forward = 0, truncated = 0;
        for (int i = 0; i < k; ++i) {
          const double a = element_to_double(double_to_element(normal(generator), type), type);
          const double b = element_to_double(double_to_element(normal(generator), type), type);
          c64 += a * b;
          sum += std::fabs(a * b);
          forward += static_cast<float>(a * b);
          const double exact = static_cast<double>(truncated) + a * b;
          truncated = static_cast<float>(exact);
          if (std::fabs(static_cast<double>(truncated)) > std::fabs(exact)) truncated = std::nextafterf(truncated, 0);
        }
        for (const float value : {forward, truncated}) {
          const std::uint16_t c = double_to_element(static_cast<double>(value), type);
          EXPECT_TRUE(accepts(c, c64, sum, k, type)) << k;
          EXPECT_LE(error_ratio(c, c64, sum, k, type), 1.001);
        }
      }
    }
  }
}

// --- FP16 sums and scaled results ---

double to_f16(double x, bool truncates) {
  const std::uint16_t nearest = double_to_element(x, kF16);
  const double value = element_to_double(nearest, kF16);
  const bool away = std::fabs(value) > std::fabs(x);
  return truncates && away ? element_to_double(static_cast<std::uint16_t>(nearest - 1), kF16) : value;
}

// Sums in FP16, `step` products at once, rounded to nearest or truncated after each step.
double f16_sum(const std::vector<double>& terms, std::size_t step, bool truncates) {
  double sum = 0;
  for (std::size_t i = 0; i < terms.size(); i += step) {
    for (std::size_t j = i; j < std::min(i + step, terms.size()); ++j) sum += terms[j];
    sum = to_f16(sum, truncates);
  }
  return sum;
}

struct Terms {
  std::vector<double> values;
  double sum = 0, magnitude = 0;
};

Terms draw_terms(std::mt19937_64& random, std::int64_t k, InputKind kind) {
  const InputSpec spec{kind, random(), 1, 1, k, kF16};
  Terms terms;
  for (std::int64_t x = 0; x < k; ++x) {
    terms.values.push_back(element_to_double(input_a(spec, 0, x), kF16) * element_to_double(input_b(spec, x, 0), kF16));
    terms.sum += terms.values.back();
    terms.magnitude += std::fabs(terms.values.back());
  }
  return terms;
}

TEST(Judge, Fp16SumsAreWithinTheirBound) {
  std::mt19937_64 random(5);
  for (const InputKind kind : {InputKind::normal, InputKind::uniform, InputKind::positive, InputKind::subnormal}) {
    for (const std::int64_t k : {1, 17, 64, 1000, 4096, 16384}) {
      for (int i = 0; i < 20; ++i) {
        const Terms terms = draw_terms(random, k, kind);
        const Expected expected =
            expected_sum(terms.sum, terms.magnitude, {k, AccumulatorType::f16, term_spread(kind)});
        const AcceptableRange range = acceptable_range(Criterion::bound, expected, kF16);
        for (const std::size_t step : {8u, 16u}) {
          for (const bool truncates : {false, true}) {
            const std::uint16_t got = double_to_element(f16_sum(terms.values, step, truncates), kF16);
            EXPECT_TRUE(range.contains(got, kF16))
                << static_cast<int>(kind) << " " << k << " " << step << " " << truncates;
          }
        }
      }
    }
  }
}

TEST(Judge, TheBoundOfFp16SumsStillTellsResults) {
  std::mt19937_64 random(6);
  for (const std::int64_t k : {64, 1024, 4096}) {
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
      const Terms terms = draw_terms(random, k, InputKind::normal);
      const Expected expected = expected_sum(terms.sum, terms.magnitude, {k, AccumulatorType::f16, 1});
      if (!acceptable_range(Criterion::bound, expected, kF16).contains(0, kF16)) ++refused;
    }
    EXPECT_GE(refused, 50) << "of 200 zeros, at K = " << k;
  }
}

TEST(Judge, Fp16SumsMayOverflowOnTheWay) {
  const Summation sum{64, AccumulatorType::f16, 0};
  EXPECT_TRUE(expected_sum(5, 1e5, sum).may_overflow);
  EXPECT_FALSE(expected_sum(5, 1e4, sum).may_overflow);
  EXPECT_FALSE(expected_sum(5, 1e5, {64, AccumulatorType::f32, 0}).may_overflow);
  const AcceptableRange range = acceptable_range(Criterion::bound, expected_sum(5, 1e5, sum), kF16);
  for (const std::uint16_t bits : {0x0000, 0x7c00, 0xfc00, 0x7e00}) {
    EXPECT_TRUE(range.contains(static_cast<std::uint16_t>(bits), kF16));
  }
}

// alpha A B + beta C in FP32, in whatever order it is multiplied and added.
TEST(Judge, ScaledResultsAreWithinTheirBound) {
  std::mt19937_64 random(7);
  for (const Factors factors : {Factors{1, 0}, {1, 1}, {-1, 0.5F}, {0.5F, -1}, {0.3F, 1.7F}}) {
    for (int i = 0; i < 200; ++i) {
      const Terms terms = draw_terms(random, 256, InputKind::normal);
      const double old =
          element_to_double(double_to_element(8 * static_cast<double>(random() % 1000) / 500 - 8, kF16), kF16);
      float sum = 0;
      for (const double term : terms.values) sum += static_cast<float>(term);
      const Expected expected =
          expected_scaled(expected_sum(terms.sum, terms.magnitude, {256}), terms.magnitude, factors, old);
      const AcceptableRange range = acceptable_range(Criterion::bound, expected, kF16);
      const float kept = factors.beta == 0 ? 0 : factors.beta * static_cast<float>(old);
      const float fused = std::fma(factors.alpha, sum, kept), apart = factors.alpha * sum + kept;
      for (const float value : {fused, apart}) {
        EXPECT_TRUE(range.contains(double_to_element(static_cast<double>(value), kF16), kF16));
      }
      const double without = static_cast<double>(factors.alpha) * terms.sum;
      if (factors.beta != 0 && std::fabs(old) > 1) {
        EXPECT_FALSE(range.contains(double_to_element(without, kF16), kF16));
      }
    }
  }
}

TEST(Judge, WithoutBetaWhatWasThereDoesNotMatter) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Expected sum = expected_sum(3, 10, {16});
  EXPECT_EQ(expected_scaled(sum, 10, {-2, 0}, nan).value, -6);
  EXPECT_TRUE(std::isnan(expected_scaled(sum, 10, {-2, 1}, nan).value));
  EXPECT_TRUE(acceptable_range(Criterion::bound, expected_scaled(sum, 10, {-2, 1}, nan), kF16).nan);
}

TEST(Judge, PartsOfAnFp16SumMayBeInfinitiesOfBothSigns) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto range = [&](AccumulatorType accumulator) {
    const Summation sum{64, accumulator};
    return acceptable_range(Criterion::bound, expected_sum(infinity, infinity, sum), kF16);
  };
  for (const AccumulatorType accumulator : {AccumulatorType::f32, AccumulatorType::f16}) {
    EXPECT_TRUE(range(accumulator).contains(0x7c00, kF16));
    EXPECT_FALSE(range(accumulator).contains(0xfc00, kF16));
    EXPECT_FALSE(range(accumulator).contains(0x7bff, kF16));
    EXPECT_EQ(range(accumulator).contains(0x7e00, kF16), accumulator == AccumulatorType::f16);
  }
}

}  // namespace
}  // namespace warpsmith
