// The gate sequence: proves a loaded candidate right on fresh data before anything is timed. Written once for every
// backend; docs/evaluation.md says what each gate catches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "evaluate/backend.h"
#include "evaluate/verdict.h"
#include "problem/problem.h"

namespace warpsmith {

// What C and the workspace hold before a run: two different NaNs of both f16 and bf16 that no arithmetic makes.
inline constexpr std::uint16_t kPoisonPatterns[2] = {0x7fab, 0xffd5};

struct GateOptions {
  std::uint64_t seed = 1;
  std::uint64_t fresh_seed = 2;         // of the gates `freshness` and `state`: one that no candidate's author can know
  bool order_nondeterministic = false;  // declared by the candidate: repeatability is then not demanded
  std::string nondeterminism_reason{};
  AccumulatorType accumulator = AccumulatorType::f32;  // the problem's
  std::string output = "C";                            // what the candidate writes, in words
};

struct GateReport {
  std::vector<GateResult> gates;     // those that ran, in order; the last one failed unless passed()
  std::optional<std::string> crash;  // the device's words, when a run did not complete
  std::optional<std::string> fault;  // the environment failed (no memory for a reference)
  bool strayed = false;  // the candidate wrote where it must not: nothing in this process is to be trusted any more

  bool passed() const { return !crash && !fault && (gates.empty() || gates.back().passed); }
};

// A gate that compares one run of the candidate with a reference.
struct GateInput {
  std::string gate;  // "freshness" and "state" have meanings of their own; of the last one, "state", a run more is made
  GateStep step;
};

// A seed from the operating system.
std::uint64_t draw_seed();

// Makes every input and reference that run_gates() with these seeds will use, so that its time is the candidate's own.
Status prepare_gates(Backend& backend, std::uint64_t seed, std::uint64_t fresh_seed,
                     AccumulatorType accumulator = AccumulatorType::f32);

// The gate `precision`: what was judged on N(0,1) data, `when` in words (may be empty).
GateResult precision_gate(const Precision& precision, std::string_view when);

// Runs the gates in order and stops at the first failure. Precondition: a problem is prepared and a candidate loaded.
GateReport run_gates(Backend& backend, const GateOptions& options);
// The same of these, the first of which is also the data of `coverage` and `repeatability`.
GateReport run_gates(Backend& backend, const GateOptions& options, const std::vector<GateInput>& inputs);

}  // namespace warpsmith
