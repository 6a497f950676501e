// Device code that no recipe describes: C = beta * C for products without terms, and an empty kernel to ask the device
// about clusters with.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

// C is elements / n rows of n columns at a row stride of ldc. beta = 0 does not read C.
extern "C" __global__ void warpsmith_scale(std::uint16_t* c, long long ldc, long long n, long long elements, float beta,
                                           int bf16) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) {
    const long long row = i / n;
    std::uint16_t* at = c + row * ldc + (i - row * n);
    if (beta == 0) {
      *at = 0;
    } else if (bf16 != 0) {
      *at = __bfloat16_as_ushort(__float2bfloat16_rn(beta * __bfloat162float(__ushort_as_bfloat16(*at))));
    } else {
      *at = __half_as_ushort(__float2half_rn(beta * __half2float(__ushort_as_half(*at))));
    }
  }
}

extern "C" __global__ void warpsmith_idle() {}
