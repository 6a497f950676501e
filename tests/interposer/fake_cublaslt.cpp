// libcublasLt.so.13 of the interposer's tests. A description keeps one 8-byte value an attribute, which stands in its
// opaque words.
#include "fake_cublas.h"

#include <atomic>
#include <cstring>

#include "host_product.h"

using namespace warpsmith;

namespace {

std::atomic<int> calls{0};

// Attributes 0 to 7, 15, 17 to 21 and 36 in words of their own; layouts have eight words for nine attributes, of which
// the plane offset shares its word with the batch mode (both 0 in every case).
std::size_t word(int attribute) { return attribute == 36 ? 30 : static_cast<std::size_t>(attribute); }

template <class Opaque>
cublasStatus_t get(const Opaque* opaque, std::size_t index, void* out, std::size_t size, std::size_t* written) {
  if (size > 8) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(out, &opaque->data[index], size);
  if (written != nullptr) *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

std::int64_t number(cublasLtMatrixLayout_t layout, int attribute) {
  return static_cast<std::int64_t>(layout->data[static_cast<std::size_t>(attribute)]);
}

HostMatrix matrix(const void* base, cublasLtMatrixLayout_t layout, std::int64_t batch, bool transposed) {
  const void* first = shifted(base, batch * number(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
  const std::int64_t ld = number(layout, CUBLASLT_MATRIX_LAYOUT_LD);
  return number(layout, CUBLASLT_MATRIX_LAYOUT_ORDER) == CUBLASLT_ORDER_ROW ? row_major(first, ld, transposed)
                                                                            : column_major(first, ld, transposed);
}

}  // namespace

extern "C" {

int fake_cublaslt_calls() { return calls; }

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void* out, std::size_t size,
                                              std::size_t* written) {
  return get(description, word(attribute), out, size, written);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t size) {
  std::memcpy(&description->data[word(attribute)], value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* out, std::size_t size,
                                                std::size_t* written) {
  const int which = attribute;
  if (which >= 8) return CUBLAS_STATUS_INVALID_VALUE;
  return get(layout, static_cast<std::size_t>(which), out, size, written);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t size) {
  std::memcpy(&layout->data[static_cast<std::size_t>(attribute)], value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t) {
  ++calls;
  if (description == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const bool transpose_a = description->data[CUBLASLT_MATMUL_DESC_TRANSA] != CUBLAS_OP_N;
  const bool transpose_b = description->data[CUBLASLT_MATMUL_DESC_TRANSB] != CUBLAS_OP_N;
  const HostProduct product{number(d_layout, CUBLASLT_MATRIX_LAYOUT_ROWS),
                            number(d_layout, CUBLASLT_MATRIX_LAYOUT_COLS),
                            number(a_layout, transpose_a ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS),
                            number(d_layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_16BF,
                            *static_cast<const float*>(alpha),
                            *static_cast<const float*>(beta)};
  for (std::int64_t i = 0; i < number(d_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT); ++i) {
    host_multiply(product, matrix(a, a_layout, i, transpose_a), matrix(b, b_layout, i, transpose_b),
                  matrix(d, d_layout, i, false));
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
