// Division of small numbers by numbers that are known at run time only.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// index / divisor, neither negative, index below 2^24 and the quotient below 2^22: exact, and faster than the
// compiler's division, for which a block's first load, or its last store, would wait.
__device__ __forceinline__ int quick_divide(int index, int divisor) {
  const int quotient = static_cast<int>(__fdividef(static_cast<float>(index), static_cast<float>(divisor)));
  const int rest = index - quotient * divisor;
  return rest < 0 ? quotient - 1 : rest >= divisor ? quotient + 1 : quotient;
}

}  // namespace warpsmith::device
