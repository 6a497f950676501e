// Interleaved batches and calls, and their statistics.
#include "evaluate/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace warpsmith {

namespace {

// A problem so slow that its minimum of samples would take many times the planned wall time gets fewer, never under:
constexpr int kFewestSamples = 3;
constexpr double kOverrun = 10;
// Samples before an early stop, so that one disturbed batch does not condemn a candidate.
constexpr int kSamplesBeforeStop = 3;
constexpr int kWarmUpCalls = 3;
constexpr double kClockSeconds = 0.02;  // between two samples of the clock
// Measured peaks of a CPU drift with its clock and with other load, and copies do not reach the bandwidth that reads
// reach: there only a time well under the floor is impossible.
constexpr double kCpuFloorTolerance = 0.75;

struct Series {
  std::size_t subject = 0;  // index into the plan
  bool cold = true, pdl = false;
  std::vector<double> samples = {};
};

// What a clock sampled now and then shows.
class ClockLog {
 public:
  void sample(Backend& backend) {
    const double now = backend.now_seconds();
    if (last_ && now - *last_ < kClockSeconds) return;
    last_ = now;
    if (const double mhz = backend.clock_mhz(); mhz > 0) mhz_.push_back(mhz);
    for (std::string& reason : backend.throttle_reasons()) throttle_.insert(std::move(reason));
  }

  void describe(Measurement& measurement) const {
    measurement.throttle.assign(throttle_.begin(), throttle_.end());
    if (mhz_.empty()) return;
    std::vector<double> sorted = mhz_;
    std::sort(sorted.begin(), sorted.end());
    measurement.clock_mhz = percentile(sorted, 0.5);
    measurement.clock_min_mhz = sorted.front();
  }

 private:
  std::optional<double> last_;
  std::vector<double> mhz_;
  std::set<std::string> throttle_;
};

class Timer {
 public:
  Timer(Backend& backend, const TimingPlan& plan) : backend_(backend), plan_(plan), order_generator_(plan.seed) {}

  Result<TimingReport> run();

 private:
  bool by_calls() const { return plan_.mode != TimingMode::offline; }
  bool quoted(const Series& one) const { return one.cold == (plan_.mode != TimingMode::cuda_l2) && !one.pdl; }
  const TimingSubject& subject_of(const Series& one) const { return plan_.subjects[one.subject]; }
  double elapsed() { return backend_.now_seconds() - start_; }
  std::size_t rounds() const { return series_.front().samples.size(); }

  void list_series();
  Status arm_all();
  Status warm_up();
  Result<double> sample(const Series& one);
  Status take_round();
  bool enough();
  std::optional<double> slower_than(double limit_us) const;
  TimingRounds quoted_rounds() const;
  Measurement collect(std::size_t subject);

  Backend& backend_;
  const TimingPlan& plan_;
  std::vector<Series> series_;
  std::vector<std::size_t> order_;
  std::mt19937_64 order_generator_;
  std::mt19937_64 wait_generator_{plan_.seed + 0x9e3779b97f4a7c15ULL};
  ClockLog clocks_;
  double start_ = 0;
};

Error with_name(const TimingSubject& subject, const Error& error) {
  return {error.kind, fmt::format("{}: {}", subject.name, error.message)};
}

void Timer::list_series() {
  for (std::size_t i = 0; i < plan_.subjects.size(); ++i) {
    for (const bool pdl : {false, true}) {
      if (pdl ? !plan_.subjects[i].pdl || by_calls() : !plan_.subjects[i].plain) continue;
      for (const bool cold : {true, false}) {
        const bool wanted = cold ? plan_.mode != TimingMode::cuda_l2 : plan_.warm && plan_.subjects[i].warm;
        if (wanted) series_.push_back({i, cold, pdl});
      }
    }
  }
  order_.resize(series_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
}

// Offline: captured and run once. Otherwise a few calls that are not counted; the released protocol has seconds of
// them.
Status Timer::arm_all() {
  if (by_calls()) return warm_up();
  backend_.set_batch(plan_.batch_us, plan_.launch_us);
  for (const Series& one : series_) {
    const auto armed = backend_.arm(subject_of(one).number, one.cold, one.pdl);
    if (!armed) return with_name(subject_of(one), armed.error());
  }
  if (!plan_.preheat) return ok_status();
  const auto last = std::find_if(plan_.subjects.rbegin(), plan_.subjects.rend(),
                                 [](const TimingSubject& subject) { return subject.plain; });
  if (last == plan_.subjects.rend()) return ok_status();
  const Status heated = backend_.preheat(last->number);
  return heated ? ok_status() : Status(with_name(*last, heated.error()));
}

Status Timer::warm_up() {
  const double start = backend_.now_seconds();
  const double seconds = plan_.mode == TimingMode::cuda_l2 ? plan_.seconds : 0;
  for (int round = 0; round < kWarmUpCalls || backend_.now_seconds() - start < seconds; ++round) {
    for (const Series& one : series_) {
      const int number = subject_of(one).number;
      const Status ready = backend_.ready_call(number, one.cold);
      if (!ready) return with_name(subject_of(one), ready.error());
      const auto called = backend_.call(number, one.cold);
      if (!called) return with_name(subject_of(one), called.error());
    }
  }
  return ok_status();
}

Result<double> Timer::sample(const Series& one) {
  const int number = subject_of(one).number;
  if (!by_calls()) return backend_.time_batch(number, one.cold, one.pdl);
  if (const Status ready = backend_.ready_call(number, one.cold); !ready) return ready.error();
  if (plan_.mode == TimingMode::server) backend_.idle(exponential_wait(wait_generator_, plan_.server.qps));
  return backend_.call(number, one.cold);
}

Status Timer::take_round() {
  std::shuffle(order_.begin(), order_.end(), order_generator_);
  for (const std::size_t i : order_) {
    const auto time_us = sample(series_[i]);
    if (!time_us) return with_name(subject_of(series_[i]), time_us.error());
    series_[i].samples.push_back(*time_us);
  }
  clocks_.sample(backend_);
  return ok_status();
}

// The fastest cold sample of a single subject, when it is beyond the limit.
std::optional<double> Timer::slower_than(double limit_us) const {
  if (!(limit_us > 0) || rounds() < kSamplesBeforeStop) return std::nullopt;
  for (const Series& one : series_) {
    if (!quoted(one)) continue;
    const double fastest_us = *std::min_element(one.samples.begin(), one.samples.end());
    if (fastest_us > limit_us) return fastest_us;
  }
  return std::nullopt;
}

bool Timer::enough() {
  const int count = static_cast<int>(rounds());
  if (plan_.mode == TimingMode::server) return count >= plan_.server.arrivals;
  const double seconds = elapsed();
  if (plan_.mode == TimingMode::cuda_l2) return seconds >= kCudaL2Runs * plan_.seconds && count >= plan_.min_samples;
  if (slower_than(plan_.clear_us)) return true;
  const double planned = plan_.seconds * static_cast<double>(plan_.subjects.size());
  const bool patient =
      plan_.satisfied && seconds < planned * kMostPatience && count < plan_.most_samples * kMostPatience;
  const bool done = count >= plan_.most_samples || (seconds >= planned && count >= plan_.min_samples);
  if (done) return !patient || plan_.satisfied(quoted_rounds());
  return planned > 0 && seconds >= planned * kOverrun && count >= kFewestSamples;
}

TimingRounds Timer::quoted_rounds() const {
  TimingRounds rounds(plan_.subjects.size());
  for (const Series& one : series_) {
    if (quoted(one)) rounds[one.subject] = one.samples;
  }
  return rounds;
}

Measurement Timer::collect(std::size_t subject) {
  const int number = plan_.subjects[subject].number;
  Measurement result;
  result.subject = plan_.subjects[subject].name;
  result.mode = to_string(plan_.mode);
  if (plan_.mode == TimingMode::server)
    result.server = ServerFacts{plan_.server.qps, plan_.server.arrivals, plan_.seed};
  if (number > 0) result.detail = backend_.baseline_detail(number);
  for (Series& one : series_) {
    if (one.subject != subject) continue;
    const int launches = by_calls() ? 1 : backend_.launches_per_batch(number, one.cold, one.pdl);
    const TimingStats stats = summarize(std::move(one.samples), launches);
    if (one.pdl) {
      (one.cold ? result.cold_pdl : result.warm_pdl) = stats;
    } else {
      (one.cold ? result.cold : result.warm) = stats;
    }
  }
  clocks_.describe(result);
  return result;
}

Result<TimingReport> Timer::run() {
  TimingReport report;
  list_series();
  if (series_.empty()) return report;
  if (const Status armed = arm_all(); !armed) return armed.error();
  start_ = backend_.now_seconds();
  while (!enough()) {
    if (const Status taken = take_round(); !taken) return taken.error();
    report.too_slow_us = slower_than(plan_.too_slow_us);
    if (report.too_slow_us) return report;
  }
  report.rounds = quoted_rounds();
  for (std::size_t i = 0; i < plan_.subjects.size(); ++i) report.measurements.push_back(collect(i));
  return report;
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
  double sum = 0;
  for (const double sample : samples) sum += sample;
  stats.mean_us = sum / static_cast<double>(samples.size());
  return stats;
}

double exponential_wait(std::mt19937_64& generator, double rate) {
  constexpr double kUnit = 0x1p-53;
  const double uniform = static_cast<double>(generator() >> 11) * kUnit;  // in [0, 1)
  return -std::log1p(-uniform) / rate;
}

Result<TimingReport> time_subjects(Backend& backend, const TimingPlan& plan) { return Timer(backend, plan).run(); }

std::optional<std::string> under_physical_floor(const Problem& problem, const Machine& machine,
                                                const Measurement& measured) {
  const double tolerance = machine.kind == "cpu" ? kCpuFloorTolerance : 1.0;
  for (const bool cold : {true, false}) {
    const double floor_us = tolerance * physical_floor_us(problem, machine, cold);
    const TimingStats& stats = cold ? measured.cold : measured.warm;
    if (stats.samples == 0) continue;
    const double time_us = stats.median_us;
    if (!(time_us >= floor_us)) {
      return fmt::format("{} time {:.3f} us is under the physical floor of {:.3f} us", cold ? "cold" : "warm", time_us,
                         floor_us);
    }
  }
  return std::nullopt;
}

double planned_seconds(const TimingEffort& effort, int subjects) {
  constexpr double kColdAndWarm = 2;
  switch (effort.mode) {
    case TimingMode::server:
      return kColdAndWarm * subjects * effort.server.arrivals / effort.server.qps;
    case TimingMode::cuda_l2:
      return (1 + kCudaL2Runs) * effort.seconds;
    case TimingMode::offline:
    case TimingMode::call:
      break;
  }
  return kMostPatience * subjects * effort.seconds;
}

}  // namespace warpsmith
