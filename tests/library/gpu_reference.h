// Device-side help for the library's GPU tests: operands, an FP64 reference by plain dot products, bare launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace warpsmith::library::testing {

// A product as it lies in device memory, row-major, strides in elements.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  bool bf16 = false;
  float alpha = 1, beta = 0;
};

// What judging adds up, in device memory.
struct Judged {
  unsigned long long elements;  // of C, compared with the reference
  unsigned long long wrong;     // outside the bound of FP32 accumulation
  unsigned long long touched;   // gap elements between C's rows that no longer hold what they did
};

// Every element of rows x ld: columns below `columns` a pseudo-random number in (-1, 1), the gap NaN. From `seed`.
void fill_matrix(std::uint16_t* out, std::int64_t rows, std::int64_t columns, std::int64_t ld, bool bf16,
                 std::uint64_t seed, cudaStream_t stream);
void fill_bits(std::uint16_t* out, std::int64_t count, std::uint16_t bits, cudaStream_t stream);

// Adds C's judgement to *judged: alpha * A * B + beta * before, in FP64, against c. `before` is C as it was, null where
// beta is 0 (then the gaps must hold the element type's NaN pattern). Rows in steps of `row_step`, the last one always.
void judge(const Product& product, const std::uint16_t* a, const std::uint16_t* b, const std::uint16_t* before,
           const std::uint16_t* c, std::int64_t row_step, Judged* judged, cudaStream_t stream);

// Adds the number of unequal words to *differing.
void count_differing(const std::uint16_t* x, const std::uint16_t* y, std::int64_t count, unsigned long long* differing,
                     cudaStream_t stream);

// cudaLaunchKernelEx of an empty kernel with as many parameter bytes as a kernel with three tensor maps has.
cudaError_t bare_launch(cudaStream_t stream);

// Reads `bytes` (a multiple of 16), which leaves nothing else in the L2 cache.
void read_through(const void* memory, std::int64_t bytes, unsigned* sink, cudaStream_t stream);

}  // namespace warpsmith::library::testing
