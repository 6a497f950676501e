// Validity of calls, and what they mean as a Problem.
#include "library/call.h"

#include <algorithm>

namespace warpsmith::library {

namespace {

constexpr int kElementBytes = 2;

bool fits(std::int64_t a, std::int64_t b) { return a == 0 || b < kMaxCallProduct / a; }

Layout layout_of(std::uint32_t flags) {
  const bool a_k_major = (flags & kCallTransposeA) == 0, b_k_major = (flags & kCallTransposeB) != 0;
  if (a_k_major) return b_k_major ? Layout::tn : Layout::nn;
  return b_k_major ? Layout::tt : Layout::nt;
}

std::int64_t a_columns(const CallKey& key) { return (key.flags & kCallTransposeA) != 0 ? key.m : key.k; }
std::int64_t b_columns(const CallKey& key) { return (key.flags & kCallTransposeB) != 0 ? key.k : key.n; }
std::int64_t a_rows(const CallKey& key) { return (key.flags & kCallTransposeA) != 0 ? key.k : key.m; }
std::int64_t b_rows(const CallKey& key) { return (key.flags & kCallTransposeB) != 0 ? key.n : key.k; }

Refusal invalid(const char* reason) { return {WARPSMITH_STATUS_INVALID_VALUE, reason}; }

std::optional<Refusal> check_batch(const CallKey& key) {
  if (key.batch_count < 0) return invalid("batch_count is negative");
  if (key.batch_count <= 1) return std::nullopt;
  if (key.stride_a < 0 || key.stride_b < 0 || key.stride_c < 0) return invalid("a stride is negative");
  for (const std::int64_t stride : {key.stride_a, key.stride_b, key.stride_c}) {
    if (!fits(stride, key.batch_count)) return invalid("a stride times batch_count is 2^62 or more");
  }
  const bool elements = key.m > 0 && key.n > 0;
  if (!elements) return std::nullopt;
  // Matrices of C may lie behind one another, or side by side within the rows of one wide matrix.
  const bool behind = key.stride_c >= (key.m - 1) * key.ldc + key.n;
  const bool beside = key.stride_c >= key.n && (key.batch_count - 1) * key.stride_c + key.n <= key.ldc;
  if (!behind && !beside) return invalid("stride_c lets two matrices C overlap");
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> check_sizes(const CallKey& key) {
  if (key.m < 0 || key.n < 0 || key.k < 0) return invalid("m, n or k is negative");
  if (key.lda < std::max<std::int64_t>(1, a_columns(key))) {
    return invalid("lda is smaller than the stored column count of A (k for op N, m for op T)");
  }
  if (key.ldb < std::max<std::int64_t>(1, b_columns(key))) {
    return invalid("ldb is smaller than the stored column count of B (n for op N, k for op T)");
  }
  if (key.ldc < std::max<std::int64_t>(1, key.n)) return invalid("ldc is smaller than n");
  if (!fits(key.m, key.n) || !fits(a_rows(key), key.lda) || !fits(b_rows(key), key.ldb) || !fits(key.m, key.ldc)) {
    return invalid("a matrix has 2^62 elements or more");
  }
  if ((key.flags & kCallBf16) != 0 && (key.flags & kCallCompute16) != 0) {
    return Refusal{WARPSMITH_STATUS_NOT_SUPPORTED, "WARPSMITH_COMPUTE_16F takes FP16 elements only"};
  }
  return check_batch(key);
}

std::optional<Refusal> key_of(const warpsmith_problem_t& problem, CallKey& key) {
  if (!known_enumerators(problem.op_a, problem.op_b, problem.type, problem.compute)) {
    return invalid("op_a, op_b, type or compute is none of its enumerators");
  }
  for (const std::int64_t field : problem.reserved) {
    if (field != 0) return invalid("a reserved field of the problem is not zero");
  }
  key = {};
  key.flags = enumerator_flags(problem.op_a, problem.op_b, problem.type, problem.compute);
  key.m = problem.m;
  key.n = problem.n;
  key.k = problem.k;
  const auto resolved = [](std::int64_t ld, std::int64_t columns) {
    return ld == 0 ? std::max<std::int64_t>(1, columns) : ld;
  };
  key.lda = resolved(problem.lda, a_columns(key));
  key.ldb = resolved(problem.ldb, b_columns(key));
  key.ldc = resolved(problem.ldc, key.n);
  key.batch_count = problem.batch_count == 0 ? 1 : problem.batch_count;
  if (key.batch_count > 1) {
    key.stride_a = problem.stride_a;
    key.stride_b = problem.stride_b;
    key.stride_c = problem.stride_c;
  }
  return check_sizes(key);
}

std::optional<Problem> problem_of(const CallKey& key) {
  Problem problem;
  problem.m = key.m;
  problem.n = key.n;
  problem.k = key.k;
  problem.layout = layout_of(key.flags);
  problem.element = (key.flags & kCallBf16) != 0 ? ElementType::bf16 : ElementType::f16;
  problem.scaling = (key.flags & kCallScaled) != 0 ? Scaling::alpha_beta : Scaling::none;
  // Of one row or less the stride has no meaning; packed then, which more kernels take.
  problem.lda = problem.a_rows() <= 1 || key.lda == problem.a_cols() ? 0 : key.lda;
  problem.ldb = problem.b_rows() <= 1 || key.ldb == problem.b_cols() ? 0 : key.ldb;
  problem.ldc = problem.m <= 1 || key.ldc == problem.n ? 0 : key.ldc;
  const bool in_range = [&] {
    for (const std::int64_t size : {key.m, key.n, key.k}) {
      if (size < 1 || size > kMaxDimension) return false;
    }
    for (const std::int64_t extent : {problem.a_extent(), problem.b_extent(), problem.c_extent()}) {
      if (extent > kMaxElements) return false;
    }
    return true;
  }();
  return in_range ? std::optional(problem) : std::nullopt;
}

bool strides_keep_alignment(const CallKey& key) {
  constexpr std::int64_t kElements = kOperandAlign / kElementBytes;
  return key.stride_a % kElements == 0 && key.stride_b % kElements == 0 && key.stride_c % kElements == 0;
}

const char* phrase_of(warpsmith_status_t status) {
  switch (status) {
    case WARPSMITH_STATUS_SUCCESS:
      return "success";
    case WARPSMITH_STATUS_NOT_INITIALIZED:
      return "the handle or plan is null";
    case WARPSMITH_STATUS_INVALID_VALUE:
      return "an argument is out of its range";
    case WARPSMITH_STATUS_NOT_SUPPORTED:
      return "no kernel and not cuBLASLt takes this problem";
    case WARPSMITH_STATUS_NOT_COVERED:
      return "cuBLASLt would run this problem, but the fallback is off";
    case WARPSMITH_STATUS_WRONG_DEVICE:
      return "the current device is not the handle's";
    case WARPSMITH_STATUS_NO_DEVICE:
      return "no CUDA driver or no usable GPU";
    case WARPSMITH_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case WARPSMITH_STATUS_LAUNCH_FAILED:
      return "CUDA or cuBLASLt refused the launch";
    case WARPSMITH_STATUS_BUFFER_TOO_SMALL:
      return "the buffer is too small";
    case WARPSMITH_STATUS_INTERNAL_ERROR:
      return "internal error";
    case WARPSMITH_STATUS_MAX_VALUE:
      break;
  }
  return "unknown status";
}

}  // namespace warpsmith::library
