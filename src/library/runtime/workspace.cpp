// Regions by stream and by captured graph.
#include "library/runtime/workspace.h"

#include <algorithm>
#include <bit>

#include "library/runtime/thread_cache.h"

namespace warpsmith::library {

namespace {

constexpr std::size_t kSmallestRegion = 1 << 20;

constexpr std::uint64_t kDefaultPlace = 3;  // none of CUDA's handles

// Every thread has a per-thread default stream of its own under one handle. Never 0: stream handles are addresses or
// small numbers, the default stream's 0 becomes kDefaultPlace.
std::uint64_t place_of(CUstream stream) {
  constexpr std::uintptr_t kDefault = 0, kLegacy = 1, kPerThread = 2;  // CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (handle == kPerThread) return thread_id() | 1;
  return handle == kDefault || handle == kLegacy ? kDefaultPlace : handle;
}

}  // namespace

// CUDA runs the destructors of graphs on threads of its own, maybe after the pool is gone, and they may call nothing of
// CUDA's: they only link tickets here. Its mutex is never held while CUDA is called.
struct WorkspacePool::Returned {
  Returned() = default;
  Returned(const Returned&) = delete;
  Returned& operator=(const Returned&) = delete;
  ~Returned();
  std::mutex mutex;
  Ticket* first = nullptr;
};

struct WorkspacePool::Ticket {
  std::shared_ptr<Returned> to;
  Key key;
  const Region* region = nullptr;
  Ticket* next = nullptr;
};

WorkspacePool::Returned::~Returned() {
  while (first != nullptr) delete std::exchange(first, first->next);
}

WorkspacePool::WorkspacePool(const Driver& cuda) : cuda_(cuda), returned_(std::make_shared<Returned>()) {}

WorkspacePool::~WorkspacePool() {
  for (const Region& region : regions_) cuda_.memory_free(region.address);
}

void WorkspacePool::give_back(void* data) {
  auto* ticket = static_cast<Ticket*>(data);
  const std::shared_ptr<Returned> to = std::move(ticket->to);
  const std::lock_guard lock(to->mutex);
  ticket->next = std::exchange(to->first, ticket);
}

// Under the lock.
void WorkspacePool::collect_returned() {
  Ticket* ticket = nullptr;
  {
    const std::lock_guard lock(returned_->mutex);
    ticket = std::exchange(returned_->first, nullptr);
  }
  while (ticket != nullptr) {
    const std::unique_ptr<Ticket> done(std::exchange(ticket, ticket->next));
    if (done->region == nullptr) continue;
    captured_.erase(done->key);
    reusable_.push_back(done->region);
  }
}

// The region comes back when the graph is gone, with every executable made from it. Where the driver does not take
// that on, the region stays with the graph's capture until the pool goes.
void WorkspacePool::tie(const Region* region, const Key& key, CUgraph graph) {
  if (graph == nullptr || cuda_.user_object_create == nullptr || cuda_.user_object_release == nullptr ||
      cuda_.graph_retain == nullptr) {
    return;
  }
  auto ticket = std::make_unique<Ticket>();
  ticket->to = returned_;
  ticket->key = key;
  CUuserObject object = nullptr;
  if (cuda_.user_object_create(&object, ticket.get(), give_back, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) !=
      CUDA_SUCCESS) {
    return;
  }
  Ticket* kept = ticket.release();
  kept->region = region;
  if (cuda_.graph_retain(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS) return;
  kept->region = nullptr;
  cuda_.user_object_release(object, 1);
}

// Under the lock. cuMemFree waits for the work that is left.
void WorkspacePool::free_all(std::vector<const Region*>& regions) {
  for (const Region* region : regions) {
    cuda_.memory_free(region->address);
    regions_.remove_if([&](const Region& each) { return &each == region; });
  }
  regions.clear();
}

// Under the lock. Zeroed on a stream of its own, which no capture sees.
const WorkspacePool::Region* WorkspacePool::make(WorkspaceKind kind, std::size_t bytes, CUresult& error) {
  if (kind == WorkspaceKind::cleared && bytes <= kReservedBytes && !reserved_.empty()) {
    const Region* region = reserved_.front();
    reserved_.pop_front();
    return region;
  }
  const RelaxedCapture relaxed(cuda_);
  if (retired_.size() >= kMostRetired) free_all(retired_);
  Region region;
  region.kind = kind;
  region.bytes = std::bit_ceil(std::max(bytes, kSmallestRegion));
  error = cuda_.memory_allocate(&region.address, region.bytes);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    collect_returned();
    if (!retired_.empty() || !reusable_.empty()) {
      free_all(retired_);
      free_all(reusable_);
      error = cuda_.memory_allocate(&region.address, region.bytes);
    }
  }
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

// Under the lock. The smallest of the regions that graphs have left which is large enough; kernels leave cleared ones
// cleared.
const WorkspacePool::Region* WorkspacePool::reuse(WorkspaceKind kind, std::size_t bytes) {
  auto best = reusable_.end();
  for (auto at = reusable_.begin(); at != reusable_.end(); ++at) {
    if ((*at)->kind != kind || (*at)->bytes < bytes) continue;
    if (best == reusable_.end() || (*at)->bytes < (*best)->bytes) best = at;
  }
  if (best == reusable_.end()) return nullptr;
  const Region* region = *best;
  reusable_.erase(best);
  return region;
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

WorkspacePool::Slot* WorkspacePool::slot_of(std::uint64_t place) {
  const std::size_t start = place * 0x9e3779b97f4a7c15ULL >> 56;
  static_assert(kSlots == 256, "the hash's top 8 bits");
  for (std::size_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[(start + i) % kSlots];
    std::uint64_t known = slot.place.load(std::memory_order_acquire);
    if (known == 0) {
      if (owners_.fetch_add(1, std::memory_order_relaxed) < kOwners &&
          slot.place.compare_exchange_strong(known, place, std::memory_order_acq_rel)) {
        return &slot;
      }
      owners_.fetch_sub(1, std::memory_order_relaxed);
      if (known == 0) return nullptr;
    }
    if (known == place) return &slot;
  }
  return nullptr;
}

CUresult WorkspacePool::lend(CUstream stream, WorkspaceKind kind, std::size_t bytes, Lease* lease) const {
  if (cuda_.memory_allocate_async == nullptr || cuda_.memory_free_async == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr address = 0;
  if (const CUresult error = cuda_.memory_allocate_async(&address, bytes, stream)) {
    return error == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_OUT_OF_MEMORY : error;  // a device without memory pools
  }
  *lease = {reinterpret_cast<std::byte*>(address), true};
  if (kind == WorkspaceKind::scratch) return CUDA_SUCCESS;
  const CUresult cleared = cuda_.memory_set(address, 0, bytes, stream);
  if (cleared != CUDA_SUCCESS) done(*lease, stream);
  return cleared;
}

void WorkspacePool::done(const Lease& lease, CUstream stream) const {
  if (lease.passing) cuda_.memory_free_async(reinterpret_cast<CUdeviceptr>(lease.address), stream);
}

const WorkspacePool::Region* WorkspacePool::find(Slot& slot, std::uint64_t stream, WorkspaceKind kind,
                                                 std::size_t bytes, CUresult& error) {
  std::atomic<const Region*>& known = slot.regions[static_cast<std::size_t>(kind)];
  if (slot.stream.load(std::memory_order_acquire) == stream) {
    const Region* region = known.load(std::memory_order_acquire);
    if (region != nullptr && region->bytes >= bytes) return region;
  }
  const std::lock_guard lock(mutex_);
  if (slot.stream.load(std::memory_order_relaxed) != stream) {
    for (std::atomic<const Region*>& each : slot.regions) {
      if (const Region* left = each.exchange(nullptr)) retired_.push_back(left);
    }
    slot.stream.store(stream, std::memory_order_release);
  }
  const Region* region = known.load(std::memory_order_acquire);
  if (region != nullptr && region->bytes >= bytes) return region;
  region = make(kind, bytes, error);
  if (region != nullptr) known.store(region, std::memory_order_release);
  return region;
}

const WorkspacePool::Region* WorkspacePool::find_captured(const Key& key, CUgraph graph, WorkspaceKind kind,
                                                          std::size_t bytes, CUresult& error) {
  const std::lock_guard lock(mutex_);
  collect_returned();
  const Region*& known = captured_[key][static_cast<std::size_t>(kind)];
  if (known != nullptr && known->bytes >= bytes) return known;
  const Region* region = reuse(kind, bytes);
  if (region == nullptr) region = make(kind, bytes, error);
  if (region == nullptr) return nullptr;
  known = region;
  tie(region, key, graph);
  return region;
}

CUresult WorkspacePool::get(CUstream stream, WorkspaceKind kind, std::size_t bytes, Lease* lease) {
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  CUgraph graph = nullptr;
  if (const CUresult asked = cuda_.capture_info(stream, &capturing, &capture, &graph, nullptr, nullptr)) return asked;
  const std::uint64_t place = place_of(stream);
  std::uint64_t id = place;
  // The default stream stays what it is, and one that is being captured must not be asked (the call would fail, and the
  // capture with it): until the capture ends, its handle is nobody else's.
  const bool captured = capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (cuda_.stream_id != nullptr && place != kDefaultPlace && !captured) {
    unsigned long long given = 0;
    if (const CUresult asked = cuda_.stream_id(stream, &given)) return asked;
    id = given + 1;  // 0 is nobody's
  }
  CUresult error = CUDA_SUCCESS;
  const Region* region = nullptr;
  if (captured) {
    region = find_captured({capture, id}, graph, kind, bytes, error);
  } else if (Slot* const slot = slot_of(place)) {
    region = find(*slot, id, kind, bytes, error);
  } else {
    return lend(stream, kind, bytes, lease);
  }
  if (region == nullptr) return error;
  *lease = {reinterpret_cast<std::byte*>(region->address), false};
  return CUDA_SUCCESS;
}

}  // namespace warpsmith::library
