// The thread-local cache lies on the heap: thread-local storage of that size would not fit threads with small stacks.
#include "library/runtime/thread_cache.h"

#include <atomic>
#include <memory>
#include <new>

namespace warpsmith::library {

MapCache* thread_map_cache() {
  thread_local std::unique_ptr<MapCache> cache;
  if (cache == nullptr) cache.reset(new (std::nothrow) MapCache());
  return cache.get();
}

std::uint64_t next_map_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::uint64_t thread_id() {
  thread_local const char here = 0;
  return reinterpret_cast<std::uintptr_t>(&here);
}

}  // namespace warpsmith::library
