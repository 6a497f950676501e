// Machines for the tests of the model.
#pragma once

#include "model/known_machines.h"
#include "problem/machine.h"

namespace warpsmith::model::testing {

inline Machine hopper() { return *known_machine("h200"); }

inline Machine ampere() {
  Machine machine;
  machine.name = "Ampere";
  machine.kind = "cuda";
  machine.compute_capability = 80;
  machine.units = 108;
  machine.smem_bytes_per_block = 166'912;
  machine.registers_per_unit = 65'536;
  machine.l2_bytes = 40 << 20;
  return machine;
}

}  // namespace warpsmith::model::testing
