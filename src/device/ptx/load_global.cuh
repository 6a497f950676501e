// Global loads of 16, 8, 4 or 2 bytes straight into registers, with cache hints (PTX ISA, "ld", "createpolicy").
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

enum class LoadHint {
  keep,         // ordinary: neighbours may find the line in the first-level cache
  stream,       // read once: past the first-level cache
  evict_first,  // the same, and first to leave the second-level cache
};

template <LoadHint kHint>
__device__ __forceinline__ u64 load_policy() {
  u64 policy = 0;
  if constexpr (kHint == LoadHint::evict_first) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

// The four widths of one kind of load; the last three parameters name the policy operand, if any.
#define WARPSMITH_LOAD(modifiers, policy_of_16, policy_of_8, policy_of_less)              \
  if constexpr (kBytes == 16) {                                                           \
    asm volatile(                                                                         \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"                                       \
        "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"                \
        "@p ld.global" modifiers ".v4.b32 {%0, %1, %2, %3}, [%4]" policy_of_16 ";\n}"     \
        : "=&r"(words[0]), "=&r"(words[1]), "=&r"(words[2]), "=&r"(words[3])              \
        : "l"(source), "r"(wanted), "l"(policy));                                         \
  } else if constexpr (kBytes == 8) {                                                     \
    asm volatile(                                                                         \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n"       \
        "@p ld.global" modifiers ".v2.b32 {%0, %1}, [%2]" policy_of_8 ";\n}"              \
        : "=&r"(words[0]), "=&r"(words[1])                                                \
        : "l"(source), "r"(wanted), "l"(policy));                                         \
  } else if constexpr (kBytes == 4) {                                                     \
    asm volatile(                                                                         \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n"                       \
        "@p ld.global" modifiers ".b32 %0, [%1]" policy_of_less ";\n}"                    \
        : "=&r"(words[0])                                                                 \
        : "l"(source), "r"(wanted), "l"(policy));                                         \
  } else {                                                                                \
    asm volatile(                                                                         \
        "{\n.reg .pred p;\n.reg .b16 h;\nsetp.ne.b32 p, %2, 0;\nmov.b16 h, 0;\n"          \
        "@p ld.global" modifiers ".b16 h, [%1]" policy_of_less ";\ncvt.u32.u16 %0, h;\n}" \
        : "=r"(words[0])                                                                  \
        : "l"(source), "r"(wanted), "l"(policy));                                         \
  }
#define WARPSMITH_LOAD_HINTED(fetch)                                                \
  if constexpr (kHint == LoadHint::keep) {                                          \
    WARPSMITH_LOAD(fetch, "", "", "")                                               \
  } else if constexpr (kHint == LoadHint::stream) {                                 \
    WARPSMITH_LOAD(".L1::no_allocate" fetch, "", "", "")                            \
  } else {                                                                          \
    WARPSMITH_LOAD(".L1::no_allocate.L2::cache_hint" fetch, ", %6", ", %4", ", %3") \
  }

// Loads kBytes into `words`, or zeros, reading nothing, where `valid` is false; 2 bytes fill the low half of a word.
// kFetch: bytes around the address that the second-level cache fetches at least; 0 leaves that to it.
template <int kBytes, LoadHint kHint, int kFetch>
__device__ __forceinline__ void load_global(const void* source, bool valid, u64 policy, u32* words) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4 || kBytes == 2);
  static_assert(kFetch == 0 || kFetch == 128 || kFetch == 256);
  const u32 wanted = valid;
  if constexpr (kFetch == 0) {
    WARPSMITH_LOAD_HINTED("")
  } else if constexpr (kFetch == 128) {
    WARPSMITH_LOAD_HINTED(".L2::128B")
  } else {
    WARPSMITH_LOAD_HINTED(".L2::256B")
  }
}
#undef WARPSMITH_LOAD_HINTED
#undef WARPSMITH_LOAD

// Two neighbouring elements in one word, without a branch: by one load where `both`, otherwise each where its flag is
// set; zeros for what is not loaded.
__device__ __forceinline__ u32 load_global_pair(const void* source, bool both, bool low, bool high) {
  u32 word;
  asm volatile(
      "{\n.reg .pred b, l, h;\n.reg .b16 x, y;\n"
      "setp.ne.b32 b, %2, 0;\nsetp.ne.b32 l, %3, 0;\nsetp.ne.b32 h, %4, 0;\nmov.b16 x, 0;\nmov.b16 y, 0;\n"
      "@l ld.global.b16 x, [%1];\n@h ld.global.b16 y, [%1 + 2];\nmov.b32 %0, {x, y};\n@b ld.global.b32 %0, [%1];\n}"
      : "=&r"(word)
      : "l"(source), "r"(u32{both}), "r"(u32{low}), "r"(u32{high}));
  return word;
}

}  // namespace warpsmith::device
