// CUDA-L1's robust speed-up score, for rewards: a ratio must hold in every part of a measurement to count.
#pragma once

#include <array>

#include "report/statistics.h"

namespace warpsmith::stats {

inline constexpr int kScoreBuckets = 7;
inline constexpr double kScoreVarianceLimit = 0.005;

struct RobustScore {
  double score = 0;                                  // median of the bucket means, rounded toward 1
  std::array<double, kScoreBuckets> bucket_means{};  // in the order of the buckets
  double variance = 0;                               // of the bucket means, divided by 6
  bool usable = false;                               // variance within kScoreVarianceLimit
};

// Paired ratios (baseline over candidate) in the order of measurement, dealt into the buckets in turn: ratio i goes to
// bucket i mod 7. Error: fewer than seven ratios, or one that is not a positive finite number.
Result<RobustScore> robust_score(Values paired_ratios);

// To two decimals, never away from 1: 1.118 to 1.11, 0.992 to 1.00. A number that is a hundredth but for the rounding
// of binary fractions (1.13, or a sum that should be it) stays that hundredth.
double round_toward_one(double ratio);

}  // namespace warpsmith::stats
