// Sampling of exemplars.
#include "policy/embedded/exemplars.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace warpsmith::embedded {

namespace {

struct Bucket {
  std::vector<std::size_t> members;
  double mean = 0;
};

std::map<long long, Bucket> buckets_of(const std::vector<double>& speedups, double width) {
  std::map<long long, Bucket> buckets;
  for (std::size_t i = 0; i < speedups.size(); ++i) {
    Bucket& bucket = buckets[static_cast<long long>(std::floor(speedups[i] / width))];
    bucket.members.push_back(i);
    bucket.mean += speedups[i];
  }
  for (auto& [index, bucket] : buckets) bucket.mean /= static_cast<double>(bucket.members.size());
  return buckets;
}

// exp((s_i - mu) / tau) over its sum; the largest is taken off first, which cancels, so that nothing overflows.
std::vector<double> softmax(const std::vector<double>& means, double temperature) {
  std::vector<double> weights;
  const double largest = *std::max_element(means.begin(), means.end());
  for (const double mean : means) weights.push_back(std::exp((mean - largest) / temperature));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

std::vector<std::pair<long long, double>> bucket_probabilities(const std::vector<double>& speedups,
                                                               const BucketOptions& options) {
  std::vector<std::pair<long long, double>> result;
  std::vector<double> means;
  for (const auto& [index, bucket] : buckets_of(speedups, options.width)) {
    result.emplace_back(index, 0);
    means.push_back(bucket.mean);
  }
  if (means.empty()) return result;
  const auto weights = softmax(means, options.temperature);
  for (std::size_t i = 0; i < result.size(); ++i) result[i].second = weights[i];
  return result;
}

std::vector<std::size_t> draw_by_buckets(const std::vector<double>& speedups, std::size_t count,
                                         const BucketOptions& options, Rng& rng) {
  const auto buckets = buckets_of(speedups, options.width);
  std::vector<const Bucket*> left;
  for (const auto& [index, bucket] : buckets) left.push_back(&bucket);
  std::vector<std::size_t> drawn;
  while (drawn.size() < count && !left.empty()) {
    std::vector<double> means;
    for (const Bucket* bucket : left) means.push_back(bucket->mean);
    const auto weights = softmax(means, options.temperature);
    double at = rng.unit();
    std::size_t chosen = 0;
    while (chosen + 1 < weights.size() && (at -= weights[chosen]) >= 0) ++chosen;
    const auto& members = left[chosen]->members;
    drawn.push_back(members[rng.index(members.size())]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return drawn;
}

std::vector<std::size_t> draw_at_random(const std::vector<double>& speedups, std::size_t count, Rng& rng) {
  std::vector<std::size_t> all(speedups.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  rng.shuffle(all);
  all.resize(std::min(count, all.size()));
  return all;
}

}  // namespace warpsmith::embedded
