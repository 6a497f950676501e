// Timing of several subjects, cold and warm, in any mode: batches or calls interleaved in random order so that drift of
// clocks and temperature hits all alike. Written once for every backend.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/backend.h"
#include "evaluate/effort.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

// 2^33: a problem of this many flop and more draws enough power to lower a GPU's clocks.
inline constexpr double kHeatingFlops = 8.6e9;

// Linear interpolation between order statistics; fraction in [0, 1]. Precondition: sorted and not empty.
double percentile(const std::vector<double>& sorted, double fraction);

// Precondition: samples (microseconds per launch) is not empty.
TimingStats summarize(std::vector<double> samples, int launches_per_sample);

// A wait of an arrival process with `rate` per second, in seconds; the same on every platform.
double exponential_wait(std::mt19937_64& generator, double rate);

struct TimingSubject {
  int number =
      0;  // as in Backend: 0 or less a candidate, 1.. the baselines; one number may be timed under several names
  std::string name;
  bool pdl = false;   // time with programmatic dependent launch as well (mode offline)
  bool warm = true;   // time warm operands as well, where the plan does
  bool plain = true;  // time it without dependent launch
};

// The quoted samples of every subject (cold; in mode cuda_l2 warm): [subject][round], microseconds per launch. Samples
// of one round were taken next to one another.
using TimingRounds = std::vector<std::vector<double>>;

struct TimingPlan {
  std::vector<TimingSubject> subjects;
  TimingMode mode = TimingMode::offline;
  ServerLoad server;
  double seconds = 0.3;    // wall time per subject, all its series together (0: as min_samples takes); cuda_l2: see
                           // kCudaL2Runs
  int min_samples = 9;     // batches or calls per series
  int most_samples = 400;  // more no longer move a median
  bool warm = true;        // time warm operands as well
  double batch_us = 0;     // offline: wanted length of a batch; 0: the backend's own choice
  double launch_us = 0;    // of batch_us: what a launch is expected to take; 0: not known
  bool preheat = true;     // where the problem needs it
  double too_slow_us = 0;  // of a single subject: stop, without measurements, beyond this cold time; 0: never
  double clear_us = 0;     // of a single subject: more samples are not worth it beyond this cold time; 0: never
  // Asked once the rest is enough: whether the rounds so far will do. Rounds are added for kMostPatience times the
  // planned time at most.
  std::function<bool(const TimingRounds&)> satisfied;
  std::uint64_t seed = 1;  // of the order and of the waits
};

inline constexpr double kMostPatience = 4;

struct TimingReport {
  std::vector<Measurement> measurements;  // in the order of the plan
  std::optional<double> too_slow_us;      // the time at which the early stop was taken
  TimingRounds rounds;
};

// Error: what the backend says of a subject that cannot be armed or timed, with the subject's name.
Result<TimingReport> time_subjects(Backend& backend, const TimingPlan& plan);

// Physics: no right kernel is faster than the floor. What is wrong with a measurement; nullopt: nothing.
std::optional<std::string> under_physical_floor(const Problem& problem, const Machine& machine,
                                                const Measurement& measured);

// Wall time that a plan of so many subjects is meant to take at most, in seconds.
double planned_seconds(const TimingEffort& effort, int subjects);

}  // namespace warpsmith
