// What a TensorMap says in the numbers of CUDA's enumerators, for those who encode it; needs none of CUDA's headers.
#pragma once

namespace warpsmith {

// CUtensorMapSwizzle of the span within which shared memory is swizzled.
constexpr int swizzle_code(int bytes) { return bytes == 32 ? 1 : bytes == 64 ? 2 : bytes == 128 ? 3 : 0; }

// CUtensorMapL2promotion of the size to which reads are widened.
constexpr int l2_promotion_code(int bytes) { return bytes == 64 ? 1 : bytes == 128 ? 2 : bytes == 256 ? 3 : 0; }

}  // namespace warpsmith
