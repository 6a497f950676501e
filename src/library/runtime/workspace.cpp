// Regions by stream.
#include "library/runtime/workspace.h"

#include <algorithm>
#include <bit>

#include "library/runtime/thread_cache.h"

namespace warpsmith::library {

namespace {

constexpr std::size_t kSmallestRegion = 1 << 20;

// Every thread has a per-thread default stream of its own under one handle. Never 0: stream handles are addresses or
// small numbers, the default stream's 0 becomes 3, which is none of CUDA's.
std::uint64_t owner_of(CUstream stream) {
  constexpr std::uintptr_t kDefault = 0, kLegacy = 1, kPerThread = 2;  // CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (handle == kPerThread) return thread_id() | 1;
  return handle == kDefault || handle == kLegacy ? 3 : handle;
}

}  // namespace

WorkspacePool::~WorkspacePool() {
  for (const Region& region : regions_) cuda_.memory_free(region.address);
}

// Under the lock. Zeroed on a stream of its own, which no capture sees.
const WorkspacePool::Region* WorkspacePool::make(WorkspaceKind kind, std::size_t bytes, CUresult& error) {
  if (kind == WorkspaceKind::cleared && bytes <= kReservedBytes && !reserved_.empty()) {
    const Region* region = reserved_.front();
    reserved_.pop_front();
    return region;
  }
  const RelaxedCapture relaxed(cuda_);
  Region region;
  region.bytes = std::bit_ceil(std::max(bytes, kSmallestRegion));
  error = cuda_.memory_allocate(&region.address, region.bytes);
  if (error == CUDA_SUCCESS && kind == WorkspaceKind::cleared) {
    CUstream stream = nullptr;
    error = cuda_.stream_create(&stream, CU_STREAM_NON_BLOCKING);
    if (error == CUDA_SUCCESS) {
      error = cuda_.memory_set(region.address, 0, region.bytes, stream);
      if (error == CUDA_SUCCESS) error = cuda_.stream_synchronize(stream);
      cuda_.stream_destroy(stream);
    }
    if (error != CUDA_SUCCESS) cuda_.memory_free(region.address);
  }
  if (error != CUDA_SUCCESS) return nullptr;
  regions_.push_back(region);
  return &regions_.back();
}

CUresult WorkspacePool::reserve(int count) {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) {
    CUresult error = CUDA_SUCCESS;
    const Region* region = nullptr;
    {
      std::deque<const Region*> taken;
      taken.swap(reserved_);  // so that a new one is made
      region = make(WorkspaceKind::cleared, kReservedBytes, error);
      reserved_.swap(taken);
    }
    if (region == nullptr) return error;
    reserved_.push_back(region);
  }
  return CUDA_SUCCESS;
}

WorkspacePool::Slot* WorkspacePool::slot_of(std::uint64_t owner) {
  const std::size_t start = owner * 0x9e3779b97f4a7c15ULL >> 56;
  static_assert(kSlots == 256, "the hash's top 8 bits");
  constexpr std::size_t kProbes = 16;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Slot& slot = slots_[(start + i) % kSlots];
    std::uint64_t known = slot.owner.load(std::memory_order_acquire);
    if (known == owner) return &slot;
    if (known == 0 && slot.owner.compare_exchange_strong(known, owner, std::memory_order_acq_rel)) return &slot;
    if (known == owner) return &slot;
  }
  return nullptr;
}

const WorkspacePool::Region* WorkspacePool::find(std::atomic<const Region*>& known, WorkspaceKind kind,
                                                 std::size_t bytes, CUresult& error) {
  const Region* region = known.load(std::memory_order_acquire);
  if (region != nullptr && region->bytes >= bytes) return region;
  const std::lock_guard lock(mutex_);
  region = known.load(std::memory_order_acquire);
  if (region != nullptr && region->bytes >= bytes) return region;
  region = make(kind, bytes, error);
  if (region != nullptr) known.store(region, std::memory_order_release);
  return region;
}

CUresult WorkspacePool::get_locked(const Key& key, WorkspaceKind kind, std::size_t bytes, std::byte** address) {
  std::atomic<const Region*>* known = nullptr;
  {
    const std::lock_guard lock(mutex_);
    known = &others_[key][static_cast<std::size_t>(kind)];
  }
  CUresult error = CUDA_SUCCESS;
  const Region* region = find(*known, kind, bytes, error);
  if (region == nullptr) return error;
  *address = reinterpret_cast<std::byte*>(region->address);
  return CUDA_SUCCESS;
}

CUresult WorkspacePool::get(CUstream stream, WorkspaceKind kind, std::size_t bytes, std::byte** address) {
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  const std::uint64_t owner = owner_of(stream);
  if (const CUresult asked = cuda_.capture_info(stream, &capturing, &capture, nullptr, nullptr, nullptr)) return asked;
  if (capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE) return get_locked({capture, owner}, kind, bytes, address);
  Slot* slot = slot_of(owner);
  if (slot == nullptr) return get_locked({0, owner}, kind, bytes, address);
  CUresult error = CUDA_SUCCESS;
  const Region* region = find(slot->regions[static_cast<std::size_t>(kind)], kind, bytes, error);
  if (region == nullptr) return error;
  *address = reinterpret_cast<std::byte*>(region->address);
  return CUDA_SUCCESS;
}

}  // namespace warpsmith::library
