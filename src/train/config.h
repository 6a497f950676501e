// Every coefficient of a training run, with its default, as one JSON file. docs/learning.md explains each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "policy/embedded/model_policy.h"

namespace warpsmith::train {

struct ModelConfig {
  int layers = 4, width = 160, heads = 5, hidden = 640;
};

struct OptimizerConfig {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.01;
  double gradient_norm = 1.0;  // gradients are scaled down to it
  int warmup = 20;             // steps of a stage over which its learning rate rises
};

struct ExemplarConfig {
  std::string choice = "buckets";  // "none", "random" or "buckets"
  double bucket_width = 0.05;      // delta s
  double temperature = 0.15;       // tau
  double own_share = 0.45;         // of supervised prompts: two recipes of the problem itself
  double neighbour_share = 0.25;   // of supervised prompts: two of nearby training problems; the others show none
};

struct RewardConfig {
  double alpha = 0.05;  // weight of the numerical difference over the gate's bound
  double beta = 0.001;  // weight of the output's length in tokens
  double clip = 1.5;    // bound of the smoothed reward
};

struct SupervisedConfig {
  int steps = 2000, batch = 64;
  double learning_rate = 1e-3;
  double legal_share = 0.1;          // targets that are any legal recipe; the others are winners
  double winner_temperature = 0.03;  // P(recipe) ~ exp((speed over the best known - 1) / temperature)
};

struct SelfSupervisedConfig {
  int steps = 60, problems = 16, samples = 4;
  double learning_rate = 1e-4, temperature = 1.0;
};

struct ContrastiveConfig {
  int steps = 300, problems = 8, group = 8, updates = 2;
  double learning_rate = 1e-4, temperature = 1.0;
  double clip = 0.2, kl = 0.02, entropy = 0.0;
  double bare_share = 0.3;  // of prompts without exemplars, so that the first proposal learns too
};

struct TrainConfig {
  std::uint64_t seed = 1;
  std::string device = "cpu";  // or "cuda", "cuda:N": where gradients are computed
  int threads = 0;             // of the CPU; 0: all. The same number gives the same weights bit for bit
  int checkpoint_interval = 50;
  double held_out_share = 0.12;  // of shapes, where the table does not name those held out
  ModelConfig model;
  OptimizerConfig optimizer;
  ExemplarConfig exemplars;
  RewardConfig reward;
  SupervisedConfig supervised;
  SelfSupervisedConfig self;
  ContrastiveConfig contrastive;

  embedded::ExemplarChoice exemplar_choice() const;
  embedded::BucketOptions buckets() const { return {exemplars.bucket_width, exemplars.temperature}; }
};

nlohmann::json to_json(const TrainConfig& config);
// Absent members keep their defaults. Error (bad_input): an unknown member, a wrong type or a value out of range, by
// name.
Result<TrainConfig> parse_config(const nlohmann::json& json);
Result<TrainConfig> load_config(const std::filesystem::path& path);

}  // namespace warpsmith::train
