// How much time a measurement may take, and in which mode it is made.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith {

// offline: back-to-back launches; call: the host's clock around one call and its completion; server: such calls at
// random intervals on an idle device; cuda_l2: the released protocol of CUDA-L2 (warm calls, mean of all times).
enum class TimingMode { offline, call, server, cuda_l2 };
std::string_view to_string(TimingMode mode);  // "offline", "call", "server", "cuda-l2"
// Of those that a user chooses: offline, call, server. Error: bad_input.
Result<TimingMode> parse_timing_mode(std::string_view text);

// Closed loop: after a call has completed, the next one waits an exponentially distributed time.
struct ServerLoad {
  double qps = 100;    // one over the mean wait, per second
  int arrivals = 100;  // calls of each subject
};

// The released protocol of CUDA-L2 takes 10 s of warm-up and 30 s of runs: TimingEffort::seconds, and this many times
// that.
inline constexpr double kCudaL2Runs = 3;

struct TimingEffort {
  double seconds = 0.3;  // wall time to spend on one subject, cold and warm together; cuda_l2: of warm-up, on all
  int min_samples = 9;   // batches per series
  TimingMode mode = TimingMode::offline;
  ServerLoad server{};
  // evaluate(): a few cold batches first; the rest only for a candidate that they show near the best so far or better,
  // and for none where `seconds` is 0.
  bool screening = false;
  double exhaustive_seconds = 0;            // compare(): of searching all configurations of cuBLASLt; 0: not searched
  std::vector<std::string> baselines = {};  // compare(): only those whose names start with one of these; empty: all
  // compare(): which algorithms tuned baselines try, as Comparison::baseline_choices of this problem told; null: all.
  nlohmann::json baseline_choices = nullptr;
};
void to_json(nlohmann::json& json, const TimingEffort& effort);
void from_json(const nlohmann::json& json, TimingEffort& effort);

}  // namespace warpsmith
