// How well aligned a generated kernel's operands must be.
#pragma once

#include "codegen/launch.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

// Bytes that an operand's address must be a multiple of for the kernel that `recipe`, legal for `problem`, generates:
// at most 16, at least an element. Candidates that the evaluator times get addresses that are multiples of 256.
int required_alignment_bytes(const Recipe& recipe, const Problem& problem, Operand operand);

}  // namespace warpsmith
