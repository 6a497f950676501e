// Backend: the worker's side, what a device must offer so that gates and timing are written once for all targets.
// Lives in the worker process only; a backend may crash with its candidate.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/launch.h"
#include "compile/compile.h"
#include "evaluate/inputs.h"
#include "evaluate/judge.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

std::string_view to_string(InputKind);

struct CheckReport {
  bool passed = false;
  std::string detail;      // first bad element: (row, column), got, expected, allowed
  double worst_error = 0;  // error over allowed error, largest
  std::int64_t bad = 0;    // number of bad elements
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Machine& machine() const = 0;

  // Makes room for a problem: operands with red zones, several sets for cold timing. Drops the previous problem.
  virtual Status prepare(const Problem& problem, std::uint64_t seed) = 0;

  // Loads a compiled candidate; only one is loaded at a time.
  virtual Status load(const Artifact& artifact, const nlohmann::json& launch) = 0;
  virtual void unload() = 0;

  // --- gates ---
  // Fills A and B (at addresses that differ from run to run), builds the FP64 reference, or reuses the one it made for
  // this (problem, kind, seed) before.
  virtual Status fill(InputKind kind, std::uint64_t seed) = 0;
  // Poisons C and the workspace with `pattern`, runs the candidate once, and waits for it. Error: the device's words.
  virtual Status run_once(std::uint16_t poison) = 0;
  virtual CheckReport check(Criterion criterion) = 0;  // C against the reference
  virtual CheckReport check_untouched() = 0;           // red zones of A, B, C, workspace; A and B unchanged
  virtual std::uint64_t output_hash() = 0;             // of C's bits
  // Every element of C differs from the poison, given outputs under two different poisons by the caller.
  virtual std::int64_t count_equal_to(std::uint16_t pattern) = 0;

  // --- timing ---
  // Subjects are numbered: 0 is the loaded candidate, 1.. the baselines that open_baselines() listed.
  virtual Result<std::vector<std::string>> open_baselines() = 0;  // names; tunes them where they can be tuned
  virtual std::string baseline_detail(int subject) = 0;
  // Prepares a subject for timing (graph capture, warm-up) in a mode; returns a first estimate in us per launch.
  virtual Result<double> arm(int subject, bool cold, bool pdl) = 0;
  // One batch of back-to-back launches of an armed subject; microseconds per launch.
  virtual Result<double> time_batch(int subject, bool cold, bool pdl) = 0;
  virtual int launches_per_batch(int subject, bool cold, bool pdl) = 0;
  virtual double clock_mhz() = 0;  // 0: unknown
  // After timing: the outputs that the timed launches wrote are right (their reference was made beforehand).
  virtual CheckReport check_timed_outputs(int subject) = 0;
};

// The worker's main loop: reads requests from its parent, writes answers and stage notices, until the channel closes.
// Returns the process's exit code.
int serve_worker(Backend& backend);

}  // namespace warpsmith
