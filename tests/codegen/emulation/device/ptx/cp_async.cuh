// Emulated asynchronous copies: a copy lands when its thread waits for it, so that what does not wait sees poison.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "device/ptx/types.cuh"

namespace warpsmith::device {

struct PendingCopy {
  u32 target;
  unsigned char bytes[16];
  int count;
};
inline std::map<const emulation::Thread*, std::vector<PendingCopy>>& pending_copies() {
  static std::map<const emulation::Thread*, std::vector<PendingCopy>> pending;
  return pending;
}

template <int kBytes, int kFetch>
void cp_async(u32 target, const void* source, int valid, bool wanted) {
  if (!wanted) return;
  PendingCopy copy{target, {}, kBytes};
  if (valid > 0) {
    emulation::check_access(emulation::machine().launch->readable, source, kBytes, "asynchronous copy");
    std::memcpy(copy.bytes, source, static_cast<std::size_t>(valid));
  }
  emulation::shared_bytes(*emulation::current().block, target, kBytes);
  pending_copies()[&emulation::current()].push_back(copy);
}
inline void cp_async_commit() {}
template <int kPending>
void cp_async_wait() {
  static_assert(kPending == 0, "groups are not told apart here");
  auto& pending = pending_copies()[&emulation::current()];
  for (const PendingCopy& copy : pending) {
    std::memcpy(emulation::shared_bytes(*emulation::current().block, copy.target, copy.count), copy.bytes,
                static_cast<std::size_t>(copy.count));
  }
  pending.clear();
}

}  // namespace warpsmith::device
