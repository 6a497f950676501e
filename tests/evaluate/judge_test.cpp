// Element conversions and the acceptable range of a result.
#include "evaluate/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

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

}  // namespace
}  // namespace warpsmith
