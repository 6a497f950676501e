// Accumulators, emulated: every FP32 sum (any order, any split, rounding or truncating adders) is within the bound, and
// FP16 accumulation is caught at every K of the usual grid, however K is split and however often it is promoted: by the
// probe, and on N(0,1) data by the share of misrounded results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "evaluate/inputs.h"
#include "evaluate/judge.h"

namespace warpsmith {
namespace {

constexpr auto kF16 = ElementType::f16;
constexpr std::int64_t kGrid[] = {64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384};

// The exact products of one element of C.
std::vector<double> terms_of(const InputSpec& spec, std::int64_t i, std::int64_t j) {
  std::vector<double> terms;
  for (std::int64_t k = 0; k < spec.k; ++k) {
    terms.push_back(element_to_double(input_a(spec, i, k), spec.element) *
                    element_to_double(input_b(spec, k, j), spec.element));
  }
  return terms;
}

double total(const std::vector<double>& terms) { return std::accumulate(terms.begin(), terms.end(), 0.0); }
double magnitude(const std::vector<double>& terms) {
  double sum = 0;
  for (const double term : terms) sum += std::fabs(term);
  return sum;
}

bool within_bound(double sum, const std::vector<double>& terms, const InputSpec& spec) {
  const auto range = acceptable_range(Criterion::bound, total(terms), magnitude(terms), spec.k, spec.element);
  return range.contains(double_to_element(sum, spec.element), spec.element);
}

// --- ways to deal out K ---

using Parts = std::vector<std::vector<double>>;

// k belongs to part (k / unit) % parts.
Parts deal(const std::vector<double>& terms, std::size_t parts, std::size_t unit) {
  Parts result(parts);
  for (std::size_t k = 0; k < terms.size(); ++k) result[k / unit % parts].push_back(terms[k]);
  return result;
}

// Contiguous parts in multiples of `step` k.
std::size_t contiguous_unit(std::size_t k, std::size_t parts, std::size_t step) {
  const std::size_t steps = (k + step - 1) / step;
  return (steps + parts - 1) / parts * step;
}

// --- FP32 adders ---

// Truncates to 24 significant bits.
double truncate32(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double ulp = std::ldexp(1.0, std::ilogb(x) - 23);
  return std::trunc(x / ulp) * ulp;
}

double add_rounding(double a, double b) { return static_cast<double>(static_cast<float>(a + b)); }
double add_truncating(double a, double b) { return truncate32(a + b); }

// A multi-operand adder as tensor cores have it: `group` products and the accumulator are aligned to the largest
// exponent, cut off two bits below FP32's last place, added exactly, and the sum is truncated.
double add_aligned(double accumulator, const double* terms, std::size_t group) {
  double largest = std::fabs(accumulator);
  for (std::size_t i = 0; i < group; ++i) largest = std::max(largest, std::fabs(terms[i]));
  if (largest == 0) return 0;
  const double step = std::ldexp(1.0, std::ilogb(largest) - 25);
  double sum = std::trunc(accumulator / step) * step;
  for (std::size_t i = 0; i < group; ++i) sum += std::trunc(terms[i] / step) * step;
  return truncate32(sum);
}

using Sum = std::function<double(const std::vector<double>&)>;

double fold(const std::vector<double>& terms, double (*add)(double, double)) {
  double sum = 0;
  for (const double term : terms) sum = add(sum, term);
  return sum;
}

double pairwise(std::vector<double> terms, double (*add)(double, double)) {
  while (terms.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i + 1 < terms.size(); i += 2) next.push_back(add(terms[i], terms[i + 1]));
    if (terms.size() % 2 != 0) next.push_back(terms.back());
    terms = std::move(next);
  }
  return terms.front();
}

double tensor_core(const std::vector<double>& terms, std::size_t group) {
  double sum = 0;
  for (std::size_t k = 0; k < terms.size(); k += group) {
    sum = add_aligned(sum, terms.data() + k, std::min(group, terms.size() - k));
  }
  return sum;
}

std::vector<std::pair<std::string, Sum>> fp32_sums() {
  std::vector<std::pair<std::string, Sum>> sums = {
      {"forward", [](const auto& terms) { return fold(terms, add_rounding); }},
      {"forward, truncating", [](const auto& terms) { return fold(terms, add_truncating); }},
      {"pairwise", [](const auto& terms) { return pairwise(terms, add_rounding); }},
      {"pairwise, truncating", [](const auto& terms) { return pairwise(terms, add_truncating); }},
      {"backward, truncating",
       [](auto terms) {
         std::reverse(terms.begin(), terms.end());
         return fold(terms, add_truncating);
       }},
      {"shuffled, truncating",
       [](auto terms) {
         std::shuffle(terms.begin(), terms.end(), std::mt19937(3));
         return fold(terms, add_truncating);
       }},
      {"largest first, truncating", [](auto terms) {
         std::sort(terms.begin(), terms.end(), [](double a, double b) { return std::fabs(a) > std::fabs(b); });
         return fold(terms, add_truncating);
       }}};
  for (const std::size_t group : {2, 4, 8, 16, 32}) {
    sums.emplace_back("tensor core, " + std::to_string(group),
                      [group](const auto& terms) { return tensor_core(terms, group); });
  }
  return sums;
}

TEST(Bound, HoldsForFp32SumsOfEveryOrderAndAdder) {
  for (const InputKind kind : {InputKind::normal, InputKind::uniform, InputKind::positive, InputKind::wide_range,
                               InputKind::large, InputKind::subnormal}) {
    for (const ElementType type : {kF16, ElementType::bf16}) {
      for (const std::int64_t k : {1, 2, 7, 64, 100, 1024, 4096, 16384}) {
        const InputSpec spec{kind, 11, 4, 4, k, type};
        for (std::int64_t j = 0; j < (k > 5000 ? 1 : 3); ++j) {
          const auto terms = terms_of(spec, 1, j);
          for (const auto& [name, sum] : fp32_sums()) {
            EXPECT_TRUE(within_bound(sum(terms), terms, spec))
                << name << " kind " << static_cast<int>(kind) << " k " << k << " column " << j;
          }
        }
      }
    }
  }
}

TEST(Bound, HoldsForFp32SplitsOfEveryCount) {
  for (const InputKind kind : {InputKind::normal, InputKind::positive, InputKind::wide_range}) {
    for (const std::int64_t k : {64, 1024, 12288}) {
      const InputSpec spec{kind, 12, 2, 2, k, kF16};
      const auto terms = terms_of(spec, 0, 1);
      for (std::size_t parts = 2; parts <= 16; ++parts) {
        for (const std::size_t unit : {std::size_t{16}, contiguous_unit(terms.size(), parts, 16)}) {
          std::vector<double> partial;
          for (const auto& part : deal(terms, parts, unit)) partial.push_back(tensor_core(part, 16));
          EXPECT_TRUE(within_bound(fold(partial, add_truncating), terms, spec)) << k << " in " << parts;
        }
      }
    }
  }
}

// The bound has to be able to fail: four times its half-width away is wrong.
TEST(Bound, RefusesWhatNoOrderGives) {
  for (const std::int64_t k : kGrid) {
    const InputSpec spec{InputKind::positive, 5, 1, 1, k, kF16};
    const auto terms = terms_of(spec, 0, 0);
    const double c64 = total(terms);
    const double allowed = allowed_error(expected_sum(c64, magnitude(terms), {k}), kF16);
    EXPECT_FALSE(within_bound(c64 + 4 * allowed, terms, spec)) << k;
    EXPECT_FALSE(within_bound(c64 - 4 * allowed, terms, spec)) << k;
  }
}

// --- FP16 accumulation ---

double to_f16(double x) { return element_to_double(double_to_element(x, kF16), kF16); }

// Steps of `group` products are added exactly and rounded into an FP16 accumulator, which is added to an FP32 sum every
// `promote` k (0: at the end).
double f16_accumulated(const std::vector<double>& terms, std::size_t group, std::size_t promote) {
  double sum = 0, partial = 0;
  for (std::size_t k = 0; k < terms.size(); k += group) {
    double step = 0;
    for (std::size_t i = k; i < std::min(k + group, terms.size()); ++i) step += terms[i];
    partial = to_f16(partial + step);
    if (promote != 0 && (k + group) % promote == 0) {
      sum += partial;
      partial = 0;
    }
  }
  return sum + partial;
}

// Which of the two inputs that are meant for it refuse an accumulator; columns of the probe, then positive data.
class Catcher {
 public:
  explicit Catcher(std::int64_t k, std::uint64_t seed = 9)
      : probe_{InputKind::accumulator, seed, 1, 32, k, kF16}, positive_{probe_} {
    positive_.kind = InputKind::positive;
    for (std::int64_t j = 0; j < probe_.n; ++j) columns_.push_back(terms_of(probe_, 0, j));
    positive_terms_ = terms_of(positive_, 0, 0);
  }

  bool catches(const Sum& accumulate) const {
    for (const auto& terms : columns_) {
      if (!(to_f16(accumulate(terms)) == total(terms))) return true;
    }
    return !within_bound(accumulate(positive_terms_), positive_terms_, positive_);
  }

 private:
  InputSpec probe_, positive_;
  std::vector<std::vector<double>> columns_;
  std::vector<double> positive_terms_;
};

// Ways to deal K out to `parts`: contiguous, and in turn by units that kernels use.
std::vector<std::size_t> units_for(std::size_t k, std::size_t parts) {
  std::vector<std::size_t> units = {contiguous_unit(k, parts, 16)};
  for (const std::size_t unit : {1, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256}) {
    if (unit * parts <= k) units.push_back(unit);
  }
  return units;
}

class Fp16Accumulation : public testing::TestWithParam<std::int64_t> {};

TEST_P(Fp16Accumulation, IsCaughtUnderEverySplitAndPromotion) {
  const std::int64_t k = GetParam();
  const Catcher catcher(k);
  for (const std::size_t parts : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 32, 64}) {
    if (static_cast<std::int64_t>(parts) * 4 > k) continue;
    for (const std::size_t unit : units_for(static_cast<std::size_t>(k), parts)) {
      for (const std::size_t promote : {0, 16, 32, 64, 128}) {
        for (const std::size_t group : {1, 8, 16}) {
          EXPECT_TRUE(catcher.catches([&](const auto& terms) {
            double sum = 0;
            for (const auto& part : deal(terms, parts, unit)) sum += f16_accumulated(part, group, promote);
            return sum;
          })) << "k "
              << k << " parts " << parts << " unit " << unit << " promoted every " << promote << " steps of " << group;
        }
      }
    }
  }
}

// The hardest case: few k a part, dealt out one at a time, FP32 inside.
TEST(Fp16Partials, AreCaughtForEverySeed) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const std::int64_t k : {64, 128, 256}) {
      const Catcher catcher(k, seed);
      for (std::size_t parts = 2; parts <= 16; ++parts) {
        EXPECT_TRUE(catcher.catches([&](const auto& terms) {
          double sum = 0;
          for (const auto& part : deal(terms, parts, 1)) sum += to_f16(total(part));
          return sum;
        })) << "k "
            << k << " parts " << parts << " seed " << seed;
      }
    }
  }
}

// FP32 inside, but partial sums travel as FP16.
TEST_P(Fp16Accumulation, IsCaughtInThePartialsOfEverySplit) {
  const std::int64_t k = GetParam();
  const Catcher catcher(k);
  for (const std::size_t parts : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 32, 64}) {
    if (static_cast<std::int64_t>(parts) * 4 > k) continue;
    for (const std::size_t unit : units_for(static_cast<std::size_t>(k), parts)) {
      EXPECT_TRUE(catcher.catches([&](const auto& terms) {
        double sum = 0;
        for (const auto& part : deal(terms, parts, unit)) sum += to_f16(total(part));
        return sum;
      })) << "k "
          << k << " parts " << parts << " unit " << unit;
    }
  }
}

// An FP32 accumulator is not accused, whatever the split.
TEST_P(Fp16Accumulation, IsNotSeenInFp32) {
  const std::int64_t k = GetParam();
  const Catcher catcher(k);
  for (const std::size_t parts : {1, 3, 8, 16}) {
    for (const std::size_t unit : units_for(static_cast<std::size_t>(k), parts)) {
      EXPECT_FALSE(catcher.catches([&](const auto& terms) {
        double sum = 0;
        for (const auto& part : deal(terms, parts, unit)) sum = add_truncating(sum, tensor_core(part, 16));
        return sum;
      })) << "k "
          << k << " parts " << parts << " unit " << unit;
    }
  }
}

// --- the share of misrounded results ---

// A block of results on N(0,1) data, to be summed in many ways.
class NormalBlock {
 public:
  NormalBlock(std::int64_t side, std::int64_t k, ElementType type = kF16)
      : spec_{InputKind::normal, 21, side, side, k, type} {
    std::vector<std::vector<double>> a, b;
    for (std::int64_t i = 0; i < side; ++i) {
      std::vector<double> row, column;
      for (std::int64_t x = 0; x < k; ++x) {
        row.push_back(element_to_double(input_a(spec_, i, x), type));
        column.push_back(element_to_double(input_b(spec_, x, i), type));
      }
      a.push_back(std::move(row));
      b.push_back(std::move(column));
    }
    for (const auto& row : a) {
      for (const auto& column : b) {
        std::vector<double> terms(row.size());
        std::transform(row.begin(), row.end(), column.begin(), terms.begin(), std::multiplies<>());
        results_.push_back(std::move(terms));
      }
    }
  }

  Precision judge(const Sum& sum) const {
    Precision precision;
    precision.limit = misrounding_limit(spec_.k, spec_.element);
    for (const auto& terms : results_) {
      const double c64 = total(terms);
      const auto range = acceptable_range(Criterion::bound, c64, magnitude(terms), spec_.k, spec_.element);
      ++precision.elements;
      precision.misrounded +=
          is_misrounded(double_to_element(sum(terms), spec_.element), range, c64, spec_.element) ? 1 : 0;
    }
    return precision;
  }

 private:
  InputSpec spec_;
  std::vector<std::vector<double>> results_;
};

double share(const Precision& precision) {
  return static_cast<double>(precision.misrounded) / static_cast<double>(precision.elements);
}

std::int64_t side_for(std::int64_t k) { return k <= 1024 ? 48 : k <= 4096 ? 32 : 16; }

struct Depth {
  std::int64_t k;
  ElementType type;
};
class MisroundedShare : public testing::TestWithParam<Depth> {};

// Sums in FP32: in the units of every tensor core, in plain additions however they are ordered, and split.
TEST_P(MisroundedShare, OfFp32SumsStaysInside) {
  const auto [k, type] = GetParam();
  const NormalBlock block(side_for(k), k, type);
  const auto expect_inside = [&](const std::string& name, double part, const Sum& sum) {
    const Precision precision = block.judge(sum);
    EXPECT_TRUE(precision.good()) << name << ": " << precision.misrounded << " of " << precision.elements;
    EXPECT_LE(share(precision), part * precision.limit) << name;
  };
  expect_inside("steps of 16", 0.5, [](const auto& terms) { return tensor_core(terms, 16); });
  expect_inside("steps of 8", 0.7, [](const auto& terms) { return tensor_core(terms, 8); });
  expect_inside("steps of 4", 1.1, [](const auto& terms) { return tensor_core(terms, 4); });
  expect_inside("one after the other", 0.3, [](const auto& terms) { return fold(terms, add_rounding); });
  expect_inside("pairwise", 0.3, [](const auto& terms) { return pairwise(terms, add_rounding); });
  expect_inside("largest first", 0.3, [](auto terms) {
    std::sort(terms.begin(), terms.end(), [](double a, double b) { return std::fabs(a) > std::fabs(b); });
    return fold(terms, add_rounding);
  });
  expect_inside("in 7 parts of steps of 8", 0.5, [](const auto& terms) {
    double sum = 0;
    for (const auto& part : deal(terms, 7, 32)) sum = add_rounding(sum, tensor_core(part, 8));
    return sum;
  });
}

// FP16 accumulators, however often they are promoted, and FP16 partial sums.
TEST_P(MisroundedShare, OfFp16SumsIsOutside) {
  const auto [k, type] = GetParam();
  const NormalBlock block(side_for(k), k, type);
  for (const std::size_t group : {1, 4, 8, 16}) {
    for (const std::size_t promote : {0, 16, 32, 64, 128}) {
      const Precision precision =
          block.judge([&](const auto& terms) { return f16_accumulated(terms, group, promote); });
      EXPECT_FALSE(precision.good()) << "steps of " << group << " promoted every " << promote << ": "
                                     << precision.misrounded << " of " << precision.elements;
    }
  }
  for (const std::size_t parts : {2, 4, 8, 16}) {
    const Precision precision = block.judge([&](const auto& terms) {
      double sum = 0;
      for (const auto& part : deal(terms, parts, 16)) sum += to_f16(total(part));
      return sum;
    });
    EXPECT_FALSE(precision.good()) << parts << " parts";
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, MisroundedShare,
                         testing::Values(Depth{256, kF16}, Depth{1024, kF16}, Depth{4096, kF16}, Depth{8192, kF16},
                                         Depth{256, ElementType::bf16}, Depth{4096, ElementType::bf16}));

TEST(MisroundedShare, AccusesNoFewResults) {
  for (const std::int64_t k : {1, 64, 16384}) {
    Precision precision{8, 8, misrounding_limit(k, kF16)};
    EXPECT_TRUE(precision.good());
    precision = {60, 100, misrounding_limit(k, kF16)};
    EXPECT_FALSE(precision.good());
  }
  EXPECT_TRUE((Precision{100, 100, misrounding_limit(1 << 20, kF16)}).good());
}

// One of 23 elements is misrounded, in all of 256 outputs of the same numbers.
TEST(Precision, WhatComesAgainIsMisroundedAgain) {
  EXPECT_TRUE((Precision{256, 256 * 23, 0.02, 23}).good());
  EXPECT_FALSE((Precision{256, 256 * 23, 0.02}).good());
  EXPECT_FALSE((Precision{256 * 4, 256 * 23, 0.02, 23}).good());
}

INSTANTIATE_TEST_SUITE_P(Grid, Fp16Accumulation, testing::ValuesIn(kGrid));

}  // namespace
}  // namespace warpsmith
