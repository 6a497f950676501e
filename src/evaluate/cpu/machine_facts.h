// Facts about this CPU: instruction sets, caches, and measured peaks of arithmetic and memory.
#pragma once

#include <cstdint>
#include <string>

#include "evaluate/cpu/thread_pool.h"
#include "problem/machine.h"

namespace warpsmith {

// What the worker's own code needs (AVX2, FMA, F16C); the message says what is missing.
Status require_cpu_features();

// The model as /proc/cpuinfo names it.
std::string cpu_model_name();

// Measures peaks with all threads of the pool; takes a few tenths of a second.
Machine measure_machine(ThreadPool& pool);

}  // namespace warpsmith
