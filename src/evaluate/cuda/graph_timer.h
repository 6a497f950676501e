// Offline timing: launches captured in a CUDA graph, replayed between two events.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/stream_gate.h"
#include "evaluate/cuda/timing_operands.h"

namespace warpsmith::cuda {

// Queues one launch that reads A and B of set `inputs` and writes C of set `output`.
using LaunchOnSet = std::function<void(int inputs, int output, cudaStream_t stream)>;

// A captured sequence of launches. Each writes a C of its own, so that a result that is there already is of no use.
// Cold: each also has an A and a B of its own. Warm: all read those of set 0.
struct ArmedGraph {
  GraphExec exec;
  LaunchOnSet launch;
  int launches = 0;
  bool cold = true;
  double estimate_us = 0;  // per launch, of the first replay
  std::vector<int> order;  // of the sets in cold launches; no launch can foresee the next one's operands and fetch them
  int inputs_of(int index) const { return cold ? order[static_cast<std::size_t>(index)] : 0; }
};

// What is queued so that no launch finds what an earlier one kept. Either may be empty.
struct Cleaning {
  std::function<void()> wipe;     // once, however much it pulls through L2
  std::function<void()> restore;  // after the launch that fetches warm operands, too: touches little memory
};

class GraphTimer {
 public:
  GraphTimer(cudaStream_t stream, std::int64_t l2_bytes);

  // Launches per replay that make it `batch_us` long (0: long enough to time, and no longer than that).
  static int launches_for(double us_per_launch, double batch_us = 0);

  // Warms up, estimates and captures. The graph has `launches` launches, or fewer where they would take too long.
  // kernels: that one launch is made of; anything else in the graph is an error. 0: any work is allowed.
  // Precondition: launches <= number of sets.
  ArmedGraph arm(LaunchOnSet launch, int launches, bool cold, std::size_t kernels);

  // One replay; microseconds per launch. Before it every C holds `poison`, what `cleaning` says is clean, and operands
  // are out of L2 (cold) or in it (warm).
  double replay(const ArmedGraph& graph, TimingOperands& operands, std::uint16_t poison, const Cleaning& cleaning);

  // The same of outputs that the caller has poisoned, on cold operands.
  double replay(const ArmedGraph& graph, const std::function<void()>& restore);

  // Replays for `seconds`, so that clocks and temperature settle where the work takes them.
  void preheat(const ArmedGraph& graph, double seconds);

  // Queues reads that leave nothing of earlier work in L2.
  void flush_l2();

 private:
  double timed(const std::function<void()>& queue_work);  // microseconds

  cudaStream_t stream_;
  DeviceBuffer flush_, sink_;
  Event start_, stop_;
  StreamGate gate_;
};

}  // namespace warpsmith::cuda
