// Architectural limits by compute capability, and the occupancy rules of CUDA.
#include "model/device.h"

#include <algorithm>

namespace warpsmith::model {

namespace {

constexpr std::int64_t kReservedSmem = 1024;  // of each block, by the system

struct Architecture {
  int compute_capability;
  double tensor_flops;  // a cycle and multiprocessor
  int threads, blocks;  // resident on a multiprocessor
  std::int64_t smem_bytes;
  double clock_ghz, dram_gb_per_s;  // typical, where the machine does not say
};
constexpr Architecture kArchitectures[] = {
    {80, 2048, 2048, 32, 164 << 10, 1.41, 1555}, {86, 1024, 1536, 16, 100 << 10, 1.70, 936},
    {87, 2048, 1536, 16, 164 << 10, 1.30, 205},  {89, 1024, 1536, 24, 100 << 10, 2.50, 864},
    {90, 4096, 2048, 32, 228 << 10, 1.98, 4800}, {100, 8192, 2048, 32, 228 << 10, 1.90, 8000},
};

const Architecture& architecture_of(int compute_capability) {
  const Architecture* found = &kArchitectures[0];
  for (const Architecture& each : kArchitectures) {
    if (each.compute_capability <= compute_capability) found = &each;
  }
  return *found;
}

}  // namespace

Device device_of(const Machine& machine) {
  const Architecture& architecture = architecture_of(machine.compute_capability);
  Device device;
  device.units = std::max(1, machine.units);
  device.tensor_flops = architecture.tensor_flops;
  const double clock_ghz =
      machine.peak_gflops > 0 ? machine.peak_gflops / (device.units * device.tensor_flops) : architecture.clock_ghz;
  device.cycles_per_us = 1e3 * clock_ghz;
  const double gb_per_s = machine.peak_gb_per_s > 0 ? machine.peak_gb_per_s : architecture.dram_gb_per_s;
  device.dram_bytes = gb_per_s / clock_ghz;
  device.l2_bytes = machine.l2_bytes > 0 ? static_cast<double>(machine.l2_bytes) : 40e6;
  device.smem_bytes_per_unit =
      machine.smem_bytes_per_block > 0 ? machine.smem_bytes_per_block + kReservedSmem : architecture.smem_bytes;
  device.registers_per_unit = machine.registers_per_unit > 0 ? machine.registers_per_unit : 65'536;
  device.threads_per_unit = architecture.threads;
  device.blocks_per_unit = architecture.blocks;
  return device;
}

int resident_blocks(const Footprint& block, const Device& device) {
  const auto round_up = [](std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; };
  const std::int64_t warps = (std::max(1, block.threads) + 31) / 32;
  const std::int64_t by_threads = device.threads_per_unit / (32 * warps);
  const std::int64_t by_smem = device.smem_bytes_per_unit / (round_up(block.smem_bytes, 128) + kReservedSmem);
  // Warps are spread over four schedulers, each with a quarter of the registers.
  const std::int64_t warp_registers = round_up(std::int64_t{32} * std::max(1, block.registers), 256);
  const std::int64_t by_registers = 4 * (device.registers_per_unit / 4 / warp_registers) / warps;
  const std::int64_t fits = std::min({by_threads, by_smem, by_registers, std::int64_t{device.blocks_per_unit}});
  return static_cast<int>(std::max<std::int64_t>(1, fits));
}

}  // namespace warpsmith::model
