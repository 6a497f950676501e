// From a candidate to its verdict.
#include "search/candidate_trial.h"

#include <utility>

#include "evaluate/resource_gate.h"

namespace warpsmith {

namespace {

decltype(Verdict::outcome) to_outcome(const Error& error) {
  switch (error.kind) {
    case ErrorKind::bad_input:
      return verdict::Illegal{"legality", error.message};
    case ErrorKind::environment:
      return verdict::Failed{error.message};
    case ErrorKind::failed:
      return verdict::CompileError{error.message};
  }
  return verdict::Failed{error.message};
}

}  // namespace

CompiledCandidate compile_candidate(Result<Candidate> candidate, const Compiler& compiler) {
  CompiledCandidate compiled;
  if (!candidate) {
    compiled.error = candidate.error();
    return compiled;
  }
  compiled.candidate = std::move(*candidate);
  auto artifact = compiler.compile(*compiled.candidate);
  if (artifact) {
    compiled.artifact = std::move(*artifact);
  } else {
    compiled.error = artifact.error();
  }
  return compiled;
}

Verdict judge_candidate(const CompiledCandidate& compiled, const Problem& problem, Evaluator& evaluator, double best_us,
                        const TimingEffort& effort) {
  Verdict verdict;
  if (compiled.error) {
    verdict.outcome = to_outcome(*compiled.error);
    return verdict;
  }
  const GateResult resources = resource_gate(compiled.artifact->resources);
  if (!resources.passed) {
    verdict.outcome = verdict::Wrong{resources};
    verdict.gates = {resources};
    verdict.resources = compiled.artifact->resources;
    return verdict;
  }
  verdict = evaluator.evaluate(problem, *compiled.candidate, *compiled.artifact, best_us, effort);
  verdict.compile_seconds = compiled.artifact->from_cache ? 0 : compiled.artifact->seconds;
  return verdict;
}

}  // namespace warpsmith
