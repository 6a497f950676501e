// What the model needs of a machine, in clock cycles, with architectural limits that drivers do not report.
#pragma once

#include <cstdint>

#include "problem/machine.h"

namespace warpsmith::model {

struct Device {
  double units = 1;          // multiprocessors
  double cycles_per_us = 0;  // boost clock
  double tensor_flops = 0;   // dense half precision, a cycle and multiprocessor
  double dram_bytes = 0;     // a cycle, at the data sheet's bandwidth
  double l2_bytes = 0;       // capacity
  std::int64_t smem_bytes_per_unit = 0;
  std::int64_t registers_per_unit = 0;
  int threads_per_unit = 0, blocks_per_unit = 0;
};

// Unknown facts of the machine (0) take those of a typical device of its compute capability.
Device device_of(const Machine& machine);

// What one block occupies.
struct Footprint {
  int threads = 0;
  int registers = 0;  // per thread
  std::int64_t smem_bytes = 0;
};

// Blocks that one multiprocessor holds at a time, by the rules of CUDA: registers are given to warps in units of 256,
// shared memory to blocks in units of 128 bytes, 1 KiB of it reserved by the system; at least 1.
int resident_blocks(const Footprint& block, const Device& device);

}  // namespace warpsmith::model
