// Every edge case of the inputs (NaN, Inf, signed zero, subnormal, overflow and its neighbours): which of the 65536
// results are right, said here independently of the judge.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "evaluate/inputs.h"
#include "evaluate/judge.h"

namespace warpsmith {
namespace {

constexpr auto kF16 = ElementType::f16;

struct Expected {
  const char* name;
  std::uint16_t lo, hi;  // in the order of numbers; the zeros are one number
  bool nan = false;
};

// Of the table's cases in its order, for K = 4: gamma is 2^-21, and sums have at most three terms.
constexpr Expected kExpected[inputs::kEdgeCases] = {
    {"zero", 0x0000, 0x0000},
    {"minus zero is zero", 0x8000, 0x8000},
    {"one", 0x3c00, 0x3c00},
    {"the largest finite number", 0x7bff, 0x7bff},
    {"65519 rounds down", 0x7bff, 0x7bff},
    {"65519.992 may go either way", 0x7bff, 0x7c00},
    {"65520 may go either way", 0x7bff, 0x7c00},
    {"65521 overflows", 0x7c00, 0x7c00},
    {"-65521 overflows", 0xfc00, 0xfc00},
    {"a partial sum beyond the largest number", 0x7bff, 0x7bff},
    {"products beyond the largest number", 0x5cb0, 0x5cb0},
    {"65536 overflows", 0x7c00, 0x7c00},
    {"the least subnormal", 0x0001, 0x0001},
    {"half of it may go either way", 0x0000, 0x0001},
    {"one and a half may go either way", 0x0001, 0x0002},
    {"the largest subnormal", 0x03ff, 0x03ff},
    {"2^-48 is zero", 0x0000, 0x0000},
    {"cancellation: 2 * gamma is 2^-20", 0x8010, 0x0010},
    {"minus the least subnormal", 0x8001, 0x8001},
    {"infinity", 0x7c00, 0x7c00},
    {"minus infinity", 0xfc00, 0xfc00},
    {"infinity minus infinity", 0, 0, true},
    {"infinity times zero", 0, 0, true},
    {"NaN times zero", 0, 0, true},
    {"one times NaN", 0, 0, true},
    {"infinity and NaN", 0, 0, true},
    {"infinity and a finite number", 0x7c00, 0x7c00},
    {"a signalling NaN", 0, 0, true},
    {"a NaN with a payload and a sign", 0, 0, true},
    {"the square of the largest number", 0x7c00, 0x7c00},
    {"one beside two squares that cancel: within 2 * gamma * 65504^2", 0xebfe, 0x6bff},
    {"a subnormal product", 0x0001, 0x0001},
};

TEST(EdgeValues, ExactlyTheRightResultsAreAccepted) {
  const InputSpec spec{InputKind::edge, 1, 32, 32, 4, kF16};
  for (std::int64_t i = 0; i < inputs::kEdgeCases; ++i) {
    double sum = 0, magnitudes = 0;
    for (std::int64_t k = 0; k < 4; ++k) {
      const double term = element_to_double(input_a(spec, i, k), kF16) * element_to_double(input_b(spec, k, i), kF16);
      sum += term;
      magnitudes += std::fabs(term);
    }
    const AcceptableRange range = acceptable_range(Criterion::bound, sum, magnitudes, 4, kF16);
    const Expected& expected = kExpected[i];
    for (int pattern = 0; pattern < 0x10000; ++pattern) {
      const auto bits = static_cast<std::uint16_t>(pattern);
      const double value = element_to_double(bits, kF16);
      const bool right =
          expected.nan ? std::isnan(value)
                       : value >= element_to_double(expected.lo, kF16) && value <= element_to_double(expected.hi, kF16);
      ASSERT_EQ(range.contains(bits, kF16), right)
          << expected.name << ": " << value << " (0x" << std::hex << pattern << "), sum " << sum;
    }
  }
}

// The terms of a case meet wherever K ends, and the table is whole: 1, 2, 3 and more k.
TEST(EdgeValues, TermsLieAQuarterOfKApart) {
  for (const std::int64_t k : {1, 2, 3, 4, 5, 7, 64, 1000}) {
    const InputSpec spec{InputKind::edge, 1, 40, 40, k, kF16};
    int found = 0;
    for (std::int64_t at = 0; at < k; ++at) {
      EXPECT_EQ(input_a(spec, 9, at), input_a(spec, 9 + 32, at));
      if (input_a(spec, 9, at) != 0) {
        EXPECT_EQ(input_a(spec, 9, at), 0x7bff);
        ++found;
      }
    }
    EXPECT_EQ(found, std::min<std::int64_t>(k, 3)) << k;
  }
}

TEST(EdgeValues, Bf16SharesTheTable) {
  const InputSpec spec{InputKind::edge, 1, 32, 32, 4, ElementType::bf16};
  EXPECT_EQ(input_a(spec, 2, 0), 0x3f80);                             // one
  EXPECT_EQ(input_a(spec, 12, 0), 0x3380);                            // 2^-24
  EXPECT_TRUE(is_nan_bits(input_a(spec, 27, 0), ElementType::bf16));  // NaN
  EXPECT_EQ(input_b(spec, 0, 20), 0xbf80);                            // minus one
  EXPECT_EQ(input_a(spec, 19, 0), infinity_bits(ElementType::bf16));  // infinity
}

}  // namespace
}  // namespace warpsmith
