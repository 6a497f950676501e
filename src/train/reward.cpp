// Rewards and advantages.
#include "train/reward.h"

#include <algorithm>
#include <cmath>

namespace warpsmith::train {

namespace {
constexpr double kNoDeviation = 1e-9;  // rewards closer than this count as equal
}

double raw_reward(const Measured& measured, double reference_us, std::size_t tokens, const RewardConfig& config) {
  const double speedup = measured.time_us && *measured.time_us > 0 ? reference_us / *measured.time_us : 0;
  return speedup - config.alpha * measured.difference - config.beta * static_cast<double>(tokens);
}

void RunningMoments::add(double value) {
  ++count;
  const double before = value - mean;
  mean += before / static_cast<double>(count);
  squares += before * (value - mean);
}

double RunningMoments::deviation() const { return count < 2 ? 0 : std::sqrt(squares / static_cast<double>(count)); }

double smoothed(double reward, const RunningMoments& moments, double clip) {
  const double deviation = moments.deviation();
  if (!(deviation > kNoDeviation)) return 0;
  return std::clamp((reward - moments.mean) / deviation, -clip, clip);
}

std::vector<double> group_advantages(const std::vector<double>& rewards) {
  RunningMoments group;
  for (const double reward : rewards) group.add(reward);
  std::vector<double> advantages(rewards.size(), 0);
  if (!(group.deviation() > kNoDeviation)) return advantages;
  for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = (rewards[i] - group.mean) / group.deviation();
  return advantages;
}

}  // namespace warpsmith::train
