// Verdict: what became of a candidate, one variant. Failure is data: every way to fail is a case with its facts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compile/compile.h"

namespace warpsmith {

// Times of one subject (candidate or baseline) in one mode. Microseconds per launch.
struct TimingStats {
  double median_us = 0;
  double min_us = 0;
  double p5_us = 0, p95_us = 0;
  int samples = 0;  // timed batches or calls; 0: not measured
  int launches_per_sample = 0;
  double mean_us = 0;  // 0 in records that lack it
};

// What mode "server" was asked for.
struct ServerFacts {
  double qps = 0;
  int arrivals = 0;
  std::uint64_t seed = 0;  // of order and waits
};

// Times of one subject in one mode: cold operands (the quoted figure) and warm ones. Statistics are taken over batches
// that alternate in random order with the other subjects'.
struct Measurement {
  std::string subject;  // "candidate", "cublaslt-auto-tn", "openblas-sgemm-1t" ...
  TimingStats cold, warm;
  std::optional<TimingStats> cold_pdl, warm_pdl;  // with programmatic dependent launch, CUDA only
  std::string detail;                             // the baseline's own setting: algorithm, core type, threads
  double clock_mhz = 0;                           // median of samples while timing; 0: unknown
  double clock_min_mhz = 0;                       // lowest sample; 0: unknown
  std::vector<std::string> throttle;              // why clocks were lowered at some time while timing
  std::string mode = "offline";                   // or "call", "server", "cuda-l2"
  std::optional<ServerFacts> server;              // of mode "server"
};

// The robust score of a candidate over paired samples of the fastest baseline of its layout, in the quoted series.
struct PairedScore {
  std::string baseline;
  double value = 0;
  std::vector<double> buckets;  // mean ratio of each
  double variance = 0;          // of the bucket means
  int rounds = 0;
  bool usable = false;  // false: the variance stayed too large, or there were too few rounds
};

struct GateResult {
  std::string gate;  // "resource", "bound/normal", "exact", "accumulator", "coverage", "repeatability", ...
  bool passed = false;
  std::string detail;      // on failure: first bad element, its value and what was allowed
  double worst_error = 0;  // largest |c - c64| over the bound's half-width; 0 where it has no meaning. JSON has no
                           // infinity: the largest double stands for it
};

namespace verdict {
struct Illegal {
  std::string rule, reason;
};
struct CompileError {
  std::string message;
};
struct Wrong {
  GateResult gate;
};
struct Crashed {
  std::string stage, reason;
};  // signal, or a sticky CUDA error
struct TimedOut {
  std::string stage;
  double limit_seconds = 0;
};
struct TooSlow {
  double time_us = 0, limit_us = 0;
};  // stopped early
struct Suspicious {
  std::string reason;
  double time_us = 0;
};
struct Accepted {
  Measurement measurement;
};
struct Failed {
  std::string reason;
};  // the environment failed, not the candidate: may be tried again
}  // namespace verdict

struct Verdict {
  std::variant<verdict::Illegal, verdict::CompileError, verdict::Wrong, verdict::Crashed, verdict::TimedOut,
               verdict::TooSlow, verdict::Suspicious, verdict::Accepted, verdict::Failed>
      outcome = verdict::Failed{};
  std::vector<GateResult> gates;  // those that ran, in order
  std::optional<ResourceReport> resources;
  double compile_seconds = 0, gate_seconds = 0, timing_seconds = 0;
  double prepare_seconds = 0;  // of inputs and references, by the first candidate of a problem in a worker; else 0

  const verdict::Accepted* accepted() const { return std::get_if<verdict::Accepted>(&outcome); }
  // "illegal", "compile-error", "wrong", "crashed", "timed-out", "too-slow", "suspicious", "accepted", "failed"
  std::string_view kind() const;
  std::string describe() const;  // one line
};

void to_json(nlohmann::json& json, const TimingStats& value);
void from_json(const nlohmann::json& json, TimingStats& value);
void to_json(nlohmann::json& json, const ServerFacts& value);
void from_json(const nlohmann::json& json, ServerFacts& value);
void to_json(nlohmann::json& json, const Measurement& value);
void from_json(const nlohmann::json& json, Measurement& value);
void to_json(nlohmann::json& json, const PairedScore& score);
void from_json(const nlohmann::json& json, PairedScore& score);
void to_json(nlohmann::json& json, const GateResult& value);
void from_json(const nlohmann::json& json, GateResult& value);
void to_json(nlohmann::json& json, const Verdict& value);
void from_json(const nlohmann::json& json, Verdict& value);

}  // namespace warpsmith
