// Problem: what a kernel must compute, C[m,n] = A[m,k] * B[k,n], with its operand layout, types, leading dimensions and
// scaling.
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

// none: C = A B.  alpha_beta: C = alpha A B + beta C, with alpha and beta given at run time as floats; beta = 0 never
// reads C, so that NaN there does not matter.
enum class Scaling { none, alpha_beta };

struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  Layout layout = Layout::nn;
  ElementType element = ElementType::f16;
  AccumulatorType accumulator = AccumulatorType::f32;
  Scaling scaling = Scaling::none;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // elements from row to row of the matrices as stored; 0: packed

  // A leading dimension of 0 and one that says the same in digits are equal.
  bool operator==(const Problem& other) const {
    return m == other.m && n == other.n && k == other.k && layout == other.layout && element == other.element &&
           accumulator == other.accumulator && scaling == other.scaling && a_ld() == other.a_ld() &&
           b_ld() == other.b_ld() && c_ld() == other.c_ld();
  }

  bool a_is_k_major() const { return layout == Layout::tn || layout == Layout::nn; }
  bool b_is_k_major() const { return layout == Layout::tn || layout == Layout::tt; }
  bool scaled() const { return scaling == Scaling::alpha_beta; }
  // Rows and columns of the operands as stored, row-major; C has m rows and n columns.
  std::int64_t a_rows() const { return a_is_k_major() ? m : k; }
  std::int64_t a_cols() const { return a_is_k_major() ? k : m; }
  std::int64_t b_rows() const { return b_is_k_major() ? n : k; }
  std::int64_t b_cols() const { return b_is_k_major() ? k : n; }
  // Elements from row to row.
  std::int64_t a_ld() const { return lda == 0 ? a_cols() : lda; }
  std::int64_t b_ld() const { return ldb == 0 ? b_cols() : ldb; }
  std::int64_t c_ld() const { return ldc == 0 ? n : ldc; }
  bool packed() const { return a_ld() == a_cols() && b_ld() == b_cols() && c_ld() == n; }
  // Elements from the first to the last, the gaps between rows included.
  std::int64_t a_extent() const { return (a_rows() - 1) * a_ld() + a_cols(); }
  std::int64_t b_extent() const { return (b_rows() - 1) * b_ld() + b_cols(); }
  std::int64_t c_extent() const { return (m - 1) * c_ld() + n; }

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  // Fewest bytes through memory: each operand read once, and C where beta scales it; C written once.
  double bytes_read() const {
    const auto md = static_cast<double>(m), nd = static_cast<double>(n), kd = static_cast<double>(k);
    return 2.0 * (md * kd + kd * nd + (scaled() ? md * nd : 0));
  }
  double bytes_written() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n); }
  double bytes() const { return bytes_read() + bytes_written(); }
};

inline constexpr std::int64_t kMaxDimension = 1 << 20;   // of each of m, n, k
inline constexpr std::int64_t kMaxElements = 1LL << 31;  // of each matrix with its gaps: indices fit 32 bits in kernels

std::string_view to_string(Layout);
std::string_view to_string(ElementType);
std::string_view to_string(AccumulatorType);
Result<Layout> parse_layout(std::string_view text);
Result<ElementType> parse_element(std::string_view text);
Result<AccumulatorType> parse_accumulator(std::string_view text);

// "4096x4096x1024 tn f16 f32": sizes, layout, element, accumulator, of which the last may be left out and take their
// defaults; then, where they say something, "scaled" and "ld=LDA,LDB,LDC" (0: packed), as in
// "1024x512x256 tn f16 f32 scaled ld=264,264,520". parse_problem(to_string(p)) == p.
std::string to_string(const Problem& problem);
Result<Problem> parse_problem(std::string_view text);

// "LDA,LDB,LDC", for the sizes and the layout of `problem`, which is returned with them. Error (bad_input): not three
// numbers, or what check_leading_dimensions() refuses.
Result<Problem> with_leading_dimensions(Problem problem, std::string_view text);

// Error (bad_input): a leading dimension smaller than its column count, or a matrix of more than kMaxElements, gaps
// included.
Status check_leading_dimensions(const Problem& problem);

// Sizes alone, as "MxNxK", "M_N_K" or "M N K". Error (bad_input): not three positive integers within kMaxDimension, or
// a matrix of more than kMaxElements.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  bool operator==(const Shape&) const = default;
};
Result<Shape> parse_shape(std::string_view text);

}  // namespace warpsmith
