// Types and arithmetic.
#include "interposer/supported.h"

#include <cmath>
#include <cstring>

namespace warpsmith::interposer {

namespace {

float half_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

}  // namespace

Arithmetic arithmetic_of(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cublasComputeType_t compute) {
  Arithmetic arithmetic;
  if (a != b || a != c || (a != CUDA_R_16F && a != CUDA_R_16BF)) {
    arithmetic.refusal = "types";
    return arithmetic;
  }
  arithmetic.type = a == CUDA_R_16F ? WARPSMITH_F16 : WARPSMITH_BF16;
  switch (compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:  // of operands that have 16 bits, all are the same
      return arithmetic;
    case CUBLAS_COMPUTE_16F:
      arithmetic.scale = ScaleType::f16;
      if (a != CUDA_R_16F) arithmetic.refusal = "compute type";
      return arithmetic;
    default:
      arithmetic.refusal = "compute type";
      return arithmetic;
  }
}

float read_scale(const void* value, ScaleType type) {
  if (type == ScaleType::f32) {
    float scale = 0;
    std::memcpy(&scale, value, sizeof scale);
    return scale;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, value, sizeof bits);
  return half_to_float(bits);
}

}  // namespace warpsmith::interposer
