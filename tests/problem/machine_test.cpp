// Machines: targets, identity, JSON and physical floors.
#include "problem/machine.h"

#include <gtest/gtest.h>

namespace warpsmith {
namespace {

Machine make_machine() {
  Machine machine;
  machine.name = "NVIDIA H200";
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = 132;
  machine.smem_bytes_per_block = 232'448;
  machine.registers_per_unit = 65'536;
  machine.resident_clusters = {66, 30, 15, 7};
  machine.l2_bytes = 50 << 20;
  machine.peak_gflops = 1'000'000;
  machine.peak_gb_per_s = 4'000;
  machine.launch_floor_us = 0.5;
  machine.versions = {{"driver", "580"}, {"cublas", "13.1"}};
  return machine;
}

TEST(Target, RoundTripsAndRefusesOthers) {
  for (const Target target : {Target::cpu, Target::sm80, Target::sm90}) {
    EXPECT_EQ(parse_target(to_string(target)).value(), target);
  }
  const auto unknown = parse_target("sm70");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::bad_input);
  EXPECT_NE(unknown.error().message.find("cpu, sm80, sm90"), std::string::npos);
  EXPECT_FALSE(is_cuda(Target::cpu));
  EXPECT_TRUE(is_cuda(Target::sm80));
}

TEST(Machine, RoundTripsThroughJson) {
  Machine machine = make_machine();
  machine.avx2 = machine.avx512 = machine.avx512_fp16 = true;
  machine.l1_bytes = 1;
  machine.l3_bytes = 3;
  const auto copy = nlohmann::json::parse(nlohmann::json(machine).dump()).get<Machine>();
  EXPECT_EQ(nlohmann::json(copy), nlohmann::json(machine));
  EXPECT_EQ(copy.resident_clusters, machine.resident_clusters);
  EXPECT_EQ(copy.versions, machine.versions);
  EXPECT_EQ(copy.id(), machine.id());
  EXPECT_TRUE(copy.avx512_fp16);
}

TEST(Machine, KnownArchitecturesHaveTheirSharedMemory) {
  const auto kib = [](const char* name) { return machine_of_architecture(name).value().smem_bytes_per_block / 1024; };
  EXPECT_EQ(kib("sm_80"), 163);
  EXPECT_EQ(kib("sm_86"), 99);
  EXPECT_EQ(kib("sm_89"), 99);
  EXPECT_EQ(kib("sm_90"), 227);
  EXPECT_EQ(machine_of_architecture("sm_86").value().compute_capability, 86);
  const auto unknown = machine_of_architecture("sm_75");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::bad_input);
  EXPECT_NE(unknown.error().message.find("sm_80, sm_86"), std::string::npos);
}

TEST(Machine, IdentityIgnoresVersionsAndMeasurements) {
  const Machine machine = make_machine();
  Machine other = machine;
  other.versions["driver"] = "590";
  other.peak_gflops = 900'000;
  EXPECT_EQ(other.id(), machine.id());
  other.units = 114;
  EXPECT_NE(other.id(), machine.id());
  other = machine;
  other.name = "NVIDIA H100";
  EXPECT_NE(other.id(), machine.id());
}

TEST(PhysicalFloor, IsTheLargestOfThree) {
  const Machine machine = make_machine();
  // 2 * 4096^3 flop at 10^15 flop/s.
  const Problem large{.m = 4096, .n = 4096, .k = 4096};
  EXPECT_NEAR(physical_floor_us(large, machine, true), 137.4, 0.1);
  // 64 x 8192 times 8192 x 64: 8.6e7 flop take 0.086 us, 2.1 MB of operands at 4 TB/s 0.524 us.
  const Problem narrow{.m = 64, .n = 64, .k = 8192};
  EXPECT_NEAR(physical_floor_us(narrow, machine, true), 0.524, 0.001);
  EXPECT_EQ(physical_floor_us(narrow, machine, false), 0.5) << "warm operands need no memory bandwidth";
  const Problem tiny{.m = 1, .n = 1, .k = 1};
  EXPECT_EQ(physical_floor_us(tiny, machine, true), 0.5);
}

TEST(PhysicalFloor, LeavesOutWhatOfCMayStayInTheCache) {
  Machine machine = make_machine();
  machine.l2_bytes = 40 << 20;
  machine.l3_bytes = 0;
  // 8192 x 64 times 64 x 8192: 2.1 MB are read and 134.2 MB written, of which 41.9 may stay, at 4 TB/s.
  const Problem wide{.m = 8192, .n = 8192, .k = 64};
  EXPECT_NEAR(physical_floor_us(wide, machine, true), 23.59, 0.01);
  // All of a small C may stay: 64 x 8192 times 8192 x 64 reads 2.1 MB.
  EXPECT_NEAR(physical_floor_us({.m = 64, .n = 64, .k = 8192}, machine, true), 0.524, 0.001);
  machine.l3_bytes = 1 << 30;
  EXPECT_NEAR(physical_floor_us(wide, machine, true), 8.59, 0.01) << "8.6e9 flop at 10^15 flop/s";
}

TEST(PhysicalFloor, UnknownPeaksContributeNothing) {
  Machine machine = make_machine();
  machine.peak_gflops = machine.peak_gb_per_s = machine.launch_floor_us = 0;
  EXPECT_EQ(physical_floor_us({.m = 4096, .n = 4096, .k = 4096}, machine, true), 0);
}

}  // namespace
}  // namespace warpsmith
