// Machine: the facts about a device that legality, floors and reports depend on, and the physical floors they imply.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "problem/problem.h"

namespace warpsmith {

// What a kernel is built for. sm90 and sm80 are CUDA architectures; a compute-capability 9.0 GPU runs both.
enum class Target { cpu, sm80, sm90 };
std::string_view to_string(Target);
Result<Target> parse_target(std::string_view text);  // error: bad_input
inline bool is_cuda(Target target) { return target != Target::cpu; }

struct Machine {
  std::string name;                       // "NVIDIA H200", "AMD EPYC 9B14"
  std::string kind;                       // "cpu" or "cuda"
  int compute_capability = 0;             // 90 for 9.0; 0 on a CPU
  int units = 1;                          // streaming multiprocessors, or the CPU threads that a kernel may use
  std::int64_t smem_bytes_per_block = 0;  // opt-in limit of shared memory per block (CUDA)
  std::int64_t registers_per_unit = 0;    // 32-bit registers per SM (CUDA)
  // Clusters of 2, 4, 8 and 16 blocks, each block a multiprocessor of its own, that run at once (CUDA); 0: unknown.
  std::array<int, 4> resident_clusters{};
  std::int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;   // data caches: per core, per core (GPU: whole), shared
  bool avx2 = false, avx512 = false, avx512_fp16 = false;  // with FMA and F16C (CPU)
  double peak_gflops = 0;      // measured on the spot (CPU, with `units` threads) or from clocks (CUDA); 0: unknown
  double peak_gb_per_s = 0;    // memory bandwidth; 0: unknown
  double launch_floor_us = 0;  // shortest possible launch; 0: unknown
  // Everything else worth writing down beside a measurement: driver, toolkit, library and compiler versions.
  std::map<std::string, std::string> versions;

  // Identifies the machine in the archive: kind, name, units and capability, not the versions.
  std::string id() const;
};

// A GPU of a compute capability, to make kernels for without having one: "sm_80" (A100), "sm_86" (RTX 3090), "sm_89"
// (L40) or "sm_90" (H200). Speeds and clusters are unknown. Error: bad_input.
Result<Machine> machine_of_architecture(std::string_view name);

void to_json(nlohmann::json& json, const Machine& machine);
void from_json(const nlohmann::json& json, Machine& machine);

// No correct kernel is faster: the largest of flops at peak, bytes at peak bandwidth (cold operands only) and the
// launch floor, in microseconds. Of C's bytes as many are left out as the last cache holds: they may leave it after the
// time was taken. Unknown peaks contribute 0.
double physical_floor_us(const Problem& problem, const Machine& machine, bool operands_cold);

}  // namespace warpsmith
