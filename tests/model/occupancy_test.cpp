// Occupancy against the rules of CUDA, worked out by hand, and what follows from a machine's facts.
#include <gtest/gtest.h>

#include "machines.h"
#include "model/device.h"

namespace warpsmith::model {
namespace {

using testing::ampere;
using testing::hopper;

TEST(Occupancy, SharedMemoryLimits) {
  const Device device = device_of(hopper());
  EXPECT_EQ(device.smem_bytes_per_unit, 233'472);  // 228 KiB
  // 233472 / (65536 + 1024) = 3.5
  EXPECT_EQ(resident_blocks({.threads = 128, .registers = 32, .smem_bytes = 65'536}, device), 3);
  // 233472 / (75776 + 1024) = 3.04; 128 bytes more, and it is 2
  EXPECT_EQ(resident_blocks({.threads = 128, .registers = 32, .smem_bytes = 76'800}, device), 3);
  EXPECT_EQ(resident_blocks({.threads = 128, .registers = 32, .smem_bytes = 76'801}, device), 2);
  EXPECT_EQ(resident_blocks({.threads = 128, .registers = 32, .smem_bytes = 232'448}, device), 1);
}

TEST(Occupancy, RegistersLimit) {
  const Device device = device_of(hopper());
  // 168 registers: 5376 a warp, 3 warps in each quarter of 16384, so 12 warps: one block of 12.
  EXPECT_EQ(resident_blocks({.threads = 384, .registers = 168, .smem_bytes = 0}, device), 1);
  // 128 registers: 4096 a warp, 16 warps: 4 blocks of 4, 3 of 5.
  EXPECT_EQ(resident_blocks({.threads = 128, .registers = 128, .smem_bytes = 0}, device), 4);
  EXPECT_EQ(resident_blocks({.threads = 160, .registers = 128, .smem_bytes = 0}, device), 3);
  // 129 are given as 136: 4352 a warp, 3 in a quarter, 12 warps: 3 blocks of 4.
  EXPECT_EQ(resident_blocks({.threads = 128, .registers = 129, .smem_bytes = 0}, device), 3);
}

TEST(Occupancy, ThreadsAndBlocksLimit) {
  const Device device = device_of(hopper());
  EXPECT_EQ(resident_blocks({.threads = 1024, .registers = 32, .smem_bytes = 0}, device), 2);         // 2048 threads
  EXPECT_EQ(resident_blocks({.threads = 32, .registers = 32, .smem_bytes = 0}, device), 32);          // 32 blocks
  EXPECT_EQ(resident_blocks({.threads = 33, .registers = 32, .smem_bytes = 0}, device), 32);          // two warps each
  EXPECT_EQ(resident_blocks({.threads = 2048, .registers = 255, .smem_bytes = 1 << 20}, device), 1);  // at least
}

TEST(DeviceFacts, FollowFromTheMachine) {
  const Device h200 = device_of(hopper());
  EXPECT_NEAR(h200.cycles_per_us, 1980, 1);
  EXPECT_NEAR(h200.dram_bytes, 4814.304 / 1.98, 1);
  EXPECT_EQ(h200.tensor_flops, 4096);
  // Unknown facts are those of a typical device.
  const Device a100 = device_of(ampere());
  EXPECT_NEAR(a100.cycles_per_us, 1410, 1);
  EXPECT_NEAR(a100.dram_bytes, 1555 / 1.41, 1);
  EXPECT_EQ(a100.tensor_flops, 2048);
  Machine unheard_of;
  unheard_of.compute_capability = 120;
  EXPECT_GT(device_of(unheard_of).cycles_per_us, 0);
}

}  // namespace
}  // namespace warpsmith::model
