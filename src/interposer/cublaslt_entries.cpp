// What stands in front of cublasLtMatmul. A plain product, without epilogue, scale factors or vectors of alpha, may run
// on libwarpsmith; every other call is handed on unchanged.
#include <cublasLt.h>

#include "interposer/dispatcher.h"
#include "interposer/real_library.h"
#include "interposer/supported.h"

namespace {

using namespace warpsmith::interposer;

struct Getters {
  decltype(&cublasLtMatmulDescGetAttribute) description =
      real_function<decltype(cublasLtMatmulDescGetAttribute)>(kCublasLt, "cublasLtMatmulDescGetAttribute");
  decltype(&cublasLtMatrixLayoutGetAttribute) layout =
      real_function<decltype(cublasLtMatrixLayoutGetAttribute)>(kCublasLt, "cublasLtMatrixLayoutGetAttribute");
};

const Getters& getters() {
  static const Getters kGetters;
  return kGetters;
}

// An attribute that this version of the library does not know has its default.
template <class Value>
Value attribute(cublasLtMatmulDesc_t description, int attribute, Value value) {
  std::size_t written = 0;
  Value found{};
  const auto status = getters().description(description, static_cast<cublasLtMatmulDescAttributes_t>(attribute), &found,
                                            sizeof found, &written);
  return status == CUBLAS_STATUS_SUCCESS && written == sizeof found ? found : value;
}

template <class Value>
Value attribute(cublasLtMatrixLayout_t layout, int attribute, Value value) {
  std::size_t written = 0;
  Value found{};
  const auto status =
      getters().layout(layout, static_cast<cublasLtMatrixLayoutAttribute_t>(attribute), &found, sizeof found, &written);
  return status == CUBLAS_STATUS_SUCCESS && written == sizeof found ? found : value;
}

// Attributes of newer toolkits than the oldest that this is built with.
constexpr int kDescriptionDOutScalePointer = 36;
constexpr int kLayoutBatchMode = 8;  // 0: at a fixed stride

struct Layout {
  const char* refusal = nullptr;
  cudaDataType_t type = CUDA_R_32F;
  StoredMatrix matrix;
  std::int64_t batch_count = 1;
};

Layout read_layout(cublasLtMatrixLayout_t description) {
  Layout layout;
  if (description == nullptr) {
    layout.refusal = "null layout";
    return layout;
  }
  layout.type =
      static_cast<cudaDataType_t>(attribute<std::uint32_t>(description, CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_32F));
  const auto order = attribute<std::int32_t>(description, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL);
  if (order != CUBLASLT_ORDER_COL && order != CUBLASLT_ORDER_ROW) layout.refusal = "order";
  layout.matrix.order = order == CUBLASLT_ORDER_ROW ? Order::row : Order::column;
  layout.matrix.rows = static_cast<std::int64_t>(attribute<std::uint64_t>(description, CUBLASLT_MATRIX_LAYOUT_ROWS, 0));
  layout.matrix.columns =
      static_cast<std::int64_t>(attribute<std::uint64_t>(description, CUBLASLT_MATRIX_LAYOUT_COLS, 0));
  layout.matrix.ld = attribute<std::int64_t>(description, CUBLASLT_MATRIX_LAYOUT_LD, 0);
  layout.batch_count = attribute<std::int32_t>(description, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
  layout.matrix.stride = attribute<std::int64_t>(description, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
  if (attribute<std::int64_t>(description, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, 0) != 0)
    layout.refusal = "plane offset";
  if (attribute<std::int32_t>(description, kLayoutBatchMode, 0) != 0) layout.refusal = "batch mode";
  return layout;
}

bool same_place(const StoredMatrix& one, const StoredMatrix& other) {
  return one.order == other.order && one.rows == other.rows && one.columns == other.columns && one.ld == other.ld &&
         one.stride == other.stride;
}

struct Operation {
  const char* refusal = nullptr;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  bool transpose_a = false, transpose_b = false;
};

bool has_pointer(cublasLtMatmulDesc_t description, int which) {
  return attribute<const void*>(description, which, nullptr) != nullptr;
}

Operation read_operation(cublasLtMatmulDesc_t description) {
  Operation operation;
  const auto number = [&](int which, std::int32_t value) { return attribute<std::int32_t>(description, which, value); };
  operation.compute = static_cast<cublasComputeType_t>(number(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_64F));
  const std::int32_t wanted_scale = operation.compute == CUBLAS_COMPUTE_16F ? CUDA_R_16F : CUDA_R_32F;
  const std::int32_t op_a = number(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N);
  const std::int32_t op_b = number(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  operation.transpose_a = op_a != CUBLAS_OP_N;
  operation.transpose_b = op_b != CUBLAS_OP_N;
  if (number(CUBLASLT_MATMUL_DESC_SCALE_TYPE, -1) != wanted_scale) operation.refusal = "scale type";
  if (number(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST) != CUBLASLT_POINTER_MODE_HOST) {
    operation.refusal = "alpha and beta on the device";
  }
  if (op_a < CUBLAS_OP_N || op_a > CUBLAS_OP_C || op_b < CUBLAS_OP_N || op_b > CUBLAS_OP_C ||
      number(CUBLASLT_MATMUL_DESC_TRANSC, CUBLAS_OP_N) != CUBLAS_OP_N) {
    operation.refusal = "operation";
  }
  if (number(CUBLASLT_MATMUL_DESC_FILL_MODE, CUBLAS_FILL_MODE_FULL) != CUBLAS_FILL_MODE_FULL) {
    operation.refusal = "fill mode";
  }
  if (number(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT) != CUBLASLT_EPILOGUE_DEFAULT) {
    operation.refusal = "epilogue";
  }
  if (number(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 0) != 0) operation.refusal = "multiprocessor target";
  for (const int which :
       {static_cast<int>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), static_cast<int>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER),
        static_cast<int>(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER), static_cast<int>(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER),
        static_cast<int>(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER), kDescriptionDOutScalePointer}) {
    if (has_pointer(description, which)) operation.refusal = "scale factors";
  }
  return operation;
}

struct Call {
  cublasLtMatmulDesc_t description;
  const void *alpha, *a, *b, *beta, *c;
  void* d;
  cublasLtMatrixLayout_t a_layout, b_layout, c_layout, d_layout;
  cudaStream_t stream;
};

const char* attempt(const Call& call, Product& product) {
  product.type = WARPSMITH_TYPE_MAX_VALUE;
  if (getters().description == nullptr || getters().layout == nullptr || call.description == nullptr) return "handle";
  const Operation operation = read_operation(call.description);
  const Layout a = read_layout(call.a_layout), b = read_layout(call.b_layout), d = read_layout(call.d_layout);
  product.a = a.matrix;
  product.b = b.matrix;
  product.d = d.matrix;
  product.a.transposed = operation.transpose_a;
  product.b.transposed = operation.transpose_b;
  product.batch_count = d.batch_count;
  for (const char* refusal : {operation.refusal, a.refusal, b.refusal, d.refusal}) {
    if (refusal != nullptr) return refusal;
  }
  const Arithmetic arithmetic = arithmetic_of(a.type, b.type, d.type, operation.compute);
  if (arithmetic.refusal != nullptr) return arithmetic.refusal;
  product.type = arithmetic.type;
  if (a.batch_count != d.batch_count || b.batch_count != d.batch_count) return "batch count";
  if (call.alpha == nullptr || call.beta == nullptr) return "null scalar";
  const Scalars scalars{read_scale(call.alpha, arithmetic.scale), read_scale(call.beta, arithmetic.scale)};
  if (scalars.beta != 0) {
    const Layout c = read_layout(call.c_layout);
    if (c.refusal != nullptr || call.c != call.d || c.type != d.type || c.batch_count != d.batch_count ||
        !same_place(c.matrix, d.matrix)) {
      return "C is not D";
    }
  }
  return dispatcher().run(product, scalars, {call.a, call.b, call.d}, call.stream);
}

bool runs_here(const Call& call) {
  if (Inside::now() || !dispatcher().enabled()) return false;
  Product product;
  const char* reason = attempt(call, product);
  if (dispatcher().logs()) dispatcher().note("cublasLtMatmul", product, reason);
  return reason == nullptr;
}

}  // namespace

extern "C" cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                                                      const void* alpha, const void* A, cublasLtMatrixLayout_t Adesc,
                                                      const void* B, cublasLtMatrixLayout_t Bdesc, const void* beta,
                                                      const void* C, cublasLtMatrixLayout_t Cdesc, void* D,
                                                      cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* algo,
                                                      void* workspace, size_t workspaceSizeInBytes,
                                                      cudaStream_t stream) {
  static const auto real = real_function<decltype(cublasLtMatmul)>(kCublasLt, "cublasLtMatmul");
  if (runs_here({computeDesc, alpha, A, B, beta, C, D, Adesc, Bdesc, Cdesc, Ddesc, stream})) {
    return CUBLAS_STATUS_SUCCESS;
  }
  if (real == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Inside inside;
  return real(lightHandle, computeDesc, alpha, A, Adesc, B, Bdesc, beta, C, Cdesc, D, Ddesc, algo, workspace,
              workspaceSizeInBytes, stream);
}
