// The robust score of a candidate, from samples that were taken side by side with a baseline's.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "evaluate/timing.h"
#include "evaluate/verdict.h"

namespace warpsmith {

// Of rounds of these subjects, of which the first is the candidate (number 0). The baseline with the lowest median
// among those that name the layout counts ("cublaslt-auto-nn"), among all where none does. nullopt: no candidate, or no
// baseline.
std::optional<PairedScore> paired_score(const TimingRounds& rounds, const std::vector<TimingSubject>& subjects,
                                        std::string_view layout);

}  // namespace warpsmith
