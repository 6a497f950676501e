// The sanitizer gate on finalists: compute-sanitizer watches a run of the candidate alone. A tool that could not run is
// reported as such and never counts as passed.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "problem/problem.h"

namespace warpsmith {

// memcheck: accesses out of bounds or misaligned. racecheck: unordered accesses to shared memory. synccheck: barriers
// that not every thread reaches. initcheck: reads of global memory that nobody wrote.
inline constexpr const char* kSanitizerTools[] = {"memcheck", "racecheck", "synccheck", "initcheck"};

struct SanitizerCheck {
  enum class Outcome { passed, failed, not_run };
  std::string tool;
  Outcome outcome = Outcome::not_run;
  std::string detail;  // failed: the first finding, one line; not run: why
  double seconds = 0;
};
std::string_view to_string(SanitizerCheck::Outcome outcome);

struct SanitizerReport {
  std::string problem;  // that was run: the problem itself or a smaller one of the same residues, or a task and its
                        // settings; empty: none
  std::vector<SanitizerCheck> checks;

  const SanitizerCheck* first_failure() const;
  // "memcheck passed, racecheck not run (reason), ..."; equal reasons are named once.
  std::string describe() const;
};
void to_json(nlohmann::json& json, const SanitizerReport& report);

struct SanitizerOptions {
  std::filesystem::path program{};  // compute-sanitizer; empty: on PATH, else in the CUDA toolkit
  std::filesystem::path worker{};   // warpsmith-worker-cuda; empty: beside this executable
  int device = 0;
  double seconds = 120;  // for each tool
};

// Problems to run instead of `problem`, best first: watched kernels are slower by orders of magnitude. Sizes beyond
// 1023 become 512 + (size mod 512), else 1024 + (size mod 1024), else 2048 + (size mod 2048): tiles meet the same edges
// as in the original, which comes last unless it is that small itself.
std::vector<Problem> sanitizer_problems(const Problem& problem);

// Every tool not run, for one reason.
SanitizerReport sanitizer_not_run(const std::string& reason);

// Runs the candidate, compiled for `problem`, under every tool.
SanitizerReport run_sanitizer(const Problem& problem, const Candidate& candidate, const Artifact& artifact,
                              const SanitizerOptions& options);

// Runs what the request to the worker says under every tool; `problem` names it in the report.
SanitizerReport run_sanitizer(const std::string& problem, const nlohmann::json& request,
                              const SanitizerOptions& options);

// What one tool's run says. `exit_status` is compute-sanitizer's, which passes the program's on.
SanitizerCheck read_sanitizer_output(const std::string& tool, const std::string& output, const ExitStatus& exit_status);

}  // namespace warpsmith
