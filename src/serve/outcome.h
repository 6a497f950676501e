// Outcome: what measuring a candidate gave, and the reward that follows from it. Outcomes are stored without the
// reward, so that the server's coefficients hold for old results too.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "evaluate/verdict.h"
#include "train/config.h"

namespace warpsmith::serve {

struct Outcome {
  Verdict verdict;
  double reference_us = 0;  // what speed-ups refer to
  std::string reference;    // the fastest baseline of the problem's layout, by name, or "floor" where there is none
  std::optional<PairedScore> paired;  // beside the reference, where that was asked for and is usable
};
void to_json(nlohmann::json& json, const Outcome& outcome);
void from_json(const nlohmann::json& json, Outcome& outcome);

// Per token of a CUDA source, which has thousands.
inline constexpr double kDefaultBeta = 1e-5;

struct Reward {
  double reward = 0;      // train::raw_reward()
  double speedup = 0;     // the paired score, else reference over cold time; 0 for what is not accepted
  double score = 0;       // speedup / (1 + speedup): 0 for what is not accepted, below 1 for what is
  double difference = 1;  // largest error over the gate's bound; 1 for what is not accepted
};
Reward reward_of(const Outcome& outcome, std::int64_t tokens, const train::RewardConfig& config);

// Of a completion that holds no candidate.
Reward reward_of_nothing(std::int64_t tokens, const train::RewardConfig& config);

}  // namespace warpsmith::serve
