// Medians of slopes, and how far apart they may lie.
#include "audit/clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluate/timing.h"

namespace warpsmith::audit {

namespace {

// The judge may see more time per call than is claimed by this share, or this many microseconds, or twice the noise of
// its own figure; but noise never excuses more than kMostNoise of it.
constexpr double kToleranceShare = 0.08;
constexpr double kToleranceUs = 0.4;
constexpr double kMostNoise = 0.5;
// Work that is still running when the stream says it is done.
constexpr double kSettleShare = 0.25;
constexpr double kSettleUs = 60;

template <class Value>
std::vector<double> sorted_values(const std::vector<BatchPair>& pairs, Value value) {
  std::vector<double> values;
  for (const BatchPair& pair : pairs) values.push_back(value(pair));
  std::sort(values.begin(), values.end());
  return values;
}

template <class Value>
double median_of(const std::vector<BatchPair>& pairs, Value value) {
  return percentile(sorted_values(pairs, value), 0.5);
}

double slope(const BatchPair& pair, double BatchTimes::*clock) {
  return (pair.twice.*clock - pair.single.*clock) / std::max(1, pair.twice.calls - pair.single.calls);
}

}  // namespace

ClockReport compare_clocks(const std::vector<BatchPair>& pairs) {
  ClockReport report;
  report.samples = static_cast<int>(pairs.size());
  const auto per_call =
      sorted_values(pairs, [](const BatchPair& pair) { return pair.twice.device_us / std::max(1, pair.twice.calls); });
  report.device_us = percentile(per_call, 0.5);
  report.spread = (percentile(per_call, 0.95) - percentile(per_call, 0.05)) / std::max(report.device_us, 1e-9);
  report.device_slope_us = median_of(pairs, [](const auto& pair) { return slope(pair, &BatchTimes::device_us); });
  report.host_us = median_of(pairs, [](const auto& pair) { return slope(pair, &BatchTimes::host_us); });
  const auto judged = sorted_values(pairs, [](const BatchPair& pair) { return slope(pair, &BatchTimes::judge_us); });
  report.judge_us = percentile(judged, 0.5);
  // Of a median: about 1.25 deviations over the root of the count; a deviation is 0.74 interquartile ranges.
  report.noise_us = 0.93 * (percentile(judged, 0.75) - percentile(judged, 0.25)) / std::sqrt(judged.size());
  const double allowed_us = std::max(
      {kToleranceShare * report.judge_us, kToleranceUs, std::min(2 * report.noise_us, kMostNoise * report.judge_us)});
  for (const auto& [name, claimed] :
       {std::pair{"device events", report.device_us}, {"the host's clock", report.host_us}}) {
    if (report.judge_us - claimed <= allowed_us) continue;  // a NaN is not
    report.disagreement += fmt::format("{}{} claim {:.3g} us a call, the judge's clock shows {:.3g} us",
                                       report.disagreement.empty() ? "" : "; ", name, claimed, report.judge_us);
  }
  const double settle_us = median_of(pairs, [](const auto& pair) { return pair.twice.settle_us; });
  const double batch_us = median_of(pairs, [](const auto& pair) { return pair.twice.host_us; });
  if (!(settle_us <= std::max(kSettleUs, kSettleShare * batch_us))) {
    report.disagreement += fmt::format("{}the device went on working for {:.3g} us after the stream was idle",
                                       report.disagreement.empty() ? "" : "; ", settle_us);
  }
  report.consistent = report.disagreement.empty();
  // The judge's figure is the noisiest; within its noise it adds nothing to the other two.
  const double judged_us = std::max(0.0, report.judge_us - 2 * report.noise_us);
  report.quoted_us = report.consistent ? std::max({report.device_us, report.host_us, judged_us})
                                       : std::max(report.judge_us, report.device_us);
  return report;
}

void to_json(nlohmann::json& json, const ClockReport& report) {
  json = {
      {"samples", report.samples},    {"device_us", report.device_us},   {"device_slope_us", report.device_slope_us},
      {"host_us", report.host_us},    {"judge_us", report.judge_us},     {"noise_us", report.noise_us},
      {"spread", report.spread},      {"consistent", report.consistent}, {"disagreement", report.disagreement},
      {"quoted_us", report.quoted_us}};
}

void from_json(const nlohmann::json& json, ClockReport& report) {
  json.at("samples").get_to(report.samples);
  json.at("device_us").get_to(report.device_us);
  json.at("device_slope_us").get_to(report.device_slope_us);
  json.at("host_us").get_to(report.host_us);
  json.at("judge_us").get_to(report.judge_us);
  json.at("noise_us").get_to(report.noise_us);
  json.at("spread").get_to(report.spread);
  json.at("consistent").get_to(report.consistent);
  json.at("disagreement").get_to(report.disagreement);
  json.at("quoted_us").get_to(report.quoted_us);
}

}  // namespace warpsmith::audit
