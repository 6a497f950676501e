// Every order, operation and leading dimension of a product, mapped to rows and multiplied there, against the product
// as cuBLAS states it; which types and arithmetic are taken.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "interposer/product.h"
#include "interposer/supported.h"

namespace warpsmith::interposer {
namespace {

using Values = std::vector<double>;

std::size_t extent(const StoredMatrix& matrix, std::int64_t batches) {
  const std::int64_t lines = matrix.order == Order::row ? matrix.rows : matrix.columns;
  return static_cast<std::size_t>(lines * matrix.ld + (batches - 1) * matrix.stride);
}

std::size_t place(const StoredMatrix& matrix, std::int64_t i, std::int64_t j, std::int64_t batch) {
  if (matrix.transposed) std::swap(i, j);
  return static_cast<std::size_t>(batch * matrix.stride +
                                  (matrix.order == Order::row ? i * matrix.ld + j : i + j * matrix.ld));
}

Values numbers(std::size_t count, int seed) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<double>((i * 7 + static_cast<std::size_t>(seed)) % 11) - 5;
  return values;
}

// As cuBLAS documents it.
Values multiply(const Product& product, double alpha, const Values& a, const Values& b, double beta, Values d) {
  for (std::int64_t batch = 0; batch < product.batch_count; ++batch) {
    for (std::int64_t i = 0; i < product.d.rows; ++i) {
      for (std::int64_t j = 0; j < product.d.columns; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < product.a.result_columns(); ++p) {
          sum += a[place(product.a, i, p, batch)] * b[place(product.b, p, j, batch)];
        }
        double& element = d[place(product.d, i, j, batch)];
        element = alpha * sum + beta * element;
      }
    }
  }
  return d;
}

// As warpsmith/hgemm.h documents it.
Values multiply_rows(const warpsmith_problem_t& problem, double alpha, const Values& a, const Values& b, double beta,
                     Values c) {
  for (std::int64_t batch = 0; batch < problem.batch_count; ++batch) {
    for (std::int64_t i = 0; i < problem.m; ++i) {
      for (std::int64_t j = 0; j < problem.n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < problem.k; ++p) {
          const std::int64_t at_a = problem.op_a == WARPSMITH_OP_N ? i * problem.lda + p : p * problem.lda + i;
          const std::int64_t at_b = problem.op_b == WARPSMITH_OP_N ? p * problem.ldb + j : j * problem.ldb + p;
          sum += a[static_cast<std::size_t>(batch * problem.stride_a + at_a)] *
                 b[static_cast<std::size_t>(batch * problem.stride_b + at_b)];
        }
        double& element = c[static_cast<std::size_t>(batch * problem.stride_c + i * problem.ldc + j)];
        element = alpha * sum + beta * element;
      }
    }
  }
  return c;
}

StoredMatrix matrix(Order order, bool transposed, std::int64_t result_rows, std::int64_t result_columns,
                    std::int64_t gap) {
  StoredMatrix made{
      order, transposed, transposed ? result_columns : result_rows, transposed ? result_rows : result_columns, 0, 0};
  made.ld = (order == Order::row ? made.columns : made.rows) + gap;
  made.stride = (order == Order::row ? made.rows : made.columns) * made.ld + 3 * gap;
  return made;
}

void expect_same(const Product& product, const std::string& what) {
  const RowMajor mapped = to_row_major(product);
  ASSERT_EQ(mapped.refusal, nullptr) << what;
  const Values a = numbers(extent(product.a, product.batch_count), 1);
  const Values b = numbers(extent(product.b, product.batch_count), 4);
  const Values d = numbers(extent(product.d, product.batch_count), 9);
  const Values& left = mapped.swapped ? b : a;
  const Values& right = mapped.swapped ? a : b;
  EXPECT_EQ(multiply_rows(mapped.problem, 0.5, left, right, -2, d), multiply(product, 0.5, a, b, -2, d)) << what;
}

TEST(Product, EveryOrderOperationAndGapIsTheSameProduct) {
  int cases = 0;
  for (int bits = 0; bits < 32; ++bits) {
    const auto order = [bits](int bit) { return (bits >> bit & 1) != 0 ? Order::row : Order::column; };
    for (int gaps = 0; gaps < 8; ++gaps) {
      for (const std::int64_t batches : {1, 3}) {
        Product product;
        product.a = matrix(order(0), (bits & 8) != 0, 5, 3, gaps & 1);
        product.b = matrix(order(1), (bits & 16) != 0, 3, 4, gaps >> 1 & 1);
        product.d = matrix(order(2), false, 5, 4, gaps >> 2);
        product.batch_count = batches;
        expect_same(product, "bits " + std::to_string(bits) + " gaps " + std::to_string(gaps));
        ++cases;
      }
    }
  }
  EXPECT_EQ(cases, 512);
}

TEST(Product, SharedOperandsOfABatchAndVectors) {
  Product product = column_major_product(true, false, 1, 7, 6, 6, 8, 1);
  product.batch_count = 2;
  product.a.stride = 0;
  product.b.stride = 8 * 7;
  product.d.stride = 7;
  expect_same(product, "shared A, one row");
}

TEST(Product, SwapsTheOperandsOfColumnMajorProducts) {
  const RowMajor mapped = to_row_major(column_major_product(true, false, 10, 20, 30, 31, 32, 33));
  EXPECT_TRUE(mapped.swapped);
  EXPECT_EQ(mapped.problem.m, 20);
  EXPECT_EQ(mapped.problem.n, 10);
  EXPECT_EQ(mapped.problem.op_a, WARPSMITH_OP_N);
  EXPECT_EQ(mapped.problem.op_b, WARPSMITH_OP_T);
  EXPECT_EQ(mapped.problem.lda, 32);
  EXPECT_EQ(mapped.problem.ldb, 31);
  EXPECT_EQ(mapped.problem.ldc, 33);
}

TEST(Product, RefusesWhatIsCublasOwnToAnswer) {
  const auto refusal = [](const Product& product) { return std::string(to_row_major(product).refusal); };
  EXPECT_EQ(refusal(column_major_product(false, false, 0, 4, 4, 1, 4, 1)), "empty");
  EXPECT_EQ(refusal(column_major_product(false, false, 4, 4, 0, 4, 1, 4)), "empty");
  EXPECT_EQ(refusal(column_major_product(false, false, -1, 4, 4, 4, 4, 4)), "empty");
  EXPECT_EQ(refusal(column_major_product(false, false, 4, 4, 4, 3, 4, 4)), "leading dimension");
  EXPECT_EQ(refusal(column_major_product(false, true, 4, 5, 4, 4, 4, 4)), "leading dimension");
  EXPECT_EQ(refusal(column_major_product(false, false, 4, 4, 4, 4, 4, 3)), "leading dimension");
  Product product = column_major_product(false, false, 4, 4, 4, 4, 4, 4);
  product.b.rows = 5;
  product.b.ld = 5;
  EXPECT_EQ(refusal(product), "sizes");
  product = column_major_product(false, false, 4, 4, 4, 4, 4, 4);
  product.batch_count = 0;
  EXPECT_EQ(refusal(product), "empty");
  product.batch_count = 2;
  EXPECT_EQ(refusal(product), "batch stride");
}

TEST(Supported, TakesHalvesWithFloatSums) {
  EXPECT_EQ(arithmetic_of(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F).refusal, nullptr);
  EXPECT_EQ(arithmetic_of(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F).type, WARPSMITH_F16);
  EXPECT_EQ(arithmetic_of(CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F).type, WARPSMITH_BF16);
  EXPECT_EQ(arithmetic_of(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F).scale, ScaleType::f16);
  EXPECT_EQ(arithmetic_of(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F).scale, ScaleType::f32);
}

TEST(Supported, RefusesOtherTypesAndArithmetic) {
  const auto refused = [](cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cublasComputeType_t compute) {
    return arithmetic_of(a, b, c, compute).refusal != nullptr;
  };
  EXPECT_TRUE(refused(CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(CUDA_R_16F, CUDA_R_16BF, CUDA_R_16F, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F));
  EXPECT_TRUE(refused(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F_PEDANTIC));
  EXPECT_TRUE(refused(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F_PEDANTIC));
  EXPECT_TRUE(refused(CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_16F));
}

TEST(Supported, ReadsScalars) {
  const float two = 2.5f;
  EXPECT_EQ(read_scale(&two, ScaleType::f32), 2.5f);
  const auto half = [](std::uint16_t bits) { return read_scale(&bits, ScaleType::f16); };
  EXPECT_EQ(half(0x3c00), 1.0f);
  EXPECT_EQ(half(0xc100), -2.5f);
  EXPECT_EQ(half(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(half(0x7bff), 65504.0f);
  EXPECT_EQ(half(0x8000), 0.0f);
  EXPECT_TRUE(std::signbit(half(0x8000)));
  EXPECT_TRUE(std::isinf(half(0x7c00)));
  EXPECT_TRUE(std::isnan(half(0x7e00)));
}

}  // namespace
}  // namespace warpsmith::interposer
