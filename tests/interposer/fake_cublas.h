// Stand-ins for libcublas and libcublasLt on host memory. A handle's state is set here directly.
#pragma once

#include <cublasLt.h>
#include <cublas_api.h>

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  int sm_target = 0;
};

extern "C" int fake_cublas_calls();    // products that the stand-in for libcublas was asked for
extern "C" int fake_cublaslt_calls();  // the same of libcublasLt
