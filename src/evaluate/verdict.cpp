// Verdicts as JSON (worker to parent, archive) and as one line of text.
#include "evaluate/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace warpsmith {

namespace {

template <class T>
void put_optional(nlohmann::json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

template <class T>
std::optional<T> get_optional(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

// Each case by name: the order is that of the variant.
constexpr std::string_view kKinds[] = {"illegal",  "compile-error", "wrong",    "crashed", "timed-out",
                                       "too-slow", "suspicious",    "accepted", "failed"};

struct CaseToJson {
  nlohmann::json operator()(const verdict::Illegal& value) const {
    return {{"rule", value.rule}, {"reason", value.reason}};
  }
  nlohmann::json operator()(const verdict::CompileError& value) const { return {{"message", value.message}}; }
  nlohmann::json operator()(const verdict::Wrong& value) const { return {{"gate", value.gate}}; }
  nlohmann::json operator()(const verdict::Crashed& value) const {
    return {{"stage", value.stage}, {"reason", value.reason}};
  }
  nlohmann::json operator()(const verdict::TimedOut& value) const {
    return {{"stage", value.stage}, {"limit_seconds", value.limit_seconds}};
  }
  nlohmann::json operator()(const verdict::TooSlow& value) const {
    return {{"time_us", value.time_us}, {"limit_us", value.limit_us}};
  }
  nlohmann::json operator()(const verdict::Suspicious& value) const {
    return {{"reason", value.reason}, {"time_us", value.time_us}};
  }
  nlohmann::json operator()(const verdict::Accepted& value) const { return {{"measurement", value.measurement}}; }
  nlohmann::json operator()(const verdict::Failed& value) const { return {{"reason", value.reason}}; }
};

decltype(Verdict::outcome) outcome_from(const std::string& kind, const nlohmann::json& json) {
  if (kind == "illegal") return verdict::Illegal{json.at("rule"), json.at("reason")};
  if (kind == "compile-error") return verdict::CompileError{json.at("message")};
  if (kind == "wrong") return verdict::Wrong{json.at("gate").get<GateResult>()};
  if (kind == "crashed") return verdict::Crashed{json.at("stage"), json.at("reason")};
  if (kind == "timed-out") return verdict::TimedOut{json.at("stage"), json.at("limit_seconds")};
  if (kind == "too-slow") return verdict::TooSlow{json.at("time_us"), json.at("limit_us")};
  if (kind == "suspicious") return verdict::Suspicious{json.at("reason"), json.at("time_us")};
  if (kind == "accepted") return verdict::Accepted{json.at("measurement").get<Measurement>()};
  if (kind == "failed") return verdict::Failed{json.at("reason")};
  throw nlohmann::json::other_error::create(501, "unknown verdict kind '" + kind + "'", nullptr);
}

struct Describe {
  std::string operator()(const verdict::Illegal& value) const {
    return fmt::format("illegal ({}): {}", value.rule, value.reason);
  }
  std::string operator()(const verdict::CompileError& value) const {
    return fmt::format("does not compile: {}", value.message.substr(0, value.message.find('\n')));
  }
  std::string operator()(const verdict::Wrong& value) const {
    return fmt::format("wrong (gate {}): {}", value.gate.gate, value.gate.detail);
  }
  std::string operator()(const verdict::Crashed& value) const {
    return fmt::format("crashed in {}: {}", value.stage, value.reason);
  }
  std::string operator()(const verdict::TimedOut& value) const {
    return fmt::format("{} ran past its limit of {:g} s and was killed", value.stage, value.limit_seconds);
  }
  std::string operator()(const verdict::TooSlow& value) const {
    return fmt::format("too slow: {:.2f} us, limit {:.2f} us", value.time_us, value.limit_us);
  }
  std::string operator()(const verdict::Suspicious& value) const {
    return fmt::format("suspicious ({:.3f} us): {}", value.time_us, value.reason);
  }
  std::string operator()(const verdict::Accepted& value) const {
    const TimingStats& warm = value.measurement.warm;
    const std::string warm_text = warm.samples > 0 ? fmt::format("{:.2f} us warm", warm.median_us) : "screened only";
    return fmt::format("accepted: {:.2f} us cold, {}", value.measurement.cold.median_us, warm_text);
  }
  std::string operator()(const verdict::Failed& value) const {
    return fmt::format("could not be evaluated: {}", value.reason);
  }
};

}  // namespace

std::string_view Verdict::kind() const { return kKinds[outcome.index()]; }

std::string Verdict::describe() const { return std::visit(Describe{}, outcome); }

void to_json(nlohmann::json& json, const TimingStats& value) {
  json = {{"median_us", value.median_us}, {"min_us", value.min_us},
          {"p5_us", value.p5_us},         {"p95_us", value.p95_us},
          {"samples", value.samples},     {"launches_per_sample", value.launches_per_sample},
          {"mean_us", value.mean_us}};
}

void from_json(const nlohmann::json& json, TimingStats& value) {
  json.at("median_us").get_to(value.median_us);
  json.at("min_us").get_to(value.min_us);
  json.at("p5_us").get_to(value.p5_us);
  json.at("p95_us").get_to(value.p95_us);
  json.at("samples").get_to(value.samples);
  json.at("launches_per_sample").get_to(value.launches_per_sample);
  value.mean_us = json.value("mean_us", 0.0);
}

void to_json(nlohmann::json& json, const ServerFacts& value) {
  json = {{"qps", value.qps}, {"arrivals", value.arrivals}, {"seed", value.seed}};
}

void from_json(const nlohmann::json& json, ServerFacts& value) {
  json.at("qps").get_to(value.qps);
  json.at("arrivals").get_to(value.arrivals);
  json.at("seed").get_to(value.seed);
}

void to_json(nlohmann::json& json, const Measurement& value) {
  json = {{"subject", value.subject},     {"cold", value.cold},
          {"warm", value.warm},           {"detail", value.detail},
          {"clock_mhz", value.clock_mhz}, {"clock_min_mhz", value.clock_min_mhz},
          {"throttle", value.throttle},   {"mode", value.mode}};
  put_optional(json, "cold_pdl", value.cold_pdl);
  put_optional(json, "warm_pdl", value.warm_pdl);
  put_optional(json, "server", value.server);
}

// Records made before a field existed lack it.
void from_json(const nlohmann::json& json, Measurement& value) {
  json.at("subject").get_to(value.subject);
  json.at("cold").get_to(value.cold);
  json.at("warm").get_to(value.warm);
  json.at("detail").get_to(value.detail);
  json.at("clock_mhz").get_to(value.clock_mhz);
  value.clock_min_mhz = json.value("clock_min_mhz", 0.0);
  value.throttle = json.value("throttle", std::vector<std::string>{});
  value.mode = json.value("mode", "offline");
  value.cold_pdl = get_optional<TimingStats>(json, "cold_pdl");
  value.warm_pdl = get_optional<TimingStats>(json, "warm_pdl");
  value.server = get_optional<ServerFacts>(json, "server");
}

void to_json(nlohmann::json& json, const PairedScore& score) {
  json = {{"baseline", score.baseline}, {"value", score.value},   {"buckets", score.buckets},
          {"variance", score.variance}, {"rounds", score.rounds}, {"usable", score.usable}};
}

void from_json(const nlohmann::json& json, PairedScore& score) {
  json.at("baseline").get_to(score.baseline);
  json.at("value").get_to(score.value);
  json.at("buckets").get_to(score.buckets);
  json.at("variance").get_to(score.variance);
  json.at("rounds").get_to(score.rounds);
  json.at("usable").get_to(score.usable);
}

void to_json(nlohmann::json& json, const GateResult& value) {
  const double worst_error = std::isfinite(value.worst_error) ? value.worst_error : std::numeric_limits<double>::max();
  json = {{"gate", value.gate}, {"passed", value.passed}, {"detail", value.detail}, {"worst_error", worst_error}};
}

void from_json(const nlohmann::json& json, GateResult& value) {
  json.at("gate").get_to(value.gate);
  json.at("passed").get_to(value.passed);
  json.at("detail").get_to(value.detail);
  json.at("worst_error").get_to(value.worst_error);
}

void to_json(nlohmann::json& json, const Verdict& value) {
  json = std::visit(CaseToJson{}, value.outcome);
  json["kind"] = value.kind();
  json["gates"] = value.gates;
  put_optional(json, "resources", value.resources);
  json["compile_seconds"] = value.compile_seconds;
  json["gate_seconds"] = value.gate_seconds;
  json["prepare_seconds"] = value.prepare_seconds;
  json["timing_seconds"] = value.timing_seconds;
}

void from_json(const nlohmann::json& json, Verdict& value) {
  value.outcome = outcome_from(json.at("kind").get<std::string>(), json);
  json.at("gates").get_to(value.gates);
  value.resources = get_optional<ResourceReport>(json, "resources");
  json.at("compile_seconds").get_to(value.compile_seconds);
  json.at("gate_seconds").get_to(value.gate_seconds);
  value.prepare_seconds = json.value("prepare_seconds", 0.0);
  json.at("timing_seconds").get_to(value.timing_seconds);
}

}  // namespace warpsmith
