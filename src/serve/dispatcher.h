// Dispatcher: takes jobs from the store to the devices, one thread a device, and tells those who wait. Stops
// gracefully: what is being measured is finished, what waits stays in the store for the next start.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/device_judge.h"
#include "serve/metrics.h"
#include "serve/store.h"

namespace warpsmith::serve {

struct ServedDevice {
  std::string name;  // "cpu", "cuda:0"
  std::unique_ptr<DeviceJudge> judge;
};

struct DispatchOptions {
  int compile_jobs = 1;  // of each device
  // Nothing compiles while a candidate is measured: needed where compilers and candidates share the cores.
  bool quiet_while_measuring = true;
  std::int64_t most_queued = 10'000;
  double pause_seconds = 1;  // after the environment failed
};

class Dispatcher {
 public:
  // Starts working at once. Store and metrics must outlive it.
  static std::unique_ptr<Dispatcher> start(DispatchOptions options, std::vector<ServedDevice> devices, Store& store,
                                           Metrics& metrics);
  virtual ~Dispatcher() = default;  // stops at once, but for what is being measured

  // Empty receipts: the queue is full.
  virtual Result<Acceptance> submit(const std::vector<Submission>& submissions) = 0;

  // Calls `ready` once, on any thread: with true when all of them have ended in a final state (which may be at once),
  // with false when the time is up or the dispatcher stops.
  using Ready = std::function<void(bool all)>;
  virtual void wait_for(std::vector<std::string> ids, double seconds, Ready ready) = 0;

  // Goes on while somebody waits, for at most so many seconds; then ends the devices' threads and all waits. The store
  // keeps the rest.
  virtual void drain(double seconds) = 0;
};

}  // namespace warpsmith::serve
