// A candidate's way to its verdict in the two steps that the search and the reward server interleave: compiling, many
// at once, and judging on a device, one at a time.
#pragma once

#include <optional>

#include "base/result.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"

namespace warpsmith {

// What compiling left: a candidate with its artifact, or the error that ended it.
struct CompiledCandidate {
  std::optional<Candidate> candidate;  // absent where none could be made for the problem
  std::optional<Artifact> artifact;
  std::optional<Error> error;
};

// Thread-safe, as Compiler is.
CompiledCandidate compile_candidate(Result<Candidate> candidate, const Compiler& compiler);

// The resource gate, then the evaluator's gates and timing. An error of compiling is the verdict: bad input an illegal
// candidate, an environment's failure nothing that the candidate did.
Verdict judge_candidate(const CompiledCandidate& compiled, const Problem& problem, Evaluator& evaluator, double best_us,
                        const TimingEffort& effort);

}  // namespace warpsmith
