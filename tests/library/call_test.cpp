// Calls as keys: what is refused, what a call means as a Problem.
#include "library/call.h"

#include <gtest/gtest.h>

#include <limits>

namespace warpsmith::library {
namespace {

warpsmith_problem_t problem(std::int64_t m, std::int64_t n, std::int64_t k) {
  warpsmith_problem_t made{};
  made.m = m;
  made.n = n;
  made.k = k;
  return made;
}

CallKey key_for(const warpsmith_problem_t& described) {
  CallKey key;
  const auto refusal = key_of(described, key);
  EXPECT_FALSE(refusal) << refusal->reason;
  return key;
}

warpsmith_status_t status_of(const warpsmith_problem_t& described) {
  CallKey key;
  const auto refusal = key_of(described, key);
  return refusal ? refusal->status : WARPSMITH_STATUS_SUCCESS;
}

TEST(CallKey, LeadingDimensionsOfZeroArePacked) {
  const CallKey key = key_for(problem(3, 5, 7));
  EXPECT_EQ(key.lda, 7);
  EXPECT_EQ(key.ldb, 5);
  EXPECT_EQ(key.ldc, 5);
  warpsmith_problem_t transposed = problem(3, 5, 7);
  transposed.op_a = transposed.op_b = WARPSMITH_OP_T;
  EXPECT_EQ(key_for(transposed).lda, 3);
  EXPECT_EQ(key_for(transposed).ldb, 7);
}

TEST(CallKey, EveryFieldMakesAnotherKey) {
  warpsmith_problem_t base = problem(64, 64, 64);
  base.batch_count = 2;
  base.stride_a = base.stride_b = base.stride_c = 4096;
  const CallKey key = key_for(base);
  const auto changed = [&](auto change) {
    warpsmith_problem_t other = base;
    change(other);
    return !(key_for(other) == key) && hash_of(key_for(other)) != hash_of(key);
  };
  EXPECT_TRUE(changed([](auto& p) { p.m = 32; }));
  EXPECT_TRUE(changed([](auto& p) { p.n = 32; }));
  EXPECT_TRUE(changed([](auto& p) { p.k = 32; }));
  EXPECT_TRUE(changed([](auto& p) { p.lda = 72; }));
  EXPECT_TRUE(changed([](auto& p) { p.ldb = 72; }));
  EXPECT_TRUE(changed([](auto& p) { p.ldc = 64 * 64, p.stride_c = 64; }));
  EXPECT_TRUE(changed([](auto& p) { p.stride_a = 8192; }));
  EXPECT_TRUE(changed([](auto& p) { p.stride_b = 8192; }));
  EXPECT_TRUE(changed([](auto& p) { p.stride_c = 8192; }));
  EXPECT_TRUE(changed([](auto& p) { p.batch_count = 3; }));
  EXPECT_TRUE(changed([](auto& p) { p.op_a = WARPSMITH_OP_T; }));
  EXPECT_TRUE(changed([](auto& p) { p.op_b = WARPSMITH_OP_T; }));
  EXPECT_TRUE(changed([](auto& p) { p.type = WARPSMITH_BF16; }));
  EXPECT_TRUE(changed([](auto& p) { p.compute = WARPSMITH_COMPUTE_16F; }));
}

TEST(CallKey, RefusesBadSizes) {
  EXPECT_EQ(status_of(problem(0, 0, 0)), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(status_of(problem(-1, 1, 1)), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(status_of(problem(1, -1, 1)), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(status_of(problem(1, 1, -1)), WARPSMITH_STATUS_INVALID_VALUE);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(status_of(problem(most, most, 1)), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(status_of(problem(1, most, most)), WARPSMITH_STATUS_INVALID_VALUE);
}

TEST(CallKey, RefusesShortLeadingDimensions) {
  for (const bool transpose : {false, true}) {
    warpsmith_problem_t p = problem(8, 16, 32);
    p.op_a = p.op_b = transpose ? WARPSMITH_OP_T : WARPSMITH_OP_N;
    const std::int64_t a_columns = transpose ? 8 : 32, b_columns = transpose ? 32 : 16;
    p.lda = a_columns;
    p.ldb = b_columns;
    p.ldc = 16;
    EXPECT_EQ(status_of(p), WARPSMITH_STATUS_SUCCESS);
    --p.lda;
    EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
    ++p.lda;
    --p.ldb;
    EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
    ++p.ldb;
    --p.ldc;
    EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  }
  warpsmith_problem_t negative = problem(8, 8, 8);
  negative.lda = -8;
  EXPECT_EQ(status_of(negative), WARPSMITH_STATUS_INVALID_VALUE);
}

TEST(CallKey, RefusesUnknownEnumeratorsAndReservedFields) {
  warpsmith_problem_t p = problem(8, 8, 8);
  p.op_a = static_cast<warpsmith_op_t>(2);
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p = problem(8, 8, 8);
  p.type = static_cast<warpsmith_type_t>(-1);
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p = problem(8, 8, 8);
  p.compute = static_cast<warpsmith_compute_t>(7);
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p = problem(8, 8, 8);
  p.reserved[3] = 1;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p = problem(8, 8, 8);
  p.type = WARPSMITH_BF16;
  p.compute = WARPSMITH_COMPUTE_16F;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_NOT_SUPPORTED);
}

TEST(CallKey, RefusesBatchesWhoseResultsOverlap) {
  warpsmith_problem_t p = problem(4, 8, 8);
  p.batch_count = 3;
  p.stride_c = 32;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_SUCCESS);
  p.stride_c = 31;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p.stride_c = 8;  // side by side in rows of 24
  p.ldc = 24;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_SUCCESS);
  p.ldc = 23;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p = problem(4, 8, 8);
  p.batch_count = -1;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p.batch_count = 2;
  p.stride_c = 32;
  p.stride_a = -1;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
  p.stride_a = 0;  // a shared operand
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_SUCCESS);
  p.stride_c = 1LL << 61;
  EXPECT_EQ(status_of(p), WARPSMITH_STATUS_INVALID_VALUE);
}

TEST(Pointers, NullAndOdd) {
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  EXPECT_FALSE(check_pointers(at(16), at(32), at(64), true));
  EXPECT_TRUE(check_pointers(nullptr, at(32), at(64), true));
  EXPECT_TRUE(check_pointers(at(16), nullptr, at(64), true));
  EXPECT_TRUE(check_pointers(at(16), at(32), nullptr, true));
  EXPECT_TRUE(check_pointers(at(17), at(32), at(64), true));
  EXPECT_TRUE(check_pointers(at(16), at(32), at(65), true));
  EXPECT_FALSE(check_pointers(at(18), at(34), at(66), true));
  EXPECT_FALSE(check_pointers(nullptr, nullptr, at(64), false));
  EXPECT_TRUE(check_pointers(nullptr, nullptr, nullptr, false));
}

TEST(ProblemOf, LayoutFollowsTheOps) {
  const auto layout = [](warpsmith_op_t a, warpsmith_op_t b) {
    warpsmith_problem_t p = problem(16, 32, 64);
    p.op_a = a;
    p.op_b = b;
    return problem_of(key_for(p))->layout;
  };
  EXPECT_EQ(layout(WARPSMITH_OP_N, WARPSMITH_OP_T), Layout::tn);
  EXPECT_EQ(layout(WARPSMITH_OP_N, WARPSMITH_OP_N), Layout::nn);
  EXPECT_EQ(layout(WARPSMITH_OP_T, WARPSMITH_OP_T), Layout::tt);
  EXPECT_EQ(layout(WARPSMITH_OP_T, WARPSMITH_OP_N), Layout::nt);
}

TEST(ProblemOf, CarriesTypeScalingAndStrides) {
  warpsmith_problem_t p = problem(16, 32, 64);
  p.type = WARPSMITH_BF16;
  p.lda = 72;
  CallKey key = key_for(p);
  key.flags |= kCallScaled;
  const auto made = problem_of(key);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->element, ElementType::bf16);
  EXPECT_EQ(made->accumulator, AccumulatorType::f32);
  EXPECT_EQ(made->scaling, Scaling::alpha_beta);
  EXPECT_EQ(made->a_ld(), 72);
  EXPECT_EQ(made->ldb, 0);
  EXPECT_EQ(made->ldc, 0);
}

TEST(ProblemOf, TheStrideOfASingleRowIsNoStride) {
  warpsmith_problem_t p = problem(1, 32, 64);
  p.lda = 65;
  p.ldc = 33;
  const auto made = problem_of(key_for(p));
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->packed());
}

TEST(ProblemOf, NothingBeyondWhatKernelsIndex) {
  EXPECT_TRUE(problem_of(key_for(problem(1 << 20, 16, 16))));
  EXPECT_FALSE(problem_of(key_for(problem((1 << 20) + 1, 16, 16))));
  EXPECT_FALSE(problem_of(key_for(problem(1 << 17, 1 << 15, 16))));  // 2^32 elements of C
  EXPECT_FALSE(problem_of(key_for(problem(0, 16, 16))));
}

TEST(Strides, KeepAlignment) {
  warpsmith_problem_t p = problem(4, 8, 8);
  p.batch_count = 2;
  p.stride_a = 32;
  p.stride_b = 64;
  p.stride_c = 32;
  EXPECT_TRUE(strides_keep_alignment(key_for(p)));
  p.stride_b = 68;
  EXPECT_FALSE(strides_keep_alignment(key_for(p)));
}

TEST(Phrases, EveryStatusHasItsOwn) {
  for (int status = WARPSMITH_STATUS_SUCCESS; status <= WARPSMITH_STATUS_INTERNAL_ERROR; ++status) {
    EXPECT_STRNE(phrase_of(static_cast<warpsmith_status_t>(status)), "unknown status") << status;
  }
  EXPECT_STREQ(phrase_of(static_cast<warpsmith_status_t>(99)), "unknown status");
}

}  // namespace
}  // namespace warpsmith::library
