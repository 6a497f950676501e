// The library's own device code (device_kernels.cu), compiled at build time: a fat binary for cuModuleLoadData.
#pragma once

namespace warpsmith::library {

extern const unsigned char kDeviceKernels[];

inline constexpr const char* kScaleEntry = "warpsmith_scale";  // (c, ldc, n, elements m*n, beta, bf16)
inline constexpr int kScaleThreads = 256;                      // of a block, each with one element at a time
inline constexpr const char* kIdleEntry = "warpsmith_idle";    // takes nothing, does nothing

}  // namespace warpsmith::library
