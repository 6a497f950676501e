// What `bench` measures beside speed-ups: a baseline against itself, one ratio in many processes, evaluations a second,
// and the released protocol of CUDA-L2.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "devices.h"
#include "evaluate/evaluator.h"
#include "report/provenance.h"

namespace warpsmith::cli {

// What is measured: a candidate under the name that rows give it.
struct Entrant {
  std::string name;
  Candidate candidate;
  bool generated = true;  // from a recipe: then the resource gate asks more of it
};

struct StudyOptions {
  TimingEffort effort;
  std::uint64_t seed = 1;
  bool json_lines = false;
  DeviceOptions device;
  std::function<Result<std::vector<Entrant>>(const Problem&, const OpenDevice&)> entrants;
  std::function<Provenance(const OpenDevice&, const std::string& mode)> provenance;
};

// Tuned baselines against themselves, a line a problem and baseline: the ratio that no difference makes.
Result<int> bench_self(const std::vector<Problem>& problems, OpenDevice& device, const StudyOptions& options);

// The ratio of the fastest entrant to the library's tuned GEMM of its layout, in `processes` worker processes one after
// the other; a line a problem with (max - min) / median of the ratios.
Result<int> bench_processes(const std::vector<Problem>& problems, OpenDevice& device, const Compiler& compiler,
                            int processes, const StudyOptions& options);

// Verdicts a second over compiled entrants of each problem, for `seconds` of each: gates, timing as `optimize` times,
// and the talk with the worker.
Result<int> bench_throughput(const std::vector<Problem>& problems, OpenDevice& device, const Compiler& compiler,
                             double seconds, const StudyOptions& options);

// One entrant under the released protocol of CUDA-L2: {"passes": ..., "ratio": {baseline family: ...}, ...}.
nlohmann::json measure_as_cuda_l2(const Problem& problem, const Entrant& entrant, const Artifact& artifact,
                                  Evaluator& evaluator, const TimingEffort& effort);
// Ours beside theirs, from a row of `bench` that holds both. One line.
std::string protocols_line(const nlohmann::json& row);

}  // namespace warpsmith::cli
