// Interleaved batches and their statistics.
#include "evaluate/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace warpsmith {

namespace {

// A problem so slow that its minimum of samples would take many times the planned wall time gets fewer, never under:
constexpr int kFewestSamples = 3;
constexpr double kOverrun = 10;
// Fast subjects stop here: more samples no longer move the median.
constexpr int kMostSamples = 400;
// Samples before an early stop, so that one disturbed batch does not condemn a candidate.
constexpr int kSamplesBeforeStop = 3;

struct Series {
  std::size_t subject = 0;  // index into the plan
  bool cold = true, pdl = false;
  std::vector<double> samples;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Error with_name(const TimingSubject& subject, const Error& error) {
  return {error.kind, fmt::format("{}: {}", subject.name, error.message)};
}

Result<std::vector<Series>> arm_all(Backend& backend, const TimingPlan& plan) {
  std::vector<Series> result;
  for (std::size_t i = 0; i < plan.subjects.size(); ++i) {
    const TimingSubject& subject = plan.subjects[i];
    for (const bool pdl : {false, true}) {
      if (pdl && !subject.pdl) continue;
      for (const bool cold : {true, false}) {
        const auto armed = backend.arm(subject.number, cold, pdl);
        if (!armed) return with_name(subject, armed.error());
        result.push_back({i, cold, pdl, {}});
      }
    }
  }
  return result;
}

bool too_slow(const TimingPlan& plan, const std::vector<Series>& series, double& time_us) {
  if (!(plan.too_slow_us > 0)) return false;
  for (const Series& one : series) {
    if (!one.cold || one.pdl || static_cast<int>(one.samples.size()) < kSamplesBeforeStop) continue;
    time_us = *std::min_element(one.samples.begin(), one.samples.end());
    if (time_us > plan.too_slow_us) return true;
  }
  return false;
}

bool enough(const TimingPlan& plan, const std::vector<Series>& series, double elapsed) {
  std::size_t fewest = series.front().samples.size();
  for (const Series& one : series) fewest = std::min(fewest, one.samples.size());
  const int count = static_cast<int>(fewest);
  const double planned = plan.seconds * static_cast<double>(plan.subjects.size());
  if (count >= kMostSamples) return true;
  if (elapsed >= planned * kOverrun) return count >= kFewestSamples;
  return elapsed >= planned && count >= plan.min_samples;
}

Measurement collect(Backend& backend, const TimingPlan& plan, std::size_t subject, std::vector<Series>& series) {
  const int number = plan.subjects[subject].number;
  Measurement result;
  result.subject = plan.subjects[subject].name;
  if (number > 0) result.detail = backend.baseline_detail(number);
  for (Series& one : series) {
    if (one.subject != subject) continue;
    const TimingStats stats = summarize(std::move(one.samples), backend.launches_per_batch(number, one.cold, one.pdl));
    if (one.pdl) {
      (one.cold ? result.cold_pdl : result.warm_pdl) = stats;
    } else {
      (one.cold ? result.cold : result.warm) = stats;
    }
  }
  return result;
}

}  // namespace

double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

TimingStats summarize(std::vector<double> samples, int launches_per_sample) {
  std::sort(samples.begin(), samples.end());
  TimingStats stats;
  stats.median_us = percentile(samples, 0.5);
  stats.min_us = samples.front();
  stats.p5_us = percentile(samples, 0.05);
  stats.p95_us = percentile(samples, 0.95);
  stats.samples = static_cast<int>(samples.size());
  stats.launches_per_sample = launches_per_sample;
  return stats;
}

Result<TimingReport> time_subjects(Backend& backend, const TimingPlan& plan) {
  auto armed = arm_all(backend, plan);
  if (!armed) return armed.error();
  std::vector<Series>& series = *armed;
  TimingReport report;
  if (series.empty()) return report;

  std::vector<std::size_t> order(series.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937_64 generator(plan.seed);
  const auto start = std::chrono::steady_clock::now();
  double clock_mhz = 0;
  while (!enough(plan, series, seconds_since(start))) {
    std::shuffle(order.begin(), order.end(), generator);
    for (const std::size_t i : order) {
      Series& one = series[i];
      const TimingSubject& subject = plan.subjects[one.subject];
      const auto time_us = backend.time_batch(subject.number, one.cold, one.pdl);
      if (!time_us) return with_name(subject, time_us.error());
      one.samples.push_back(*time_us);
    }
    clock_mhz = std::max(clock_mhz, backend.clock_mhz());
    double slow_us = 0;
    if (too_slow(plan, series, slow_us)) {
      report.too_slow_us = slow_us;
      return report;
    }
  }
  for (std::size_t i = 0; i < plan.subjects.size(); ++i) {
    report.measurements.push_back(collect(backend, plan, i, series));
    report.measurements.back().clock_mhz = clock_mhz;
  }
  return report;
}

}  // namespace warpsmith
