// Device memory that kernels use between their phases: a region for each of the first streams, so that work on
// different streams never shares one; later ones, of programs that make stream after stream, have one for each call. A
// captured graph has regions of its own, since it may be replayed on any stream, and leaves them to later captures when
// it is gone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "library/runtime/driver.h"

namespace warpsmith::library {

// cleared: all zero when a kernel starts, and left so by it. scratch: any bytes.
enum class WorkspaceKind { cleared, scratch };

class WorkspacePool {
 public:
  // For one call.
  struct Lease {
    std::byte* address = nullptr;
    bool passing = false;  // allocated in the stream's order, for done() to free so
  };

  explicit WorkspacePool(const Driver& cuda);
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;
  ~WorkspacePool();  // frees all; the context is current and idle

  // Makes `count` cleared regions of kReservedBytes that streams take when they first need one.
  CUresult reserve(int count);

  // At least `bytes` for work on the stream. Lock-free for a stream that was here before and is not being captured.
  // CUDA_ERROR_OUT_OF_MEMORY: another time there may be some.
  CUresult get(CUstream stream, WorkspaceKind kind, std::size_t bytes, Lease* lease);
  // The work that uses it is queued.
  void done(const Lease& lease, CUstream stream) const;

  // A stream that is gone cannot be told from one that rests, unless another one has its handle.
  static constexpr int kOwners = 128;  // streams with regions of their own

  static constexpr std::size_t kReservedBytes = 4 << 20;
  static constexpr std::size_t kMostRetired = 16;  // regions of streams that are gone, kept before they are freed

 private:
  struct Region {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    WorkspaceKind kind = WorkspaceKind::scratch;
  };
  struct Slot {
    std::atomic<std::uint64_t> place{0};   // a stream's handle; 0: free
    std::atomic<std::uint64_t> stream{0};  // the stream that has it now: handles are given again
    std::array<std::atomic<const Region*>, 2> regions{};
  };
  static constexpr std::size_t kSlots = 256;            // a power of two, and sparsely filled
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // capture and stream
  // A region on its way back from a graph that is gone.
  struct Ticket;
  struct Returned;

  Slot* slot_of(std::uint64_t place);  // null: there are owners enough
  CUresult lend(CUstream stream, WorkspaceKind kind, std::size_t bytes, Lease* lease) const;
  const Region* find(Slot& slot, std::uint64_t stream, WorkspaceKind kind, std::size_t bytes, CUresult& error);
  const Region* find_captured(const Key& key, CUgraph graph, WorkspaceKind kind, std::size_t bytes, CUresult& error);
  const Region* make(WorkspaceKind kind, std::size_t bytes, CUresult& error);
  const Region* reuse(WorkspaceKind kind, std::size_t bytes);
  void collect_returned();
  void tie(const Region* region, const Key& key, CUgraph graph);
  void free_all(std::vector<const Region*>& regions);
  static void CUDA_CB give_back(void* ticket);

  const Driver& cuda_;
  std::array<Slot, kSlots> slots_;
  std::atomic<int> owners_{0};
  std::mutex mutex_;                     // of all that follows
  std::list<Region> regions_;            // all there are; old ones stay, work that is queued may use them
  std::deque<const Region*> reserved_;   // of regions_, not taken yet
  std::vector<const Region*> retired_;   // of streams that are gone; their last work may still be running
  std::vector<const Region*> reusable_;  // of graphs that are gone, with all their work
  std::map<Key, std::array<const Region*, 2>> captured_;
  std::shared_ptr<Returned> returned_;
};

}  // namespace warpsmith::library
