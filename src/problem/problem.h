// Problem: what a kernel must compute, C[m,n] = A[m,k] * B[k,n], with its operand layout and types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warpsmith {

// How the operands are stored, in cuBLAS's words for row-major A and C: the first letter is A's, the second B's.
//   tn  A stored m x k, B stored n x k: both K-major      nn  A stored m x k, B stored k x n
//   tt  A stored k x m, B stored n x k                    nt  A stored k x m, B stored k x n
enum class Layout { tn, nn, tt, nt };
enum class ElementType { f16, bf16 };
enum class AccumulatorType { f32, f16 };

struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  Layout layout = Layout::nn;
  ElementType element = ElementType::f16;
  AccumulatorType accumulator = AccumulatorType::f32;

  bool operator==(const Problem&) const = default;

  bool a_is_k_major() const { return layout == Layout::tn || layout == Layout::nn; }
  bool b_is_k_major() const { return layout == Layout::tn || layout == Layout::tt; }
  // Rows and columns of the operands as stored, row-major; every leading dimension equals the column count.
  std::int64_t a_rows() const { return a_is_k_major() ? m : k; }
  std::int64_t a_cols() const { return a_is_k_major() ? k : m; }
  std::int64_t b_rows() const { return b_is_k_major() ? n : k; }
  std::int64_t b_cols() const { return b_is_k_major() ? k : n; }

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  // Fewest bytes through memory: each operand read once, C written once.
  double bytes() const {
    const auto md = static_cast<double>(m), nd = static_cast<double>(n), kd = static_cast<double>(k);
    return 2.0 * (md * kd + kd * nd + md * nd);
  }
};

inline constexpr std::int64_t kMaxDimension = 1 << 20;   // of each of m, n, k
inline constexpr std::int64_t kMaxElements = 1LL << 31;  // of each matrix: indices fit 32 bits in kernels

std::string_view to_string(Layout);
std::string_view to_string(ElementType);
std::string_view to_string(AccumulatorType);
Result<Layout> parse_layout(std::string_view text);
Result<ElementType> parse_element(std::string_view text);
Result<AccumulatorType> parse_accumulator(std::string_view text);

// "4096x4096x1024 tn f16 f32": sizes, layout, element, accumulator. parse_problem(to_string(p)) == p; trailing words
// may be left out and take their defaults.
std::string to_string(const Problem& problem);
Result<Problem> parse_problem(std::string_view text);

// Sizes alone, as "MxNxK", "M_N_K" or "M N K". Error (bad_input): not three positive integers within kMaxDimension, or
// a matrix of more than kMaxElements.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  bool operator==(const Shape&) const = default;
};
Result<Shape> parse_shape(std::string_view text);

}  // namespace warpsmith
