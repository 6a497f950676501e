// One body, compiled for three instruction sets. Vectors run along columns; a block of rows and columns stays in
// registers over the whole depth. The vectors are written out: left to itself, GCC 12 takes half of AVX2's and spills.
#include "policy/embedded/matmul.h"

#include <algorithm>
#include <cmath>

namespace warpsmith::embedded {

namespace {

#define WARPSMITH_INLINE inline __attribute__((always_inline))

// So many floats, wherever they lie in memory.
template <std::size_t kLanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));
};

template <std::size_t kLanes, std::size_t kRows, std::size_t kVectors>
WARPSMITH_INLINE void block(const float* x, std::size_t depth, const float* w, std::size_t columns, float* y,
                            bool add) {
  using Vector = typename VectorOf<kLanes>::type;
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVectors; ++j) {
      sum[i][j] = add ? *reinterpret_cast<const Vector*>(y + i * columns + j * kLanes) : Vector{};
    }
  }
  for (std::size_t k = 0; k < depth; ++k) {
    Vector weights[kVectors];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVectors; ++j) {
      weights[j] = *reinterpret_cast<const Vector*>(w + k * columns + j * kLanes);
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      const float scale = x[i * depth + k];
#pragma GCC unroll 8
      for (std::size_t j = 0; j < kVectors; ++j) sum[i][j] += scale * weights[j];
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVectors; ++j) {
      *reinterpret_cast<Vector*>(y + i * columns + j * kLanes) = sum[i][j];
    }
  }
}

// What is left of the columns goes by four, and then by one.
template <std::size_t kLanes, std::size_t kRows, std::size_t kVectors>
WARPSMITH_INLINE void rows_of(const float* x, std::size_t depth, const float* w, std::size_t columns, float* y,
                              bool add) {
  constexpr std::size_t kColumns = kLanes * kVectors;
  std::size_t j = 0;
  for (; j + kColumns <= columns; j += kColumns) block<kLanes, kRows, kVectors>(x, depth, w + j, columns, y + j, add);
  for (; j + kLanes <= columns; j += kLanes) block<kLanes, kRows, 1>(x, depth, w + j, columns, y + j, add);
  for (; j + 4 <= columns; j += 4) block<4, kRows, 1>(x, depth, w + j, columns, y + j, add);
  for (; j < columns; ++j) {
    for (std::size_t i = 0; i < kRows; ++i) {
      float sum = add ? y[i * columns + j] : 0.0f;
      for (std::size_t k = 0; k < depth; ++k) sum += x[i * depth + k] * w[k * columns + j];
      y[i * columns + j] = sum;
    }
  }
}

template <std::size_t kLanes>
WARPSMITH_INLINE void multiply_body(const float* x, std::size_t rows, std::size_t depth, const float* w,
                                    std::size_t columns, float* y, bool add) {
  std::size_t i = 0;
  for (; i + 4 <= rows; i += 4) rows_of<kLanes, 4, 2>(x + i * depth, depth, w, columns, y + i * columns, add);
  for (; i < rows; ++i) rows_of<kLanes, 1, 8>(x + i * depth, depth, w, columns, y + i * columns, add);
}

template <std::size_t kLanes>
WARPSMITH_INLINE float dot_body(const float* a, const float* b, std::size_t count) {
  using Vector = typename VectorOf<kLanes>::type;
  constexpr std::size_t kParts = 16, kVectors = kParts / kLanes;
  Vector part[kVectors] = {};
  std::size_t i = 0;
  for (; i + kParts <= count; i += kParts) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVectors; ++j) {
      part[j] +=
          *reinterpret_cast<const Vector*>(a + i + j * kLanes) * *reinterpret_cast<const Vector*>(b + i + j * kLanes);
    }
  }
  float sum = 0;
  for (std::size_t j = 0; j < kParts; ++j) sum += part[j / kLanes][j % kLanes];
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <std::size_t kLanes>
WARPSMITH_INLINE void attend_body(const float* query, const float* keys, const float* values, std::size_t count,
                                  std::size_t stride, std::size_t size, float* scores, float* out) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  float largest = -INFINITY;
  for (std::size_t t = 0; t < count; ++t) {
    scores[t] = scale * dot_body<kLanes>(query, keys + t * stride, size);
    largest = std::max(largest, scores[t]);
  }
  float total = 0;
  for (std::size_t t = 0; t < count; ++t) {
    scores[t] = std::exp(scores[t] - largest);
    total += scores[t];
  }
  for (std::size_t j = 0; j < size; ++j) out[j] = 0;
  for (std::size_t t = 0; t < count; ++t) {
    const float share = scores[t] / total;
    for (std::size_t j = 0; j < size; ++j) out[j] += share * values[t * stride + j];
  }
}

#define WARPSMITH_ARITHMETIC(suffix, lanes, attribute)                                                                 \
  attribute void multiply_##suffix(const float* x, std::size_t rows, std::size_t depth, const float* w, std::size_t n, \
                                   float* y, bool add) {                                                               \
    multiply_body<lanes>(x, rows, depth, w, n, y, add);                                                                \
  }                                                                                                                    \
  attribute void attend_##suffix(const float* query, const float* keys, const float* values, std::size_t count,        \
                                 std::size_t stride, std::size_t size, float* scores, float* out) {                    \
    attend_body<lanes>(query, keys, values, count, stride, size, scores, out);                                         \
  }                                                                                                                    \
  attribute float dot_##suffix(const float* a, const float* b, std::size_t count) {                                    \
    return dot_body<lanes>(a, b, count);                                                                               \
  }

WARPSMITH_ARITHMETIC(plain, 4, )
#if defined(__x86_64__)
WARPSMITH_ARITHMETIC(avx2, 8, __attribute__((target("avx2,fma"))))
WARPSMITH_ARITHMETIC(avx512, 16, __attribute__((target("avx512f,avx512vl,avx512dq,prefer-vector-width=512"))))
#endif

constexpr Arithmetic kPlain = {"plain", multiply_plain, attend_plain, dot_plain};
#if defined(__x86_64__)
constexpr Arithmetic kAvx2 = {"avx2", multiply_avx2, attend_avx2, dot_avx2};
constexpr Arithmetic kAvx512 = {"avx512", multiply_avx512, attend_avx512, dot_avx512};
#endif

}  // namespace

const Arithmetic& portable_arithmetic() { return kPlain; }

const Arithmetic& arithmetic() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kPlain;
}

}  // namespace warpsmith::embedded
