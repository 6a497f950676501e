// The device's part of the gates: places operands, runs a launch among poison, and looks at all it left, with one wait
// and one read-back a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "evaluate/backend.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/gate_operands.h"
#include "evaluate/cuda/reference.h"
#include "evaluate/cuda/stream_gate.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

class GateSteps {
 public:
  // Queues the candidate on the stream.
  using Launch = std::function<void(const OperandSet& operands, void* workspace)>;

  GateSteps(const Problem& problem, const Machine& machine, std::int64_t keep_bytes, ReferenceMaker& references,
            cudaStream_t stream);

  // Of the candidate that comes next.
  void set_workspace(std::int64_t bytes, bool zero) { workspace_.resize(bytes, zero); }

  // Inputs and their reference, at other addresses than before or (refill) at the same.
  void arrange(InputKind kind, std::uint64_t seed);
  void refill(InputKind kind, std::uint64_t seed);

  // Queues the poison that the step's place asks for, or with beta what C is to hold, scrubs shared memory, and queues
  // the launch.
  void run(const GateStep& step, const Launch& launch);
  // Waits for it and reads back what it left.
  Observation look(Criterion criterion, std::uint16_t poison);
  // Something had written into the operands before the run: they are made anew, and the step is void.
  bool is_void(const Observation& seen) { return operands_.refresh_if_stale(seen); }
  GateObservation describe(const Observation& seen, Criterion criterion);

  // Three launches in a chain: Y B -> X, X B -> Y, A Y -> X. Y starts as A; X and Y are read as they lie in memory.
  // Each launch so reads what the one before writes, and writes what that one reads. Launches of `dependent` leave the
  // same bits in both as launches that wait for each other.
  CheckReport check_dependent_launch(const Launch& separate, const Launch& dependent);

 private:
  Judging judging(Criterion criterion) const;
  InputSpec spec_of(InputKind kind, std::uint64_t seed) const;
  std::string factors_text() const;  // for messages; empty where there are none
  CheckReport describe_judged(const Totals& totals, Criterion criterion);
  CheckReport describe_surroundings(const Observation& seen);
  struct ChainHashes {
    unsigned long long x = 0, y = 0;
  };
  ChainHashes run_chain(const Launch& launch, bool wait);

  Problem problem_;
  ReferenceMaker& references_;
  cudaStream_t stream_;
  int multiprocessors_;
  std::int64_t smem_bytes_;
  GateOperands operands_;
  GateWorkspace workspace_;
  std::uint64_t placements_ = 0;
  Factors factors_;  // of the last run
  std::shared_ptr<const Reference> reference_;
  DeviceBuffer observation_;
  DeviceBuffer chain_x_, chain_y_;  // made when first asked for
  StreamGate gate_;
};

}  // namespace warpsmith::cuda
