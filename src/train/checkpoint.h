// Checkpoints: everything that a run needs to go on as if it had never stopped, in one safetensors file.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "policy/embedded/transformer.h"
#include "train/config.h"
#include "train/learner.h"
#include "train/reward.h"

namespace warpsmith::train {

struct Checkpoint {
  embedded::ModelShape shape;
  LearnerState learner;
  std::vector<float> reference;  // weights at the start of the stage
  std::string stage;             // "supervised", "self" or "contrastive"
  int step = 0;                  // finished steps of the stage
  std::int64_t measurements = 0;
  std::map<std::string, RunningMoments> rewards;  // by problem
  nlohmann::json pools = nlohmann::json::object();
  nlohmann::json config;
  std::string environment;
};

Status save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Error (bad_input): damaged, not a checkpoint, or of another recipe version; environment: cannot be read.
Result<Checkpoint> load_checkpoint(const std::filesystem::path& path);

}  // namespace warpsmith::train
