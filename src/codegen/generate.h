// Recipe -> candidate: the source that is compiled and the launch descriptor that runs it.
#pragma once

#include <string>
#include <variant>

#include "base/result.h"
#include "codegen/launch.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

enum class Language { cuda, cpp };

// Everything the evaluator needs; it never learns who proposed it.
struct Candidate {
  Language language = Language::cuda;
  std::string source;  // self-contained
  std::string arch;    // "sm_90a", "sm_80", or "compute_80" for PTX; CPU: the -march value, "x86-64-v4" or "x86-64-v3"
  std::variant<CudaLaunch, CpuLaunch> launch;
  bool order_nondeterministic = false;  // declares that sums may be taken in another order from run to run
  std::string nondeterminism_reason;
};

// Error (bad_input): the recipe is not legal for the problem on this machine, with the broken rule and its reason.
Result<Candidate> generate(const Recipe& recipe, const Problem& problem, const Machine& machine);

// One per family, called by generate() after the legality check.
Candidate generate_cpu(const Recipe& recipe, const Problem& problem, const Machine& machine);
Candidate generate_sm90(const Recipe& recipe, const Problem& problem, const Machine& machine);
Candidate generate_sm80(const Recipe& recipe, const Problem& problem, const Machine& machine);
Candidate generate_tiny(const Recipe& recipe, const Problem& problem, const Machine& machine);
Candidate generate_skinny(const Recipe& recipe, const Problem& problem, const Machine& machine);

}  // namespace warpsmith
