// A survey of one shape: its kernels in every layout proved, then timed beside all baselines in one run, batches or
// calls interleaved; and how exact they are. Rivals for one place are compared first, in a run of its own, so that what
// is reported of the winner is not the luckiest of several times. What is made for the shape (operands, references,
// tuned baselines) serves all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/backend.h"
#include "evaluate/effort.h"
#include "evaluate/verdict.h"
#include "problem/problem.h"

namespace warpsmith {

// A compiled kernel that takes part. Those of one layout stand next to one another.
struct SurveyCandidate {
  // Of the subject, unique: "ours-nn"; "ours-nn-pdl" takes part for its times with dependent launch alone.
  std::string name;
  std::string rival_of;  // that candidate's name: the faster of them takes part, under that name
  Layout layout = Layout::nn;
  std::string binary, key;
  nlohmann::json launch;
  bool order_nondeterministic = false;
  std::string nondeterminism_reason;
};

struct SurveyRequest {
  Problem problem;  // its layout does not matter; packed
  std::vector<SurveyCandidate> candidates;
  std::vector<TimingMode> modes;  // of offline, call, server; in this order
  ServerLoad server;
  double seconds = 0.01;     // wall time to spend on a subject, offline and call
  double precision = 0.005;  // offline: rounds are added until the ratio is known so well, or kMostPatience times the
                             // time is spent; see ratio_uncertainty()
  // Modes call and server: the subjects that are timed. Empty: of ours and of each baseline the layout that was faster
  // offline in this survey, or all where that was not asked for.
  std::vector<std::string> call_subjects;
  nlohmann::json baseline_choices;  // as an earlier survey on such a device gave them; null: none
  bool accuracy = false;            // compare errors as well, where the device can
  std::uint64_t seed = 1;
};
void to_json(nlohmann::json& json, const SurveyRequest& request);
void from_json(const nlohmann::json& json, SurveyRequest& request);

struct SurveyReport {
  struct Proof {
    std::string name;
    std::vector<GateResult> gates;  // those that ran; the last one failed unless holds()
    std::string crash;              // the device's words; then nothing was timed
    bool holds() const { return crash.empty() && !gates.empty() && gates.back().passed; }
  };
  std::vector<Proof> proofs;
  // Of candidates with rivals: the name in the request of the one that took the name; its proof has the name as well,
  // and the proof of the one that gave it up the winner's.
  std::map<std::string, std::string> winners;
  std::map<std::string, double> contest_us;               // cold medians of the contest, by name in the request
  std::map<std::string, std::vector<Measurement>> modes;  // by to_string(TimingMode); subjects that hold alone
  nlohmann::json accuracy;                                // null: not asked for
  nlohmann::json baseline_choices;                        // for the next survey of this problem
  std::map<std::string, double> seconds;                  // where the time went
  std::map<std::string, std::string> versions;            // of the machine, baseline libraries included

  const Proof* proof(const std::string& name) const;
};
void to_json(nlohmann::json& json, const SurveyReport& report);
void from_json(const nlohmann::json& json, SurveyReport& report);

// Half the width of an interval that holds the median of the paired ratios with 95 % probability, over that median;
// infinite for fewer than six pairs. From order statistics: no distribution is assumed.
double ratio_uncertainty(const std::vector<double>& numerators, const std::vector<double>& denominators);

// What the worker does meanwhile.
struct SurveyHooks {
  std::function<void(const char* stage)> announce;
  std::function<void()> poisoned;  // this process is not to be used again
};

// The worker's side. Error: what the backend says; of a candidate's crash the report tells instead.
Result<SurveyReport> survey_shape(Backend& backend, const SurveyRequest& request, const SurveyHooks& hooks);

}  // namespace warpsmith
