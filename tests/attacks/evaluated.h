// Candidates in device code through the real path: loader, compiler, evaluator.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "codegen/descriptor.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "fate.h"

namespace warpsmith::attacks {

class Evaluated {
 public:
  // Compiled kernels go to `cache`. Error: no GPU.
  static Result<std::unique_ptr<Evaluated>> start(const std::filesystem::path& cache);

  // Loads, compiles and evaluates. `honest`: what the candidate is derived from, for the time that it must not beat.
  Fate attack(const std::filesystem::path& source, const Problem& problem, const std::filesystem::path& honest);
  Verdict evaluate(const std::filesystem::path& source, const Problem& problem);

  // Compiles them all, in parallel, so that later calls find them in the cache. Failures show later.
  void compile_ahead(const std::vector<std::filesystem::path>& sources, const Problem& problem);

  const Machine& machine() const { return evaluator_->machine(); }
  // The launch of a candidate on a problem. Throws EnvironmentError where it cannot be loaded.
  Candidate candidate(const std::filesystem::path& source, const Problem& problem) const;

 private:
  explicit Evaluated(const std::filesystem::path& cache);
  double honest_cold_us(const std::filesystem::path& honest, const Problem& problem);

  Compiler compiler_;
  std::unique_ptr<Evaluator> evaluator_;
  std::map<std::string, double> honest_us_;
};

}  // namespace warpsmith::attacks
