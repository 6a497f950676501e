// The machine that the search tests pretend to have.
#pragma once

#include "problem/machine.h"

namespace warpsmith {

inline Machine test_machine() {
  Machine machine;
  machine.name = "test CPU";
  machine.kind = "cpu";
  machine.units = 2;
  machine.l1_bytes = 32 << 10;
  machine.l2_bytes = 1 << 20;
  machine.l3_bytes = 32 << 20;
  machine.avx2 = machine.avx512 = true;
  return machine;
}

}  // namespace warpsmith
