// Emulated conversions, to nearest even.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

template <Element kElement>
u16 from_float(float value) {
  u16 bits = 0;
  if constexpr (kElement == Element::f16) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(&bits, &half, sizeof bits);
  } else {
    u32 word = 0;
    std::memcpy(&word, &value, sizeof word);
    bits = static_cast<u16>((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  return bits;
}
template <Element kElement>
float to_float(u16 bits) {
  if constexpr (kElement == Element::f16) {
    _Float16 half;
    std::memcpy(&half, &bits, sizeof half);
    return static_cast<float>(half);
  } else {
    const u32 word = static_cast<u32>(bits) << 16;
    float value = 0;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
}

template <Element kElement>
u32 pack(float low, float high) {
  return from_float<kElement>(low) | static_cast<u32>(from_float<kElement>(high)) << 16;
}
struct FloatPair {
  float x, y;
};
template <Element kElement>
FloatPair unpack(u32 word) {
  return {to_float<kElement>(static_cast<u16>(word)), to_float<kElement>(static_cast<u16>(word >> 16))};
}

}  // namespace warpsmith::device
