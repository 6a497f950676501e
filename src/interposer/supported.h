// Which of cuBLAS's types and arithmetic libwarpsmith's promise covers.
#pragma once

#include <cublas_api.h>
#include <library_types.h>

#include <cstdint>

#include "warpsmith/hgemm.h"

namespace warpsmith::interposer {

enum class ScaleType { f32, f16 };  // of alpha and beta

struct Arithmetic {
  const char* refusal = nullptr;  // why the call is cuBLAS's; the rest means nothing then
  warpsmith_type_t type = WARPSMITH_F16;
  ScaleType scale = ScaleType::f32;
};

// FP16 or BF16 in and out with FP32 sums; of FP16, FP16 sums too, which become FP32 sums. Pedantic arithmetic, which
// asks for cuBLAS's very own roundings, is refused.
Arithmetic arithmetic_of(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cublasComputeType_t compute);

// alpha or beta in host memory.
float read_scale(const void* value, ScaleType type);

}  // namespace warpsmith::interposer
