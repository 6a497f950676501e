// Programmatic dependent launch (PTX ISA, "griddepcontrol") and register reallocation ("setmaxnreg").
#pragma once

namespace warpsmith::device {

// Blocks until the grids this one depends on have completed and their writes are visible.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets dependent grids start once every block has said so or ended.
__device__ __forceinline__ void grid_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Executed by every warp of a warpgroup; the counts are per thread, multiples of 8.
template <int kRegisters>
__device__ __forceinline__ void release_registers_to() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void claim_registers_up_to() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace warpsmith::device
