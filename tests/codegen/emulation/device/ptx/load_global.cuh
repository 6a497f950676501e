// Emulated global loads, checked for bounds and alignment; hints mean nothing here.
#pragma once

#include <cstring>

#include "device/ptx/types.cuh"

namespace warpsmith::device {

enum class LoadHint { keep, stream, evict_first };

template <LoadHint>
u64 load_policy() {
  return 0;
}

template <int kBytes, LoadHint, int>
void load_global(const void* source, bool valid, u64, u32* words) {
  std::memset(words, 0, kBytes < 4 ? 4 : kBytes);
  if (!valid) return;
  emulation::check_access(emulation::machine().launch->readable, source, kBytes, "load");
  std::memcpy(words, source, kBytes);
}

inline u32 load_global_pair(const void* source, bool both, bool low, bool high) {
  u32 word = 0, upper = 0;
  if (both) {
    load_global<4, LoadHint::keep, 0>(source, true, 0, &word);
    return word;
  }
  load_global<2, LoadHint::keep, 0>(source, low, 0, &word);
  load_global<2, LoadHint::keep, 0>(static_cast<const u16*>(source) + 1, high, 0, &upper);
  return word | upper << 16;
}

}  // namespace warpsmith::device
