// Which measured recipes a prompt shows: the performance buckets of CUDA-L1, or any two.
#pragma once

#include <cstddef>
#include <vector>

#include "policy/rng.h"

namespace warpsmith::embedded {

struct BucketOptions {
  double width = 0.05;        // of a bucket [s, s + width) of speed-ups
  double temperature = 0.15;  // tau of P(bucket) ~ exp((mean of the bucket - mean of all buckets' means) / tau)
};

// Positions of `count` of the speed-ups, each from a bucket of its own: buckets are drawn one after the other without
// repetition by the formula above, then a member of each uniformly. Fewer where there are fewer buckets.
std::vector<std::size_t> draw_by_buckets(const std::vector<double>& speedups, std::size_t count,
                                         const BucketOptions& options, Rng& rng);
// The probability of each bucket to be drawn first, by its index floor(speed-up / width), ascending.
std::vector<std::pair<long long, double>> bucket_probabilities(const std::vector<double>& speedups,
                                                               const BucketOptions& options);
// Any `count` of them, uniformly without repetition.
std::vector<std::size_t> draw_at_random(const std::vector<double>& speedups, std::size_t count, Rng& rng);

}  // namespace warpsmith::embedded
