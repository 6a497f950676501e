// operator new, counted. In a file of its own, so that no compiler sees new and delete as a mismatched pair.
#include "heap_count.h"

#include <cstdlib>
#include <new>

namespace {
thread_local std::int64_t allocations = 0;
}

std::int64_t warpsmith::library::heap_allocations() { return allocations; }

void* operator new(std::size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
