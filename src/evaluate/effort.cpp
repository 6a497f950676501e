// Names of the timing modes, and efforts as JSON.
#include "evaluate/effort.h"

#include <fmt/format.h>

#include "base/text.h"

namespace warpsmith {

namespace {

constexpr TimingMode kModes[] = {TimingMode::offline, TimingMode::call, TimingMode::server, TimingMode::cuda_l2};

}  // namespace

std::string_view to_string(TimingMode mode) {
  switch (mode) {
    case TimingMode::offline:
      return "offline";
    case TimingMode::call:
      return "call";
    case TimingMode::server:
      return "server";
    case TimingMode::cuda_l2:
      return "cuda-l2";
  }
  return "unknown";
}

Result<TimingMode> parse_timing_mode(std::string_view text) {
  for (const TimingMode mode : {TimingMode::offline, TimingMode::call, TimingMode::server}) {
    if (text == to_string(mode)) return mode;
  }
  return bad_input(fmt::format("unknown mode '{}'; accepted: offline, call, server", printable(text)));
}

void to_json(nlohmann::json& json, const TimingEffort& effort) {
  json = {{"seconds", effort.seconds},
          {"min_samples", effort.min_samples},
          {"mode", to_string(effort.mode)},
          {"qps", effort.server.qps},
          {"arrivals", effort.server.arrivals},
          {"screening", effort.screening},
          {"exhaustive_seconds", effort.exhaustive_seconds},
          {"baselines", effort.baselines},
          {"baseline_choices", effort.baseline_choices}};
}

void from_json(const nlohmann::json& json, TimingEffort& effort) {
  json.at("seconds").get_to(effort.seconds);
  json.at("min_samples").get_to(effort.min_samples);
  const auto name = json.at("mode").get<std::string>();
  effort.mode = TimingMode::offline;
  for (const TimingMode mode : kModes) {
    if (name == to_string(mode)) effort.mode = mode;
  }
  json.at("qps").get_to(effort.server.qps);
  json.at("arrivals").get_to(effort.server.arrivals);
  json.at("screening").get_to(effort.screening);
  json.at("exhaustive_seconds").get_to(effort.exhaustive_seconds);
  json.at("baselines").get_to(effort.baselines);
  effort.baseline_choices = json.at("baseline_choices");
}

}  // namespace warpsmith
