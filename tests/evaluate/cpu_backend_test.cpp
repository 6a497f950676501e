// Pieces of the CPU backend: conversion, guarded memory, threads, the FP64 reference, operand sets.
#include "evaluate/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "evaluate/cpu/convert.h"
#include "evaluate/cpu/machine_facts.h"

namespace warpsmith {
namespace {

TEST(Convert, AgreesWithTheElementDefinition) {
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    std::vector<std::uint16_t> bits(0x10000);
    std::iota(bits.begin(), bits.end(), std::uint16_t{0});
    std::vector<float> floats(bits.size());
    elements_to_floats(bits.data(), floats.data(), static_cast<std::int64_t>(bits.size()), type);
    // Halfway points and their neighbours, in lengths that leave every remainder.
    std::vector<float> probes;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const double exact = element_to_double(bits[i], type);
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(floats[i]));
        continue;
      }
      EXPECT_EQ(static_cast<double>(floats[i]), exact);
      probes.push_back(floats[i]);
      probes.push_back(floats[i] * 1.000244140625f);
      probes.push_back(floats[i] * 1.0003f);
    }
    std::vector<std::uint16_t> narrowed(probes.size());
    floats_to_elements(probes.data(), narrowed.data(), static_cast<std::int64_t>(probes.size()), type);
    for (std::size_t i = 0; i < probes.size(); ++i) {
      EXPECT_EQ(narrowed[i], double_to_element(static_cast<double>(probes[i]), type)) << probes[i];
    }
    for (std::int64_t count = 0; count < 40; ++count) {
      std::vector<float> part(41, -1);
      elements_to_floats(bits.data() + 0x3c00, part.data(), count, type);
      for (std::int64_t i = 0; i < 41; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(part[at], i < count ? floats[0x3c00 + at] : -1);
      }
    }
  }
}

TEST(GuardedBufferTest, SeesWritesBesideTheDataAndMoves) {
  for (const auto flush : {GuardedBuffer::Flush::start, GuardedBuffer::Flush::end}) {
    GuardedBuffer buffer(1000, flush, 2);
    EXPECT_FALSE(buffer.broken_canary().has_value());
    std::fill_n(buffer.data(), 1000, std::uint8_t{0});
    EXPECT_FALSE(buffer.broken_canary().has_value());
    const bool at_end = flush == GuardedBuffer::Flush::end;
    buffer.data()[at_end ? -3 : 1002] = 0;
    ASSERT_TRUE(buffer.broken_canary().has_value());
    EXPECT_EQ(*buffer.broken_canary(), at_end ? "3 bytes before the start" : "2 bytes past the end");
  }
  EXPECT_DEATH({ GuardedBuffer(1000, GuardedBuffer::Flush::end, 1).data()[1000] = 0; }, "");
  EXPECT_DEATH({ GuardedBuffer(1000, GuardedBuffer::Flush::start, 1).data()[-1] = 0; }, "");
}

TEST(ThreadPoolTest, RunsEveryThreadOnceAndParks) {
  ThreadPool pool(3);
  for (int call = 0; call < 200; ++call) {
    const int count = 1 + call % 3;
    std::atomic<int> mask{0};
    pool.run(
        count, [&](int thread) { mask |= 1 << thread; }, call % 2 == 0);
    EXPECT_EQ(mask.load(), (1 << count) - 1);
    if (call % 50 == 0) pool.park();
  }
}

TEST(SpinBarrierTest, SeparatesPhases) {
  ThreadPool pool(3);
  SpinBarrier barrier(3);
  std::atomic<int> arrived{0};
  std::atomic<bool> early{false};
  pool.run(3, [&](int) {
    for (int phase = 1; phase <= 100; ++phase) {
      ++arrived;
      barrier.wait();
      if (arrived.load() < 3 * phase) early = true;
      barrier.wait();
    }
  });
  EXPECT_FALSE(early);
  EXPECT_EQ(arrived.load(), 300);
}

struct Operands {
  std::vector<std::uint16_t> a, b, c;
};

// Correctly rounded results by the plain definition, in every layout.
Operands operands_of(const Problem& problem, InputKind kind) {
  const InputSpec spec{kind, 3, problem.m, problem.n, problem.k, problem.element};
  Operands result;
  result.a.resize(static_cast<std::size_t>(problem.m * problem.k));
  result.b.resize(static_cast<std::size_t>(problem.k * problem.n));
  generate_a(spec, problem.a_is_k_major(), result.a.data());
  generate_b(spec, problem.b_is_k_major(), result.b.data());
  for (std::int64_t i = 0; i < problem.m; ++i) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < problem.k; ++k) {
        sum += element_to_double(input_a(spec, i, k), problem.element) *
               element_to_double(input_b(spec, k, j), problem.element);
      }
      result.c.push_back(double_to_element(sum, problem.element));
    }
  }
  return result;
}

std::vector<std::int64_t> all_rows(std::int64_t m) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(m));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

TEST(ReferenceTest, AcceptsRightResultsInEveryLayoutAndRejectsEveryWrongElement) {
  for (const Layout layout : {Layout::nn, Layout::tn, Layout::tt, Layout::nt}) {
    for (const Shape shape : {Shape{1, 1, 1}, Shape{67, 9, 300}, Shape{5, 70, 257}, Shape{64, 64, 64}}) {
      Problem problem{shape.m, shape.n, shape.k, layout};
      auto operands = operands_of(problem, InputKind::normal);
      const Reference reference(problem, all_rows(problem.m), operands.a.data(), operands.b.data());
      const CheckReport right = reference.check(Criterion::bound, operands.c.data());
      EXPECT_TRUE(right.passed) << to_string(problem) << " " << right.detail;
      EXPECT_LE(right.worst_error, 1.001);
      EXPECT_TRUE(reference.check(Criterion::exact, operands.c.data()).passed);
      for (std::size_t e = 0; e < operands.c.size(); e += 1 + operands.c.size() / 50) {
        const std::uint16_t before = operands.c[e];
        operands.c[e] = double_to_element(element_to_double(before, problem.element) + 1, problem.element);
        const CheckReport wrong = reference.check(Criterion::bound, operands.c.data());
        EXPECT_EQ(wrong.bad, 1) << to_string(problem) << " element " << e;
        const auto at = static_cast<std::int64_t>(e);
        EXPECT_EQ(
            wrong.detail.rfind("C(" + std::to_string(at / problem.n) + ", " + std::to_string(at % problem.n) + ")", 0),
            0u)
            << wrong.detail;
        operands.c[e] = before;
      }
    }
  }
}

TEST(ReferenceTest, EveryKindOfInputHasItsRightAnswer) {
  for (const ElementType element : {ElementType::f16, ElementType::bf16}) {
    for (const InputKind kind :
         {InputKind::normal, InputKind::uniform, InputKind::positive, InputKind::wide_range, InputKind::large,
          InputKind::subnormal, InputKind::special, InputKind::zero_one, InputKind::accumulator}) {
      const Problem problem{20, 30, 100, Layout::nn, element};
      const auto operands = operands_of(problem, kind);
      const Reference reference(problem, all_rows(problem.m), operands.a.data(), operands.b.data());
      const CheckReport report = reference.check(Criterion::bound, operands.c.data());
      EXPECT_TRUE(report.passed) << to_string(kind) << " " << report.detail;
    }
  }
}

// 65519.992 rounds to 65504, and an error within the bound takes it to 65520, which rounds to infinity.
TEST(ReferenceTest, AnInfinityThatMayBeRightHasNoErrorRatio) {
  const Problem problem{1, 1, 2};
  const auto element = [&](double value) { return double_to_element(value, problem.element); };
  const std::uint16_t a[] = {element(255.875), element(15.9921875)}, b[] = {element(256), element(1)};
  const Reference reference(problem, {0}, a, b);
  for (const double value : {65504.0, std::numeric_limits<double>::infinity()}) {
    const std::uint16_t c = element(value);
    const CheckReport report = reference.check(Criterion::bound, &c);
    EXPECT_TRUE(report.passed) << report.detail;
    EXPECT_LE(report.worst_error, 1.001) << value;
  }
  const std::uint16_t wrong = element(-std::numeric_limits<double>::infinity());
  EXPECT_FALSE(reference.check(Criterion::bound, &wrong).passed);
}

TEST(ReferenceTest, FollowsRotatedRows) {
  const Problem problem{10, 12, 40};
  const auto operands = operands_of(problem, InputKind::normal);
  const Reference reference(problem, all_rows(10), operands.a.data(), operands.b.data());
  auto rotated = operands.c;
  std::rotate(rotated.begin(), rotated.begin() + 3 * 12, rotated.end());
  EXPECT_TRUE(reference.check(Criterion::bound, rotated.data(), 3).passed);
  EXPECT_FALSE(reference.check(Criterion::bound, rotated.data(), 0).passed);
}

TEST(ReferenceTest, LargeProblemsCheckADeclaredSampleWithTheEdges) {
  const Problem small{100, 100, 100}, large{8192, 8192, 8192};
  EXPECT_EQ(reference_rows(small, 1), all_rows(100));
  const auto rows = reference_rows(large, 1);
  EXPECT_LT(rows.size(), 200u);
  EXPECT_GE(rows.size(), 32u);
  const std::set<std::int64_t> set(rows.begin(), rows.end());
  for (const std::int64_t row : {0, 1, 2, 3, 8188, 8189, 8190, 8191}) EXPECT_TRUE(set.count(row)) << row;
  EXPECT_NE(rows, reference_rows(large, 2));
  const Problem sampled{50, 40, 30};
  const auto operands = operands_of(sampled, InputKind::normal);
  const Reference reference(sampled, {0, 7, 49}, operands.a.data(), operands.b.data());
  const CheckReport report = reference.check(Criterion::bound, operands.c.data());
  EXPECT_TRUE(report.passed);
  EXPECT_EQ(report.detail, "checked 3 of 50 rows");
}

TEST(TimingSetsTest, HoldRotatedCopiesInBothOrders) {
  const Problem problem{10, 12, 40};
  TimingSets sets(problem, 3, 100000);
  EXPECT_GE(sets.count() * problem.bytes(), 200000);
  const auto operands = operands_of(problem, InputKind::normal);
  for (int set = 0; set < sets.count(); set += 7) {
    const std::int64_t shift = sets.row_shift(set);
    for (std::int64_t i = 0; i < 10; ++i) {
      for (std::int64_t k = 0; k < 40; ++k) {
        const std::uint16_t expected = operands.a[static_cast<std::size_t>((i + shift) % 10 * 40 + k)];
        ASSERT_EQ(sets.a(true, set)[i * 40 + k], expected);
        ASSERT_EQ(sets.a(false, set)[k * 10 + i], expected);
      }
    }
    for (std::int64_t k = 0; k < 40; ++k) {
      for (std::int64_t j = 0; j < 12; ++j) {
        ASSERT_EQ(sets.b(false, set)[k * 12 + j], operands.b[static_cast<std::size_t>(k * 12 + j)]);
        ASSERT_EQ(sets.b(true, set)[j * 40 + k], operands.b[static_cast<std::size_t>(k * 12 + j)]);
      }
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(sets.a(true, set)) % 64, 0u);
  }
}

TEST(MachineFacts, AreMeasured) {
  ThreadPool pool(1);
  const Machine machine = measure_machine(pool);
  EXPECT_EQ(machine.kind, "cpu");
  EXPECT_FALSE(machine.name.empty());
  EXPECT_GT(machine.peak_gflops, 1);
  EXPECT_GT(machine.peak_gb_per_s, 0.1);
  EXPECT_EQ(machine.units, 1);
}

}  // namespace
}  // namespace warpsmith
