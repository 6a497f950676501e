// The loop knob of the sm80 family: its fields, the programs that have names, and words for programs and their faults.
#pragma once

#include <string>
#include <vector>

#include "device/schedule/loop_program.cuh"
#include "recipe/recipe.h"

namespace warpsmith {

Knob sm80_loop_knob();
device::LoopPlan sm80_loop_plan(const Recipe& recipe);
// Sets the fields to those of a named program. Precondition: there is one; throws std::out_of_range otherwise.
Recipe& set_sm80_loop(Recipe& recipe, std::string_view name);

// "wait 2; barrier; ldmatrix A0 B0; copy A B; commit; mma 0; ...": the steps of one stage.
std::string describe(const device::LoopProgram& loop);
// "step 3 (ldmatrix B1): nothing waits for the copies of stage +1": what is wrong, with the step that does it.
std::string describe(const device::LoopFault& fault, const device::LoopProgram& loop);

}  // namespace warpsmith
