// What stands in front of cuBLAS's matrix products: decides by the handle's modes and the arguments, and hands on
// unchanged what libwarpsmith does not run.
#include <cublas_api.h>

#include "interposer/dispatcher.h"
#include "interposer/real_library.h"
#include "interposer/supported.h"

namespace {

using namespace warpsmith::interposer;

// One call of any of the functions below.
struct Call {
  const char* function;
  cublasOperation_t op_a, op_b;
  std::int64_t m, n, k;
  const void* alpha;
  const void* a;
  cudaDataType_t a_type;
  std::int64_t lda, stride_a;
  const void* b;
  cudaDataType_t b_type;
  std::int64_t ldb, stride_b;
  const void* beta;
  void* c;
  cudaDataType_t c_type;
  std::int64_t ldc, stride_c;
  std::int64_t batch_count;
  cublasComputeType_t compute;
};

struct HandleState {
  const char* refusal = nullptr;
  cudaStream_t stream = nullptr;
};

// What the program has set on its handle.
HandleState state_of(cublasHandle_t handle) {
  static const auto get_stream = real_function<decltype(cublasGetStream_v2)>(kCublas, "cublasGetStream_v2");
  static const auto get_pointer_mode =
      real_function<decltype(cublasGetPointerMode_v2)>(kCublas, "cublasGetPointerMode_v2");
  static const auto get_math_mode = real_function<decltype(cublasGetMathMode)>(kCublas, "cublasGetMathMode");
  static const auto get_sm_target = real_function<decltype(cublasGetSmCountTarget)>(kCublas, "cublasGetSmCountTarget");
  HandleState state;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  int sm_target = 0;
  const bool known = handle != nullptr && get_stream != nullptr && get_pointer_mode != nullptr &&
                     get_math_mode != nullptr && get_stream(handle, &state.stream) == CUBLAS_STATUS_SUCCESS &&
                     get_pointer_mode(handle, &pointer_mode) == CUBLAS_STATUS_SUCCESS &&
                     get_math_mode(handle, &math) == CUBLAS_STATUS_SUCCESS;
  if (known && get_sm_target != nullptr) get_sm_target(handle, &sm_target);
  if (!known) {
    state.refusal = "handle";
  } else if (pointer_mode != CUBLAS_POINTER_MODE_HOST) {
    state.refusal = "alpha and beta on the device";
  } else if ((math & 0xf) == CUBLAS_PEDANTIC_MATH) {
    state.refusal = "pedantic math mode";
  } else if (sm_target != 0) {
    state.refusal = "multiprocessor target";
  }
  return state;
}

Product product_of(const Call& call) {
  Product product = column_major_product(call.op_a != CUBLAS_OP_N, call.op_b != CUBLAS_OP_N, call.m, call.n, call.k,
                                         call.lda, call.ldb, call.ldc);
  product.batch_count = call.batch_count;
  product.a.stride = call.stride_a;
  product.b.stride = call.stride_b;
  product.d.stride = call.stride_c;
  return product;
}

bool known_op(cublasOperation_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C; }

const char* attempt(cublasHandle_t handle, const Call& call, Product& product) {
  const Arithmetic arithmetic = arithmetic_of(call.a_type, call.b_type, call.c_type, call.compute);
  product.type = arithmetic.refusal == nullptr ? arithmetic.type : WARPSMITH_TYPE_MAX_VALUE;
  if (arithmetic.refusal != nullptr) return arithmetic.refusal;
  if (!known_op(call.op_a) || !known_op(call.op_b)) return "operation";
  if (call.alpha == nullptr || call.beta == nullptr) return "null scalar";
  const HandleState state = state_of(handle);
  if (state.refusal != nullptr) return state.refusal;
  const Scalars scalars{read_scale(call.alpha, arithmetic.scale), read_scale(call.beta, arithmetic.scale)};
  return dispatcher().run(product, scalars, {call.a, call.b, call.c}, state.stream);
}

// True: libwarpsmith has queued it.
bool runs_here(cublasHandle_t handle, const Call& call) {
  if (Inside::now() || !dispatcher().enabled()) return false;
  Product product = product_of(call);
  const char* reason = attempt(handle, call, product);
  if (dispatcher().logs()) dispatcher().note(call.function, product, reason);
  return reason == nullptr;
}

// The real function takes what the interposed one was given, as it was given.
template <class... Arguments>
cublasStatus_t pass_on(void* function, Arguments... arguments) {
  if (function == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Inside inside;
  return reinterpret_cast<cublasStatus_t (*)(Arguments...)>(function)(arguments...);
}

}  // namespace

extern "C" {

cublasStatus_t CUBLASWINAPI cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                         int m, int n, int k, const void* alpha, const void* A, cudaDataType Atype,
                                         int lda, const void* B, cudaDataType Btype, int ldb, const void* beta, void* C,
                                         cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
                                         cublasGemmAlgo_t algo) {
  static void* const real = find_real(kCublas, "cublasGemmEx");
  if (runs_here(handle, {"cublasGemmEx", transa, transb, m,    n, k,     alpha, A, Atype, lda,        0, B,
                         Btype,          ldb,    0,      beta, C, Ctype, ldc,   0, 1,     computeType})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype, ldc,
                 computeType, algo);
}

cublasStatus_t CUBLASWINAPI cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                            int64_t m, int64_t n, int64_t k, const void* alpha, const void* A,
                                            cudaDataType Atype, int64_t lda, const void* B, cudaDataType Btype,
                                            int64_t ldb, const void* beta, void* C, cudaDataType Ctype, int64_t ldc,
                                            cublasComputeType_t computeType, cublasGemmAlgo_t algo) {
  static void* const real = find_real(kCublas, "cublasGemmEx_64");
  if (runs_here(handle, {"cublasGemmEx_64",
                         transa,
                         transb,
                         m,
                         n,
                         k,
                         alpha,
                         A,
                         Atype,
                         lda,
                         0,
                         B,
                         Btype,
                         ldb,
                         0,
                         beta,
                         C,
                         Ctype,
                         ldc,
                         0,
                         1,
                         computeType})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype, ldc,
                 computeType, algo);
}

cublasStatus_t CUBLASWINAPI cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                                       cublasOperation_t transb, int m, int n, int k, const void* alpha,
                                                       const void* A, cudaDataType Atype, int lda, long long strideA,
                                                       const void* B, cudaDataType Btype, int ldb, long long strideB,
                                                       const void* beta, void* C, cudaDataType Ctype, int ldc,
                                                       long long strideC, int batchCount,
                                                       cublasComputeType_t computeType, cublasGemmAlgo_t algo) {
  static void* const real = find_real(kCublas, "cublasGemmStridedBatchedEx");
  if (runs_here(handle, {"cublasGemmStridedBatchedEx",
                         transa,
                         transb,
                         m,
                         n,
                         k,
                         alpha,
                         A,
                         Atype,
                         lda,
                         strideA,
                         B,
                         Btype,
                         ldb,
                         strideB,
                         beta,
                         C,
                         Ctype,
                         ldc,
                         strideC,
                         batchCount,
                         computeType})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA, B, Btype, ldb, strideB, beta, C,
                 Ctype, ldc, strideC, batchCount, computeType, algo);
}

cublasStatus_t CUBLASWINAPI cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
    const void* alpha, const void* A, cudaDataType Atype, int64_t lda, long long strideA, const void* B,
    cudaDataType Btype, int64_t ldb, long long strideB, const void* beta, void* C, cudaDataType Ctype, int64_t ldc,
    long long strideC, int64_t batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo) {
  static void* const real = find_real(kCublas, "cublasGemmStridedBatchedEx_64");
  if (runs_here(handle, {"cublasGemmStridedBatchedEx_64",
                         transa,
                         transb,
                         m,
                         n,
                         k,
                         alpha,
                         A,
                         Atype,
                         lda,
                         strideA,
                         B,
                         Btype,
                         ldb,
                         strideB,
                         beta,
                         C,
                         Ctype,
                         ldc,
                         strideC,
                         batchCount,
                         computeType})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA, B, Btype, ldb, strideB, beta, C,
                 Ctype, ldc, strideC, batchCount, computeType, algo);
}

cublasStatus_t CUBLASWINAPI cublasHgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                        int m, int n, int k, const __half* alpha, const __half* A, int lda,
                                        const __half* B, int ldb, const __half* beta, __half* C, int ldc) {
  static void* const real = find_real(kCublas, "cublasHgemm");
  if (runs_here(handle,
                {"cublasHgemm", transa, transb, m, n,          k,   alpha, A, CUDA_R_16F,        lda, 0, B, CUDA_R_16F,
                 ldb,           0,      beta,   C, CUDA_R_16F, ldc, 0,     1, CUBLAS_COMPUTE_16F})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

cublasStatus_t CUBLASWINAPI cublasHgemm_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                           int64_t m, int64_t n, int64_t k, const __half* alpha, const __half* A,
                                           int64_t lda, const __half* B, int64_t ldb, const __half* beta, __half* C,
                                           int64_t ldc) {
  static void* const real = find_real(kCublas, "cublasHgemm_64");
  if (runs_here(handle, {"cublasHgemm_64",
                         transa,
                         transb,
                         m,
                         n,
                         k,
                         alpha,
                         A,
                         CUDA_R_16F,
                         lda,
                         0,
                         B,
                         CUDA_R_16F,
                         ldb,
                         0,
                         beta,
                         C,
                         CUDA_R_16F,
                         ldc,
                         0,
                         1,
                         CUBLAS_COMPUTE_16F})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

cublasStatus_t CUBLASWINAPI cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                                      cublasOperation_t transb, int m, int n, int k,
                                                      const __half* alpha, const __half* A, int lda, long long strideA,
                                                      const __half* B, int ldb, long long strideB, const __half* beta,
                                                      __half* C, int ldc, long long strideC, int batchCount) {
  static void* const real = find_real(kCublas, "cublasHgemmStridedBatched");
  if (runs_here(handle, {"cublasHgemmStridedBatched",
                         transa,
                         transb,
                         m,
                         n,
                         k,
                         alpha,
                         A,
                         CUDA_R_16F,
                         lda,
                         strideA,
                         B,
                         CUDA_R_16F,
                         ldb,
                         strideB,
                         beta,
                         C,
                         CUDA_R_16F,
                         ldc,
                         strideC,
                         batchCount,
                         CUBLAS_COMPUTE_16F})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C, ldc, strideC,
                 batchCount);
}

cublasStatus_t CUBLASWINAPI cublasHgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t transa,
                                                         cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                                         const __half* alpha, const __half* A, int64_t lda,
                                                         long long strideA, const __half* B, int64_t ldb,
                                                         long long strideB, const __half* beta, __half* C, int64_t ldc,
                                                         long long strideC, int64_t batchCount) {
  static void* const real = find_real(kCublas, "cublasHgemmStridedBatched_64");
  if (runs_here(handle, {"cublasHgemmStridedBatched_64",
                         transa,
                         transb,
                         m,
                         n,
                         k,
                         alpha,
                         A,
                         CUDA_R_16F,
                         lda,
                         strideA,
                         B,
                         CUDA_R_16F,
                         ldb,
                         strideB,
                         beta,
                         C,
                         CUDA_R_16F,
                         ldc,
                         strideC,
                         batchCount,
                         CUBLAS_COMPUTE_16F})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return pass_on(real, handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C, ldc, strideC,
                 batchCount);
}

}  // extern "C"
