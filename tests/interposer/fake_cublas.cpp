// libcublas.so.13 of the interposer's tests.
#include "fake_cublas.h"

#include <atomic>

#include "host_product.h"

using namespace warpsmith;

namespace {

std::atomic<int> calls{0};

cublasStatus_t multiply(cublasOperation_t op_a, cublasOperation_t op_b, HostProduct product, const void* a,
                        std::int64_t lda, std::int64_t stride_a, const void* b, std::int64_t ldb, std::int64_t stride_b,
                        void* c, std::int64_t ldc, std::int64_t stride_c, std::int64_t batches) {
  ++calls;
  // As the real library may: a product of its own, through a public name.
  cublasLtMatmul(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                 nullptr, nullptr, nullptr, 0, nullptr);
  for (std::int64_t i = 0; i < batches; ++i) {
    host_multiply(product, column_major(shifted(a, i * stride_a), lda, op_a != CUBLAS_OP_N),
                  column_major(shifted(b, i * stride_b), ldb, op_b != CUBLAS_OP_N),
                  column_major(shifted(c, i * stride_c), ldc, false));
  }
  return CUBLAS_STATUS_SUCCESS;
}

float scalar(const void* value, cublasComputeType_t compute) {
  return compute == CUBLAS_COMPUTE_16F ? __half2float(*static_cast<const __half*>(value))
                                       : *static_cast<const float*>(value);
}

}  // namespace

extern "C" {

int fake_cublas_calls() { return calls; }

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = handle->pointer_mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* target) {
  *target = handle->sm_target;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType,
                            int ldb, const void* beta, void* c, cudaDataType, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
  if (handle == nullptr) {
    ++calls;
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  return multiply(op_a, op_b, {m, n, k, a_type == CUDA_R_16BF, scalar(alpha, compute), scalar(beta, compute)}, a, lda,
                  0, b, ldb, 0, c, ldc, 0, 1);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                          int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                                          long long stride_a, const void* b, cudaDataType, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType, int ldc, long long stride_c,
                                          int batches, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return multiply(op_a, op_b, {m, n, k, a_type == CUDA_R_16BF, scalar(alpha, compute), scalar(beta, compute)}, a, lda,
                  stride_a, b, ldb, stride_b, c, ldc, stride_c, batches);
}

cublasStatus_t cublasHgemm(cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const __half* alpha, const __half* a, int lda, const __half* b, int ldb, const __half* beta,
                           __half* c, int ldc) {
  return multiply(op_a, op_b, {m, n, k, false, __half2float(*alpha), __half2float(*beta)}, a, lda, 0, b, ldb, 0, c, ldc,
                  0, 1);
}

cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                         int k, const __half* alpha, const __half* a, int lda, long long stride_a,
                                         const __half* b, int ldb, long long stride_b, const __half* beta, __half* c,
                                         int ldc, long long stride_c, int batches) {
  return multiply(op_a, op_b, {m, n, k, false, __half2float(*alpha), __half2float(*beta)}, a, lda, stride_a, b, ldb,
                  stride_b, c, ldc, stride_c, batches);
}

}  // extern "C"
