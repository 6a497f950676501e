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

}  // namespace warpsmith::device
