// A matrix product as cuBLAS states it, column- or row-major, and the same product as libwarpsmith's row-major problem.
// Pure functions: no CUDA in them.
#pragma once

#include <cstdint>

#include "warpsmith/hgemm.h"

namespace warpsmith::interposer {

enum class Order { column, row };

// A matrix as stored, before its operation: element (i, j) lies at i + j * ld in column order, at i * ld + j in row
// order.
struct StoredMatrix {
  Order order = Order::column;
  bool transposed = false;  // the operation that is applied when it is read
  std::int64_t rows = 0, columns = 0, ld = 0;
  std::int64_t stride = 0;  // elements from one matrix of a batch to the next

  std::int64_t result_rows() const { return transposed ? columns : rows; }
  std::int64_t result_columns() const { return transposed ? rows : columns; }
};

// D = alpha op(A) op(B) + beta D, batch_count times.
struct Product {
  StoredMatrix a, b, d;  // d is never transposed
  std::int64_t batch_count = 1;
  warpsmith_type_t type = WARPSMITH_F16;
};

struct RowMajor {
  const char* refusal = nullptr;  // why libwarpsmith cannot be asked; the rest means nothing then
  warpsmith_problem_t problem{};
  bool swapped = false;  // the problem's A is the product's B, and the other way round
};

// A column-major matrix is its transpose in row order, so that a column-major D is (op(A) op(B))^T = op(B)^T op(A)^T:
// the operands swap. Refuses empty products, sizes that contradict one another and leading dimensions that are too
// small: their answer or error is cuBLAS's own.
RowMajor to_row_major(const Product& product);

// Product of cuBLAS's level-3 functions: everything in column order, op(A) m x k, op(B) k x n.
Product column_major_product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                             std::int64_t lda, std::int64_t ldb, std::int64_t ldc);

}  // namespace warpsmith::interposer
