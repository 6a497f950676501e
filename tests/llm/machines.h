// The machines that the tests of src/llm pretend to have.
#pragma once

#include "problem/machine.h"

namespace warpsmith::llm {

inline Machine test_cpu() {
  Machine machine;
  machine.name = "test CPU";
  machine.kind = "cpu";
  machine.units = 1;
  machine.l1_bytes = 32 << 10;
  machine.l2_bytes = 1 << 20;
  machine.l3_bytes = 32 << 20;
  machine.avx2 = machine.avx512 = true;
  return machine;
}

inline Machine test_gpu() {
  Machine machine = *machine_of_architecture("sm_90");
  machine.name = "test GPU";
  machine.peak_gflops = 8e5;
  machine.peak_gb_per_s = 4800;
  machine.launch_floor_us = 1.5;
  return machine;
}

}  // namespace warpsmith::llm
