// Machines and tasks that the tests of the embedded policy share.
#pragma once

#include <vector>

#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/knob.h"

namespace warpsmith::testing {

inline Machine hopper() {
  Machine machine;
  machine.name = "Hopper";
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = 132;
  machine.smem_bytes_per_block = 232448;
  machine.registers_per_unit = 65536;
  machine.peak_gflops = 989000;
  machine.peak_gb_per_s = 4800;
  machine.launch_floor_us = 1;
  return machine;
}

inline Machine two_threads() {
  Machine machine;
  machine.name = "two threads";
  machine.kind = "cpu";
  machine.units = 2;
  machine.avx2 = machine.avx512 = true;
  machine.peak_gflops = 200;
  machine.peak_gb_per_s = 40;
  return machine;
}

struct Task {
  Problem problem;
  Machine machine;
  Target target = Target::cpu;
};

// Grid sizes, off-grid sizes, sizes that hardly any family takes; every layout.
inline std::vector<Task> tasks() {
  return {{{.m = 512, .n = 512, .k = 512}, two_threads(), Target::cpu},
          {{.m = 7, .n = 3000, .k = 100, .layout = Layout::tn}, two_threads(), Target::cpu},
          {{.m = 64, .n = 64, .k = 64}, hopper(), Target::sm90},
          {{.m = 4096, .n = 4096, .k = 512, .layout = Layout::tn}, hopper(), Target::sm90},
          {{.m = 8, .n = 4096, .k = 4096, .layout = Layout::tn}, hopper(), Target::sm90},
          {{.m = 1000, .n = 777, .k = 333, .layout = Layout::nt}, hopper(), Target::sm90},
          {{.m = 256, .n = 128, .k = 16384, .layout = Layout::tt}, hopper(), Target::sm90}};
}

}  // namespace warpsmith::testing
