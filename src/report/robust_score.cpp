// Buckets, their means, the rounded median.
#include "report/robust_score.h"

#include <fmt/format.h>

#include <cmath>

#include "report/values.h"

namespace warpsmith::stats {

double round_toward_one(double ratio) {
  const double hundredths = ratio * 100;
  const double nearest = std::round(hundredths);
  if (std::abs(hundredths - nearest) <= 1e-9 * std::max(1.0, std::abs(nearest))) return nearest / 100;
  return (ratio > 1 ? std::floor(hundredths) : std::ceil(hundredths)) / 100;
}

Result<RobustScore> robust_score(Values paired_ratios) {
  if (const Status status = check_values(paired_ratios, kScoreBuckets); !status) return status.error();
  std::array<std::vector<double>, kScoreBuckets> buckets;
  for (std::size_t i = 0; i < paired_ratios.size(); ++i) {
    if (!(paired_ratios[i] > 0)) return failure(fmt::format("ratio {} is {}, not positive", i, paired_ratios[i]));
    buckets[i % kScoreBuckets].push_back(paired_ratios[i]);
  }
  RobustScore result;
  for (std::size_t i = 0; i < buckets.size(); ++i) result.bucket_means[i] = mean_unchecked(buckets[i]);
  result.variance = *variance(result.bucket_means);
  result.usable = result.variance <= kScoreVarianceLimit;
  result.score = round_toward_one(*median(result.bucket_means));
  return result;
}

}  // namespace warpsmith::stats
