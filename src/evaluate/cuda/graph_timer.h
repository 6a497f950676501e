// Offline timing: launches captured in a CUDA graph, replayed between two events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/timing_operands.h"

namespace warpsmith::cuda {

// Queues one launch on operand set `set`.
using LaunchOnSet = std::function<void(int set, cudaStream_t stream)>;

// A captured sequence of launches. Cold: launch i works on set i modulo the number of sets, which never comes back
// before twice the L2 cache has gone by. Warm: every launch works on set 0.
struct ArmedGraph {
  GraphExec exec;
  LaunchOnSet launch;
  int launches = 0;
  bool cold = true;
  int sets_written(int sets) const { return cold ? std::min(launches, sets) : 1; }
};

class GraphTimer {
 public:
  GraphTimer(cudaStream_t stream, std::int64_t l2_bytes);

  // Launches per replay that make it long enough to time, and no longer than that.
  static int launches_for(double us_per_launch);

  // Warms up, estimates and captures. The graph has `launches` launches, or fewer where they would take too long.
  ArmedGraph arm(LaunchOnSet launch, int launches, bool cold, const TimingOperands& operands);

  // One replay; microseconds per launch. All C that the replay writes hold `poison` before it.
  double replay(const ArmedGraph& graph, TimingOperands& operands, std::uint16_t poison);

  // Replays for `seconds`, so that clocks and temperature settle where the work takes them.
  void preheat(const ArmedGraph& graph, double seconds);

 private:
  void flush_l2();
  double timed(const std::function<void()>& queue_work);  // microseconds

  cudaStream_t stream_;
  DeviceBuffer flush_, sink_;
  Event start_, stop_;
};

}  // namespace warpsmith::cuda
