// Emulated prmt.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

template <u32 kSelector>
u32 permute_bytes(u32 first, u32 second) {
  const u64 bytes = u64{second} << 32 | first;
  u32 word = 0;
  for (int i = 0; i < 4; ++i) word |= static_cast<u32>(bytes >> (8 * (kSelector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return word;
}

}  // namespace warpsmith::device
