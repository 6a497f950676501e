// Products of 16-bit matrices in host memory, for stand-ins of GPU libraries: the first element of an operand, steps
// from row to row and from column to column.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace warpsmith {

inline float element_value(const void* base, std::int64_t at, bool bf16) {
  const auto* bytes = static_cast<const unsigned char*>(base) + 2 * at;
  if (bf16) {
    __nv_bfloat16 value;
    std::memcpy(&value, bytes, sizeof value);
    return __bfloat162float(value);
  }
  __half value;
  std::memcpy(&value, bytes, sizeof value);
  return __half2float(value);
}

inline void set_element(void* base, std::int64_t at, bool bf16, float number) {
  auto* bytes = static_cast<unsigned char*>(base) + 2 * at;
  if (bf16) {
    const __nv_bfloat16 value = __float2bfloat16(number);
    std::memcpy(bytes, &value, sizeof value);
    return;
  }
  const __half value = __float2half(number);
  std::memcpy(bytes, &value, sizeof value);
}

struct HostMatrix {
  const void* base;
  std::int64_t row_step, column_step;
};

struct HostProduct {
  std::int64_t m, n, k;
  bool bf16;
  float alpha, beta;
};

inline void host_multiply(const HostProduct& product, const HostMatrix& a, const HostMatrix& b, const HostMatrix& d) {
  for (std::int64_t i = 0; i < product.m; ++i) {
    for (std::int64_t j = 0; j < product.n; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < product.k; ++p) {
        sum += element_value(a.base, i * a.row_step + p * a.column_step, product.bf16) *
               element_value(b.base, p * b.row_step + j * b.column_step, product.bf16);
      }
      const std::int64_t at = i * d.row_step + j * d.column_step;
      const float old = product.beta == 0 ? 0 : product.beta * element_value(d.base, at, product.bf16);
      set_element(const_cast<void*>(d.base), at, product.bf16, product.alpha * sum + old);
    }
  }
}

inline HostMatrix column_major(const void* base, std::int64_t ld, bool transposed) {
  return transposed ? HostMatrix{base, ld, 1} : HostMatrix{base, 1, ld};
}
inline HostMatrix row_major(const void* base, std::int64_t ld, bool transposed) {
  return transposed ? HostMatrix{base, 1, ld} : HostMatrix{base, ld, 1};
}

inline const void* shifted(const void* base, std::int64_t elements) {
  return static_cast<const unsigned char*>(base) + 2 * elements;
}

}  // namespace warpsmith
