// Plain integer names and the element types: device code uses no toolkit header, so that it compiles without a path.
#pragma once

namespace warpsmith::device {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8);

enum class Element { f16, bf16 };

struct alignas(16) Vector4 {
  u32 x, y, z, w;
};

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }
__host__ __device__ constexpr int min(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int max(int a, int b) { return a > b ? a : b; }

// Address in the shared window, as PTX instructions take it.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// True in one thread of the calling warp, the same one for every call. The compiler knows then that no other is active,
// and issues tensor copies without a loop over threads. All lanes call it together (PTX ISA, "elect.sync").
__device__ __forceinline__ bool is_elected_lane() {
  u32 elected;
  asm volatile(
      "{\n"
      ".reg .pred leader;\n"
      "elect.sync _|leader, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, leader;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

// Makes a value that is equal in all lanes known as uniform to the compiler.
__device__ __forceinline__ int warp_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

}  // namespace warpsmith::device
