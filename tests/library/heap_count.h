// Counts what the calling thread takes from the heap by operator new, of this program and of what it links statically.
#pragma once

#include <cstdint>

namespace warpsmith::library {

std::int64_t heap_allocations();

}  // namespace warpsmith::library
