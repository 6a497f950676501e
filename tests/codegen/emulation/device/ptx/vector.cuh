// Emulated vector accesses, checked for bounds and alignment.
#pragma once

#include <cstring>

#include "device/ptx/types.cuh"

namespace warpsmith::device {

template <int kCount>
void store_shared_floats(u32 address, const float* v) {
  std::memcpy(emulation::shared_bytes(*emulation::current().block, address, 4 * kCount), v, 4 * kCount);
}
template <int kCount>
void store_cluster_floats(u32 address, const float* v) {
  emulation::Block& block = *emulation::current().block->cluster->blocks.at((address >> 24) - 1);
  std::memcpy(emulation::shared_bytes(block, address & 0xffffff, 4 * kCount), v, 4 * kCount);
}
template <int kCount>
void load_shared_floats(u32 address, float* v) {
  std::memcpy(v, emulation::shared_bytes(*emulation::current().block, address, 4 * kCount), 4 * kCount);
}

template <int kBytes>
void store_global(void* target, const u32* words) {
  emulation::check_access(emulation::machine().launch->writable, target, kBytes, "store");
  std::memcpy(target, words, kBytes);
}

}  // namespace warpsmith::device
