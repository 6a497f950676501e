// Emulated types and built-in names.
#pragma once

#include "emulator.h"

#define __device__
#define __host__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __align__(bytes)
#define threadIdx (emulation::current().index)
#define blockIdx (emulation::current().block->index)

inline void __syncwarp() { emulation::arrive_and_wait(emulation::warp().barrier, 32); }
inline void __syncthreads() {
  emulation::arrive_and_wait(emulation::current().block->barriers[0], emulation::machine().launch->threads);
}

namespace warpsmith::device {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = unsigned long long;
enum class Element { f16, bf16 };
struct alignas(16) Vector4 {
  u32 x, y, z, w;
};

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }
constexpr int min(int a, int b) { return a < b ? a : b; }
constexpr int max(int a, int b) { return a > b ? a : b; }

inline unsigned char shared[1];  // only its name is used: shared addresses are offsets
inline u32 shared_address(const void*) { return 0; }
inline bool is_elected_lane() { return threadIdx.x % 32 == 0; }
inline int warp_uniform(int value) { return value; }

}  // namespace warpsmith::device
