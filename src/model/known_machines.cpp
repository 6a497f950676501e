// Facts as the CUDA driver reports them.
#include "model/known_machines.h"

namespace warpsmith::model {

std::optional<Machine> known_machine(std::string_view name) {
  if (name != "h200") return std::nullopt;
  Machine machine;
  machine.name = "NVIDIA H200";
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = 132;
  machine.smem_bytes_per_block = 232'448;
  machine.registers_per_unit = 65'536;
  machine.resident_clusters = {66, 30, 15, 7};
  machine.l2_bytes = 62'914'560;
  machine.peak_gflops = 1'070'530.56;
  machine.peak_gb_per_s = 4814.304;
  machine.launch_floor_us = 0.3;
  return machine;
}

std::string known_machine_names() { return "h200"; }

}  // namespace warpsmith::model
