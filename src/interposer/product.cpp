// From cuBLAS's orders to rows.
#include "interposer/product.h"

#include <algorithm>

namespace warpsmith::interposer {

namespace {

// Whether the matrix lies in row order as what its operation makes of it, and not as the transpose of that.
bool lies_in_rows(const StoredMatrix& matrix) { return (matrix.order == Order::row) != matrix.transposed; }

// Elements of a stored row or column: what the leading dimension must hold.
std::int64_t line(const StoredMatrix& matrix) { return matrix.order == Order::row ? matrix.columns : matrix.rows; }

bool holds(const StoredMatrix& matrix) { return matrix.ld >= std::max<std::int64_t>(line(matrix), 1); }

warpsmith_op_t op(bool plain) { return plain ? WARPSMITH_OP_N : WARPSMITH_OP_T; }

}  // namespace

RowMajor to_row_major(const Product& product) {
  RowMajor mapped;
  const std::int64_t m = product.d.rows, n = product.d.columns, k = product.a.result_columns();
  if (m <= 0 || n <= 0 || k <= 0 || product.batch_count <= 0) {
    mapped.refusal = "empty";
    return mapped;
  }
  if (product.a.result_rows() != m || product.b.result_columns() != n || product.b.result_rows() != k) {
    mapped.refusal = "sizes";
    return mapped;
  }
  if (!holds(product.a) || !holds(product.b) || !holds(product.d)) {
    mapped.refusal = "leading dimension";
    return mapped;
  }
  mapped.swapped = product.d.order == Order::column;
  const StoredMatrix& left = mapped.swapped ? product.b : product.a;
  const StoredMatrix& right = mapped.swapped ? product.a : product.b;
  warpsmith_problem_t& problem = mapped.problem;
  problem.op_a = op(lies_in_rows(left) != mapped.swapped);
  problem.op_b = op(lies_in_rows(right) != mapped.swapped);
  problem.type = product.type;
  problem.compute = WARPSMITH_COMPUTE_32F;
  problem.m = mapped.swapped ? n : m;
  problem.n = mapped.swapped ? m : n;
  problem.k = k;
  problem.lda = left.ld;
  problem.ldb = right.ld;
  problem.ldc = product.d.ld;
  problem.batch_count = product.batch_count;
  if (product.batch_count == 1) return mapped;
  if (left.stride < 0 || right.stride < 0 || product.d.stride <= 0) {
    mapped.refusal = "batch stride";
    return mapped;
  }
  problem.stride_a = left.stride;
  problem.stride_b = right.stride;
  problem.stride_c = product.d.stride;
  return mapped;
}

Product column_major_product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                             std::int64_t lda, std::int64_t ldb, std::int64_t ldc) {
  Product product;
  product.a = {Order::column, transpose_a, transpose_a ? k : m, transpose_a ? m : k, lda, 0};
  product.b = {Order::column, transpose_b, transpose_b ? n : k, transpose_b ? k : n, ldb, 0};
  product.d = {Order::column, false, m, n, ldc, 0};
  return product;
}

}  // namespace warpsmith::interposer
