// Encoded tensor maps, kept for each thread: a map depends on the operand's address and on the launch that reads it, so
// a call on operands seen before encodes nothing.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

namespace warpsmith::library {

inline constexpr int kMostMaps = 4;            // tensor maps of one kernel
inline constexpr std::size_t kMapSlots = 256;  // a power of two; of each of a kernel's maps

// One line of the cache. Kernels copy the map when they are launched, so a slot may be overwritten right after.
struct alignas(64) MapSlot {
  CUtensorMap map;
  const void* address = nullptr;
  std::uint64_t id = 0;  // of the map's description, unique in the process; 0: empty
};

// A kernel's maps lie in banks of their own, so that they never displace one another.
struct MapCache {
  std::array<std::array<MapSlot, kMapSlots>, kMostMaps> banks;

  MapSlot& slot(int bank, std::uint64_t id, const void* address) {
    const std::uint64_t hash = (reinterpret_cast<std::uintptr_t>(address) ^ (id << 40)) * 0x9e3779b97f4a7c15ULL;
    return banks[static_cast<std::size_t>(bank)][hash >> 56 & (kMapSlots - 1)];
  }
};
static_assert(kMapSlots == 256, "slot() takes the hash's top 8 bits");

// The calling thread's; made at its first use, freed when the thread ends. Null when memory ran out.
MapCache* thread_map_cache();

// A new id for a map's description.
std::uint64_t next_map_id();

// Distinct for every thread that lives, never 0.
std::uint64_t thread_id();

}  // namespace warpsmith::library
