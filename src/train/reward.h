// Rewards and advantages, as CUDA-L1 and CUDA-L2 define them, apart from everything that measures or learns.
#pragma once

#include <cstdint>
#include <vector>

#include "train/config.h"

namespace warpsmith::train {

// What became of one output.
struct Measured {
  std::string kind;               // Verdict::kind()
  std::optional<double> time_us;  // of what passed the gates, too-slow ones among them
  double difference = 0;          // largest |out_fp32 - out| over the gate's bound; 0: exact, or not recorded
};

// r = t_ref / t - alpha * difference - beta * tokens; without a time: no speed-up.
double raw_reward(const Measured& measured, double reference_us, std::size_t tokens, const RewardConfig& config);

// Running mean and standard deviation (Welford).
struct RunningMoments {
  std::int64_t count = 0;
  double mean = 0, squares = 0;  // squares: sum of squared deviations
  void add(double value);
  double deviation() const;  // of the population; 0 below two values
};

// clip((r - mean) / deviation, -clip, clip); 0 while the deviation is 0.
double smoothed(double reward, const RunningMoments& moments, double clip);

// (r - mean of the group) / standard deviation of the group; all 0 where the group's rewards are equal.
std::vector<double> group_advantages(const std::vector<double>& rewards);

}  // namespace warpsmith::train
