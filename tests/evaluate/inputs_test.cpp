// The input generators: distributions keep what docs/evaluation.md promises, and the accumulator probe catches FP16
// accumulation wherever it hides, while every FP32 sum of it is exact.
#include "evaluate/inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace warpsmith {
namespace {

constexpr auto kF16 = ElementType::f16;
constexpr auto kBf16 = ElementType::bf16;

InputSpec spec_of(InputKind kind, std::int64_t m, std::int64_t n, std::int64_t k, ElementType type = kF16,
                  std::uint64_t seed = 5) {
  return {kind, seed, m, n, k, type};
}

std::vector<double> values_a(const InputSpec& spec) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < spec.m; ++i) {
    for (std::int64_t k = 0; k < spec.k; ++k) values.push_back(element_to_double(input_a(spec, i, k), spec.element));
  }
  return values;
}

double column_dot(const InputSpec& spec, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < spec.k; ++k) {
    sum += element_to_double(input_a(spec, i, k), spec.element) * element_to_double(input_b(spec, k, j), spec.element);
  }
  return sum;
}

TEST(Inputs, PureFunctionsOfSeedAndPlace) {
  const auto spec = spec_of(InputKind::normal, 8, 8, 64);
  auto other = spec;
  other.seed = 6;
  EXPECT_EQ(input_a(spec, 3, 5), input_a(spec, 3, 5));
  int equal = 0;
  for (int k = 0; k < 64; ++k) equal += input_a(spec, 3, k) == input_a(other, 3, k) ? 1 : 0;
  EXPECT_LT(equal, 8);
  // Fixed for ever: another implementation of the documented generator must give the same bits.
  EXPECT_EQ(inputs::mix(1), 0x5692161d100b05e5ULL);
}

TEST(Inputs, NormalHasItsMoments) {
  const auto values = values_a(spec_of(InputKind::normal, 256, 1, 256));
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double second = 0, fourth = 0;
  for (const double x : values) {
    second += x * x / count;
    fourth += x * x * x * x / count;
  }
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(second, 1, 0.02);
  EXPECT_NEAR(fourth, 2.9, 0.1);  // 3 - 6/60 for twelve uniforms
}

TEST(Inputs, UniformAndPositiveKeepTheirRange) {
  for (const double x : values_a(spec_of(InputKind::uniform, 64, 1, 64))) EXPECT_LE(std::fabs(x), 1);
  double sum = 0;
  for (const double x : values_a(spec_of(InputKind::positive, 64, 1, 64))) {
    EXPECT_GE(x, 0);
    EXPECT_LE(x, 1);
    sum += x;
  }
  EXPECT_NEAR(sum / 4096, 0.5, 0.03);
  // Long sums of positive numbers stay finite in f16.
  EXPECT_LT(column_dot(spec_of(InputKind::positive, 1, 1, 1 << 20), 0, 0), 65504);
}

TEST(Inputs, WideRangeCoversTheExponents) {
  double smallest = 1e9, largest = 0;
  for (const double x : values_a(spec_of(InputKind::wide_range, 64, 1, 64))) {
    smallest = std::min(smallest, std::fabs(x));
    largest = std::max(largest, std::fabs(x));
  }
  EXPECT_LT(smallest, std::ldexp(1.0, -13));
  EXPECT_GT(largest, std::ldexp(1.0, 7));
}

TEST(Inputs, SomeLargeResultsOverflow) {
  for (const std::int64_t k : {1, 64, 1000, 16384}) {
    const auto spec = spec_of(InputKind::large, 32, 32, k);
    int overflows = 0;
    for (int i = 0; i < 32; ++i) {
      for (int j = 0; j < 32; ++j) overflows += std::fabs(column_dot(spec, i, j)) >= 65520 ? 1 : 0;
    }
    EXPECT_GT(overflows, 5) << k;
    EXPECT_LT(overflows, 700) << k;
  }
}

TEST(Inputs, SubnormalOperandsAndResults) {
  const auto spec = spec_of(InputKind::subnormal, 32, 32, 256);
  int operands = 0, results = 0;
  for (const double x : values_a(spec)) operands += x != 0 && std::fabs(x) < std::ldexp(1.0, -14) ? 1 : 0;
  for (int j = 0; j < 32; ++j) {
    const double c = column_dot(spec, 3, j);
    results += c != 0 && std::fabs(c) < std::ldexp(1.0, -14) ? 1 : 0;
  }
  EXPECT_GT(operands, 32 * 256 / 2);
  EXPECT_GT(results, 16);
}

TEST(Inputs, SpecialTouchesSomeResultsButNotAll) {
  for (const std::int64_t k : {8, 64, 1024}) {
    const auto spec = spec_of(InputKind::special, 64, 64, k);
    int touched = 0;
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < 64; ++j) touched += std::isfinite(column_dot(spec, i, j)) ? 0 : 1;
    }
    EXPECT_GT(touched, 64) << k;
    EXPECT_LT(touched, 3000) << k;
  }
}

TEST(Inputs, ZeroOneStaysExact) {
  for (const ElementType type : {kF16, kBf16}) {
    const double limit = type == kF16 ? 2048 : 256;
    for (const std::int64_t k : {1, 64, 600, 4096, 5000, 16384, 1 << 20}) {
      const auto spec = spec_of(InputKind::zero_one, 2, 2, k, type);
      const double c = column_dot(spec, 1, 1);
      EXPECT_LT(c, limit) << k;
      if (k >= 4096) {
        EXPECT_GT(c, limit / 16) << k;
      }
    }
  }
}

// --- accumulator probe ---

double to_f16(double x) { return element_to_double(double_to_element(x, kF16), kF16); }

std::vector<double> products(const InputSpec& spec, std::int64_t i, std::int64_t j) {
  std::vector<double> result;
  const double sign = element_to_double(input_a(spec, i, 0), spec.element);
  for (std::int64_t k = 0; k < spec.k; ++k)
    result.push_back(sign * element_to_double(input_b(spec, k, j), spec.element));
  return result;
}

// FP16 accumulation of groups of `group` exact products (a tensor core's step), promoted to FP32 every `promote` k.
double f16_accumulate(const std::vector<double>& terms, std::size_t group, std::size_t promote) {
  double total = 0, partial = 0;
  for (std::size_t k = 0; k < terms.size(); k += group) {
    double step = 0;
    for (std::size_t g = k; g < std::min(k + group, terms.size()); ++g) step += terms[g];
    partial = to_f16(partial + step);
    if ((k + group) % promote == 0 || k + group >= terms.size()) {
      total += partial;
      partial = 0;
    }
  }
  return total;
}

// FP32 sums per split, each rounded to FP16 before they are added: k belongs to split (k / unit) % splits.
double f16_split_partials(const std::vector<double>& terms, std::size_t splits, std::size_t unit) {
  std::vector<double> partial(splits);
  for (std::size_t k = 0; k < terms.size(); ++k) partial[k / unit % splits] += terms[k];
  double total = 0;
  for (const double one : partial) total += to_f16(one);
  return total;
}

// FP16 accumulation within strided splits, FP32 between them.
double f16_strided(const std::vector<double>& terms, std::size_t splits, std::size_t unit) {
  std::vector<double> partial(splits);
  for (std::size_t k = 0; k < terms.size(); ++k) {
    double& one = partial[k / unit % splits];
    one = to_f16(one + terms[k]);
  }
  return std::accumulate(partial.begin(), partial.end(), 0.0);
}

constexpr std::int64_t kColumns = 32;

template <class Kernel>
bool caught(const InputSpec& spec, const Kernel& kernel) {
  for (std::int64_t j = 0; j < spec.n; ++j) {
    const auto terms = products(spec, 0, j);
    const double expected = std::accumulate(terms.begin(), terms.end(), 0.0);
    const double got = kernel(terms);
    if (!(to_f16(got) == expected)) return true;
  }
  return false;
}

std::vector<std::int64_t> probe_sizes() {
  std::vector<std::int64_t> sizes = {100, 333, 1000, 5000, 12345};
  for (std::int64_t k = 64; k <= 16384; k *= 2) sizes.push_back(k);
  for (std::int64_t k = 96; k <= 12288; k *= 2) sizes.push_back(k);
  return sizes;
}

TEST(AccumulatorProbe, EveryFp32SumIsExactInAnyOrder) {
  for (const ElementType type : {kF16, kBf16}) {
    for (std::int64_t k : {1, 2, 3, 5, 8, 63, 64, 96, 333, 4096, 8192, 16384, 65536, 1 << 20}) {
      const auto spec = spec_of(InputKind::accumulator, 4, 4, k, type);
      for (std::int64_t j = 0; j < (k > 20000 ? 1 : 4); ++j) {
        const auto terms = products(spec, 1, j);
        double magnitude = 0, sum = 0;
        for (const double term : terms) {
          EXPECT_EQ(term, std::floor(term));
          magnitude += std::fabs(term);
          sum += term;
        }
        // Every partial sum, over any subset, is an integer of at most half the magnitudes (and the residue).
        EXPECT_LT(magnitude / 2 + 16, 1 << 23) << k;
        EXPECT_LE(std::fabs(sum), 11) << k;
        EXPECT_GE(std::fabs(sum), 1) << k;
        EXPECT_EQ(element_to_double(double_to_element(sum, type), type), sum);
      }
    }
  }
}

TEST(AccumulatorProbe, SecondHalfIsAPermutationOfTheFirst) {
  for (const std::int64_t half : {1, 2, 3, 32, 50, 166, 4096}) {
    for (std::int64_t unit = 1; unit < half; unit *= 2) {
      std::vector<bool> hit(static_cast<std::size_t>(half));
      for (std::int64_t x = 0; x < half; ++x) {
        const std::int64_t y = inputs::probe_partner(x, half, unit);
        ASSERT_LT(y, half);
        EXPECT_EQ(inputs::probe_partner(y, half, unit), x);
        hit[static_cast<std::size_t>(y)] = true;
      }
      EXPECT_EQ(std::count(hit.begin(), hit.end(), true), half);
    }
  }
}

TEST(AccumulatorProbe, SteppingByAPrimeIsAPermutation) {
  for (const std::int64_t half : {1, 2, 3, 15, 32, 105, 4096, 6144, 15015, 255255, 1 << 19}) {
    for (const std::uint64_t draw : {0ULL, 3ULL, 0x123456789ULL}) {
      std::vector<bool> hit(static_cast<std::size_t>(half));
      for (std::int64_t x = 0; x < half; ++x) {
        hit[static_cast<std::size_t>(inputs::probe_step(x, half, draw))] = true;
      }
      EXPECT_EQ(std::count(hit.begin(), hit.end(), true), half);
    }
  }
}

TEST(AccumulatorProbe, CatchesFp16AccumulationAtEveryPromotionInterval) {
  for (const std::int64_t k : probe_sizes()) {
    const auto spec = spec_of(InputKind::accumulator, 1, kColumns, k);
    for (std::size_t promote = 16; promote <= static_cast<std::size_t>(k); promote *= 2) {
      for (const std::size_t group : {1, 8, 16}) {
        EXPECT_TRUE(caught(spec, [&](const auto& terms) { return f16_accumulate(terms, group, promote); }))
            << "k " << k << " promoted every " << promote << " in steps of " << group;
      }
    }
  }
}

TEST(AccumulatorProbe, CatchesFp16PartialsOfContiguousSplits) {
  for (const std::int64_t k : probe_sizes()) {
    const auto spec = spec_of(InputKind::accumulator, 1, kColumns, k);
    for (std::size_t splits = 2; splits <= 64 && static_cast<std::int64_t>(splits) * 8 <= k; ++splits) {
      const std::size_t unit = (static_cast<std::size_t>(k) + splits - 1) / splits;
      EXPECT_TRUE(caught(spec, [&](const auto& terms) { return f16_split_partials(terms, splits, unit); }))
          << "k " << k << " splits " << splits;
    }
  }
}

TEST(AccumulatorProbe, CatchesStridedSplitsOfEveryUnit) {
  for (std::int64_t k = 64; k <= 16384; k *= 4) {
    const auto spec = spec_of(InputKind::accumulator, 1, kColumns, k);
    for (std::size_t unit = 1; unit * 4 <= static_cast<std::size_t>(k); unit *= 2) {
      for (std::size_t splits = 2;
           splits * unit * 2 <= static_cast<std::size_t>(k) && splits * 8 <= static_cast<std::size_t>(k); splits *= 2) {
        EXPECT_TRUE(caught(spec, [&](const auto& terms) { return f16_split_partials(terms, splits, unit); }))
            << "FP16 partials: k " << k << " splits " << splits << " unit " << unit;
        EXPECT_TRUE(caught(spec, [&](const auto& terms) { return f16_strided(terms, splits, unit); }))
            << "FP16 accumulation: k " << k << " splits " << splits << " unit " << unit;
      }
    }
  }
}

TEST(AccumulatorProbe, CatchesFp16AccumulationForEverySeed) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto spec = spec_of(InputKind::accumulator, 1, 1, 64, kF16, seed);
    EXPECT_TRUE(caught(spec, [](const auto& terms) { return f16_accumulate(terms, 16, 16); })) << seed;
    EXPECT_TRUE(caught(spec, [](const auto& terms) { return f16_accumulate(terms, 16, 32); })) << seed;
  }
}

TEST(AccumulatorProbe, CatchesBf16Accumulation) {
  const auto round = [](double x) { return element_to_double(double_to_element(x, kBf16), kBf16); };
  for (std::int64_t k = 64; k <= 16384; k *= 2) {
    const auto spec = spec_of(InputKind::accumulator, 1, kColumns, k, kBf16);
    EXPECT_TRUE(caught(spec, [&](const auto& terms) {
      double partial = 0;
      for (const double term : terms) partial = round(partial + term);
      return partial;
    })) << k;
  }
}

}  // namespace
}  // namespace warpsmith
