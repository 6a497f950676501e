// torch.matmul as a baseline: a Python helper measures it in a process of its own.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "problem/problem.h"

namespace warpsmith::cli {

struct TorchRequest {
  std::string mode = "offline";  // or "call", "server"
  double qps = 100;              // of mode "server"
  int arrivals = 100;            // likewise
  double seconds = 0.5;          // of timing, for each layout
  std::uint64_t seed = 1;
  int device = 0;
};

// Times of torch.matmul for the problem's sizes and element type, NN and TN: {"subjects": [...], "versions": {...},
// "measured": ...}, the subjects like those of a comparison, each with "interleaved": false. Where that cannot be had
// (no Python, no PyTorch, no GPU, the helper fails or hangs): {"not_run": reason, one line}.
// The interpreter is $WARPSMITH_PYTHON, else python3 on the PATH; the helper is torch_baseline.py beside this program.
nlohmann::json measure_torch(const Problem& problem, const TorchRequest& request);

}  // namespace warpsmith::cli
