// Times the candidate, in its process, and the baselines, in this one, in the same way: batches of N and of 2 N calls
// on operand sets of their own, made one by one ("call") or captured in a graph ("graph"), cold or warm, by three
// clocks. Every C is poisoned before each batch and looked at after it. Throws cuda::CudaError.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "audit/clocks.h"
#include "audit/cuda/host_session.h"
#include "audit/cuda/shared_operands.h"
#include "evaluate/cuda/cublas_baselines.h"
#include "evaluate/cuda/graph_timer.h"
#include "evaluate/cuda/reference.h"
#include "evaluate/cuda/timing_operands.h"
#include "problem/machine.h"

namespace warpsmith::audit {

struct TimedMode {
  bool graph = false, cold = true;
  std::string name() const { return std::string(graph ? "graph" : "call") + (cold ? "-cold" : "-warm"); }
  bool operator<(const TimedMode& other) const { return name() < other.name(); }
};
inline constexpr TimedMode kTimedModes[] = {{false, true}, {false, false}, {true, true}, {true, false}};

// What a timed subject did beside taking time.
struct TimedFault {
  std::string check, detail;
  bool fatal = false;  // it did not answer
};

class TimedSubject {
 public:
  virtual ~TimedSubject() = default;
  virtual std::string name() const = 0;
  virtual std::string detail() const = 0;
  // Captures the graphs that the mode needs; false: this mode is not to be had.
  virtual bool prepare(const TimedMode& mode, int calls) = 0;
  // One batch. Faults are kept.
  virtual BatchTimes batch(const TimedMode& mode, int calls) = 0;
  virtual const std::vector<TimedFault>& faults() const = 0;
};

struct TimingBench {
  const Machine& machine;
  const Problem& problem;
  SharedOperands& shared;
  cuda::TimingOperands& operands;
  cuda::GraphTimer& timer;
  cudaStream_t stream;
};

std::unique_ptr<TimedSubject> make_candidate_subject(const TimingBench& bench, HostSession& host);
std::unique_ptr<TimedSubject> make_baseline_subject(const TimingBench& bench, cuda::Baseline& baseline);

// N: calls in the shorter batch. call_us: what one takes at least.
int calls_per_batch(double call_us, int sets);

// Rounds in which every subject takes one pair of batches in every mode, in random order, until `seconds` are over
// (at least kFewestRounds). Returns the pairs by subject and mode.
using TimedPairs = std::vector<std::map<std::string, std::vector<BatchPair>>>;
TimedPairs time_subjects(const std::vector<TimedSubject*>& subjects, int calls, double seconds);

}  // namespace warpsmith::audit
