// Machine facts as JSON, and the physical floors they imply.
#include "problem/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace warpsmith {

std::string_view to_string(Target target) {
  switch (target) {
    case Target::cpu:
      return "cpu";
    case Target::sm80:
      return "sm80";
    case Target::sm90:
      return "sm90";
  }
  return "?";
}

Result<Target> parse_target(std::string_view text) {
  for (const Target target : {Target::cpu, Target::sm80, Target::sm90}) {
    if (text == to_string(target)) return target;
  }
  return bad_input(fmt::format("unknown target '{}'; accepted: cpu, sm80, sm90, replay:FILE", printable(text)));
}

std::string Machine::id() const { return fmt::format("{}/{}/cc{}/{}", kind, name, compute_capability, units); }

Result<Machine> machine_of_architecture(std::string_view name) {
  struct Known {
    std::string_view architecture, gpu;
    int compute_capability, units;
    std::int64_t smem_bytes_per_block, l2_bytes;
  };
  // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": 1 KiB of a multiprocessor's shared
  // memory is the system's.
  constexpr std::array<Known, 4> kKnown = {{{"sm_80", "NVIDIA A100", 80, 108, 163 << 10, 40 << 20},
                                            {"sm_86", "NVIDIA RTX 3090", 86, 82, 99 << 10, 6 << 20},
                                            {"sm_89", "NVIDIA L40", 89, 142, 99 << 10, 96 << 20},
                                            {"sm_90", "NVIDIA H200", 90, 132, 227 << 10, 60 << 20}}};
  for (const Known& known : kKnown) {
    if (name != known.architecture) continue;
    Machine machine;
    machine.name = known.gpu;
    machine.kind = "cuda";
    machine.compute_capability = known.compute_capability;
    machine.units = known.units;
    machine.smem_bytes_per_block = known.smem_bytes_per_block;
    machine.registers_per_unit = 65'536;
    machine.l2_bytes = known.l2_bytes;
    return machine;
  }
  return bad_input(fmt::format("unknown architecture '{}'; accepted: sm_80, sm_86, sm_89, sm_90", printable(name)));
}

void to_json(nlohmann::json& json, const Machine& machine) {
  json = {{"name", machine.name},
          {"kind", machine.kind},
          {"compute_capability", machine.compute_capability},
          {"units", machine.units},
          {"smem_bytes_per_block", machine.smem_bytes_per_block},
          {"registers_per_unit", machine.registers_per_unit},
          {"resident_clusters", machine.resident_clusters},
          {"l1_bytes", machine.l1_bytes},
          {"l2_bytes", machine.l2_bytes},
          {"l3_bytes", machine.l3_bytes},
          {"avx2", machine.avx2},
          {"avx512", machine.avx512},
          {"avx512_fp16", machine.avx512_fp16},
          {"peak_gflops", machine.peak_gflops},
          {"peak_gb_per_s", machine.peak_gb_per_s},
          {"launch_floor_us", machine.launch_floor_us},
          {"versions", machine.versions}};
}

void from_json(const nlohmann::json& json, Machine& machine) {
  const auto read = [&json](const char* key, auto& field) {
    if (const auto found = json.find(key); found != json.end()) found->get_to(field);
  };
  json.at("name").get_to(machine.name);
  json.at("kind").get_to(machine.kind);
  read("compute_capability", machine.compute_capability);
  read("units", machine.units);
  read("smem_bytes_per_block", machine.smem_bytes_per_block);
  read("registers_per_unit", machine.registers_per_unit);
  read("resident_clusters", machine.resident_clusters);
  read("l1_bytes", machine.l1_bytes);
  read("l2_bytes", machine.l2_bytes);
  read("l3_bytes", machine.l3_bytes);
  read("avx2", machine.avx2);
  read("avx512", machine.avx512);
  read("avx512_fp16", machine.avx512_fp16);
  read("peak_gflops", machine.peak_gflops);
  read("peak_gb_per_s", machine.peak_gb_per_s);
  read("launch_floor_us", machine.launch_floor_us);
  read("versions", machine.versions);
}

double physical_floor_us(const Problem& problem, const Machine& machine, bool operands_cold) {
  double floor_us = machine.launch_floor_us;
  if (machine.peak_gflops > 0) floor_us = std::max(floor_us, problem.flops() / (machine.peak_gflops * 1e3));
  if (operands_cold && machine.peak_gb_per_s > 0) {
    const auto cached = static_cast<double>(std::max(machine.l2_bytes, machine.l3_bytes));
    const double bytes = problem.bytes_read() + std::max(0.0, problem.bytes_written() - cached);
    floor_us = std::max(floor_us, bytes / (machine.peak_gb_per_s * 1e3));
  }
  return floor_us;
}

}  // namespace warpsmith
