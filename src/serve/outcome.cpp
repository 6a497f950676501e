// Rewards from verdicts.
#include "serve/outcome.h"

#include <algorithm>

#include "train/reward.h"

namespace warpsmith::serve {

void to_json(nlohmann::json& json, const Outcome& outcome) {
  json = {{"verdict", outcome.verdict}, {"reference_us", outcome.reference_us}, {"reference", outcome.reference}};
  if (outcome.paired) json["paired"] = *outcome.paired;
}

void from_json(const nlohmann::json& json, Outcome& outcome) {
  json.at("verdict").get_to(outcome.verdict);
  json.at("reference_us").get_to(outcome.reference_us);
  json.at("reference").get_to(outcome.reference);
  if (json.contains("paired")) outcome.paired = json.at("paired").get<PairedScore>();
}

Reward reward_of(const Outcome& outcome, std::int64_t tokens, const train::RewardConfig& config) {
  const auto* accepted = outcome.verdict.accepted();
  if (accepted == nullptr) return reward_of_nothing(tokens, config);
  // The pairs' ratio as a time, so that the formula is asked in one form.
  const double time_us =
      outcome.paired ? outcome.reference_us / outcome.paired->value : accepted->measurement.cold.median_us;
  train::Measured measured{std::string(outcome.verdict.kind()), time_us, 0};
  for (const GateResult& gate : outcome.verdict.gates) {
    if (gate.gate.starts_with("bound/")) measured.difference = std::max(measured.difference, gate.worst_error);
  }
  Reward reward;
  reward.reward = train::raw_reward(measured, outcome.reference_us, static_cast<std::size_t>(tokens), config);
  reward.speedup = outcome.reference_us / time_us;
  reward.score = reward.speedup / (1 + reward.speedup);
  reward.difference = measured.difference;
  return reward;
}

Reward reward_of_nothing(std::int64_t tokens, const train::RewardConfig& config) {
  Reward reward;
  const train::Measured nothing{{}, std::nullopt, reward.difference};
  reward.reward = train::raw_reward(nothing, 0, static_cast<std::size_t>(tokens), config);
  return reward;
}

}  // namespace warpsmith::serve
