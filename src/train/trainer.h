// The trainer: three stages over an environment, with checkpoints from which a run goes on bit for bit (on the CPU,
// with the same number of threads).
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/config.h"
#include "train/environment.h"
#include "train/learner.h"
#include "train/reward.h"

namespace warpsmith::train {

struct TrainOptions {
  TrainConfig config;
  std::vector<std::string> stages = {"supervised", "self", "contrastive"};
  std::filesystem::path
      output;  // directory: checkpoint.safetensors, model.safetensors, log.jsonl, config.json, MODEL_CARD.md
  bool resume = false;
  std::filesystem::path start;   // a model to begin with; empty: fresh weights
  std::filesystem::path module;  // of LibTorch; empty: beside the program
  int stop_after = 0;            // steps of this call; 0: no limit
};

struct TrainProgress {
  std::string stage;
  int step = 0, steps = 0;
  nlohmann::json row;  // as in the log
};

struct TrainSummary {
  std::string stage;
  int step = 0;
  std::int64_t measurements = 0;
  bool finished = false;
};

// Error: bad_input (an output directory in use, a checkpoint that does not fit), environment (no LibTorch, the device),
// failed (a loss that is not finite: the last checkpoint stays).
Result<TrainSummary> train(const TrainOptions& options, Environment& environment,
                           const std::function<void(const TrainProgress&)>& on_progress, const std::atomic<bool>& stop);

const std::vector<std::string>& stage_names();

// One contrastive update's rewards: raw rewards of a group, smoothed by the problem's running moments (updated first),
// then normalised within the group.
std::vector<double> advantages_of(const std::vector<double>& raw, RunningMoments& moments, double clip);

// Sums of log-probabilities and advantages as an objective; shared with learning during a search.
WarpsmithTorchObjective clipped_objective(const TrainConfig& config, std::size_t sequences, double learning_rate);

}  // namespace warpsmith::train
