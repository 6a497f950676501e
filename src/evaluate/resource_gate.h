// The gate before anything runs: what the compiler reports of a kernel that was generated from a recipe.
#pragma once

#include "compile/compile.h"
#include "evaluate/verdict.h"

namespace warpsmith {

// A generated kernel neither spills registers nor has its wgmma serialised. Passes for compilers that report no
// resources. Every way from a recipe to a measurement asks it: search, bench and the conclusion.
GateResult resource_gate(const ResourceReport& report);

}  // namespace warpsmith
