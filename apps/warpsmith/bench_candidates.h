// Free-form candidates of `bench --candidate`: which problems they claim, and what they are on each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_studies.h"
#include "codegen/descriptor.h"
#include "problem/machine.h"

namespace warpsmith::cli {

// Error: as load_candidate(); two of one name.
Result<std::vector<FreeForm>> load_candidates(const std::vector<std::string>& paths);

// Those that claim the problem, ready to compile. Error: as instantiate().
Result<std::vector<Entrant>> applicable_candidates(const std::vector<FreeForm>& forms, const Problem& problem,
                                                   const Machine& machine);

// The problems that at least one candidate claims. Each other one gets a line on stdout with the reasons. Error:
// bad_input where there is none, and on targets that take no device code.
Result<std::vector<Problem>> claimed_problems(const std::vector<FreeForm>& forms, const std::vector<Problem>& problems,
                                              const Machine& machine, bool json_lines);

// Names with hashes of source and descriptor: rows of an earlier run are of the same candidates only where it agrees.
nlohmann::json identify(const std::vector<FreeForm>& forms);

}  // namespace warpsmith::cli
