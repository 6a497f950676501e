// Device memory that kernels use between their phases: one region for each stream, so that work on different streams
// never shares one. A captured graph gets regions of its own, since it may be replayed on any stream.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "library/runtime/driver.h"

namespace warpsmith::library {

// cleared: all zero when a kernel starts, and left so by it. scratch: any bytes.
enum class WorkspaceKind { cleared, scratch };

class WorkspacePool {
 public:
  explicit WorkspacePool(const Driver& cuda) : cuda_(cuda) {}
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;
  ~WorkspacePool();  // frees all; the context is current and idle

  // Makes `count` cleared regions of kReservedBytes that streams take when they first need one.
  CUresult reserve(int count);

  // At least `bytes` for work on the stream. Lock-free for a stream that was here before and is not being captured.
  CUresult get(CUstream stream, WorkspaceKind kind, std::size_t bytes, std::byte** address);

  static constexpr std::size_t kReservedBytes = 4 << 20;

 private:
  struct Region {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
  };
  struct Slot {
    std::atomic<std::uint64_t> owner{0};  // a stream; 0: free
    std::array<std::atomic<const Region*>, 2> regions{};
  };
  static constexpr std::size_t kSlots = 256;            // streams beyond that take the lock; a power of two
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // capture (0: none) and stream

  Slot* slot_of(std::uint64_t owner);
  const Region* find(std::atomic<const Region*>& known, WorkspaceKind kind, std::size_t bytes, CUresult& error);
  const Region* make(WorkspaceKind kind, std::size_t bytes, CUresult& error);
  CUresult get_locked(const Key& key, WorkspaceKind kind, std::size_t bytes, std::byte** address);

  const Driver& cuda_;
  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;
  std::deque<Region> regions_;          // all there are; old ones stay, work that is queued may use them
  std::deque<const Region*> reserved_;  // of regions_, not taken yet
  std::map<Key, std::array<std::atomic<const Region*>, 2>> others_;
};

}  // namespace warpsmith::library
