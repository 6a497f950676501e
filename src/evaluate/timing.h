// Offline timing: batches of back-to-back launches of several subjects, cold and warm, interleaved in random order so
// that drift of clocks and temperature hits all alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/backend.h"
#include "evaluate/verdict.h"

namespace warpsmith {

// Linear interpolation between order statistics; fraction in [0, 1]. Precondition: sorted and not empty.
double percentile(const std::vector<double>& sorted, double fraction);

// Precondition: samples (microseconds per launch) is not empty.
TimingStats summarize(std::vector<double> samples, int launches_per_sample);

struct TimingSubject {
  int number = 0;  // as in Backend: 0 the candidate, 1.. the baselines
  std::string name;
  bool pdl = false;  // time with programmatic dependent launch as well
};

struct TimingPlan {
  std::vector<TimingSubject> subjects;
  double seconds = 0.3;    // wall time per subject, all its modes together
  int min_samples = 9;     // batches per mode
  double too_slow_us = 0;  // of a single subject: stop early beyond this cold time; 0: never
  std::uint64_t seed = 1;  // of the order
};

struct TimingReport {
  std::vector<Measurement> measurements;  // in the order of the plan
  std::optional<double> too_slow_us;      // the time at which the early stop was taken
};

// Error: what the backend says of a subject that cannot be armed or timed, with the subject's name.
Result<TimingReport> time_subjects(Backend& backend, const TimingPlan& plan);

}  // namespace warpsmith
