// A backend without a device: a scripted candidate over real inputs and an exact reference.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/backend.h"

namespace warpsmith {

class FakeBackend : public Backend {
 public:
  // Computes C from A and B (logical, row-major, as doubles that are exact elements). The default is honest.
  using Kernel = std::function<void(FakeBackend&)>;

  FakeBackend() {
    kernel = [](FakeBackend& self) { self.multiply(); };
  }

  // Script.
  Kernel kernel;
  std::string run_error;                  // run_once() fails with it
  InputKind fail_at = InputKind::normal;  // on inputs of this kind
  int failing_subject = -1;               // arm() fails for it
  std::optional<Error> load_error, arm_error, outputs_error;
  double candidate_us = 10;               // cold; 2 less warm, 1 less with PDL. Baseline n takes 100 n more than 10
  std::function<double(double)> disturb;  // what becomes of a time
  std::vector<double> clocks_mhz = {1500};
  std::vector<std::string> throttle;

  Machine facts;

  // State that kernels may touch.
  Problem problem{6, 10, 64};
  InputSpec spec;
  Factors factors;  // of the step that runs, where the problem is a scaled one
  std::vector<std::uint16_t> a, b, c;
  bool red_zone_hit = false;
  int runs = 0;
  std::vector<std::string> batches;  // and calls, in order
  std::vector<int> preheated;
  std::vector<double> waits;
  double batch_us = -1, launch_us = -1;
  std::string ready;
  double clock_seconds = 0;
  std::size_t clock_samples = 0;
  std::vector<InputKind> fills;

  double product(std::int64_t i, std::int64_t j, double* magnitudes = nullptr) const {
    double sum = 0, total = 0;
    for (std::int64_t k = 0; k < problem.k; ++k) {
      const double term = element_to_double(a[at(i, k, problem.k)], problem.element) *
                          element_to_double(b[at(k, j, problem.n)], problem.element);
      sum += term;
      total += term < 0 ? -term : term;
    }
    if (magnitudes != nullptr) *magnitudes = total;
    return sum;
  }
  void multiply() {
    for (std::int64_t i = 0; i < problem.m; ++i) {
      for (std::int64_t j = 0; j < problem.n; ++j) {
        std::uint16_t& out = c[at(i, j, problem.n)];
        double value = static_cast<double>(factors.alpha) * product(i, j);
        if (factors.beta != 0) value += static_cast<double>(factors.beta) * element_to_double(out, problem.element);
        out = double_to_element(value, problem.element);
      }
    }
  }
  static std::size_t at(std::int64_t row, std::int64_t col, std::int64_t cols) {
    return static_cast<std::size_t>(row * cols + col);
  }

  const Machine& machine() const override { return facts; }
  Status prepare(const Problem& next, std::uint64_t) override {
    problem = next;
    return ok_status();
  }
  Status load(const Artifact&, const nlohmann::json&) override {
    return load_error ? Status(*load_error) : ok_status();
  }
  void unload() override {}
  Result<int> keep_candidate() override { return -++kept_; }

  Status fill(InputKind kind, std::uint64_t seed) override {
    fills.push_back(kind);
    spec = {kind, seed, problem.m, problem.n, problem.k, problem.element};
    a.clear();
    b.clear();
    for (std::int64_t i = 0; i < problem.m; ++i) {
      for (std::int64_t k = 0; k < problem.k; ++k) a.push_back(input_a(spec, i, k));
    }
    for (std::int64_t k = 0; k < problem.k; ++k) {
      for (std::int64_t j = 0; j < problem.n; ++j) b.push_back(input_b(spec, k, j));
    }
    a_before_ = a;
    b_before_ = b;
    return ok_status();
  }
  GateObservation run_step(const GateStep& step) override {
    factors = problem.scaled() ? step.factors : Factors{};
    return Backend::run_step(step);
  }
  Status run_once(std::uint16_t poison) override {
    ++runs;
    if (!run_error.empty() && spec.kind == fail_at) return failure(run_error);
    c.assign(static_cast<std::size_t>(problem.m * problem.n), poison);
    for (std::int64_t i = 0; factors.beta != 0 && i < problem.m; ++i) {
      for (std::int64_t j = 0; j < problem.n; ++j) c[at(i, j, problem.n)] = input_c(spec, i, j);
    }
    kernel(*this);
    return ok_status();
  }
  CheckReport check(Criterion criterion) override {
    CheckReport report;
    const auto touched_a = a, touched_b = b;
    a = a_before_;
    b = b_before_;
    for (std::int64_t i = 0; i < problem.m; ++i) {
      for (std::int64_t j = 0; j < problem.n; ++j) {
        double magnitudes = 0;
        const double c64 = product(i, j, &magnitudes);
        Expected expected = expected_sum(c64, magnitudes, {problem.k, problem.accumulator, term_spread(spec.kind)});
        if (problem.scaled()) {
          expected =
              expected_scaled(expected, magnitudes, factors, element_to_double(input_c(spec, i, j), problem.element));
        }
        const auto range = acceptable_range(criterion, expected, problem.element);
        const std::uint16_t got = c[at(i, j, problem.n)];
        if (!range.contains(got, problem.element)) ++report.bad;
        if (is_misrounded(got, range, expected.value, problem.element)) ++report.precision.misrounded;
      }
    }
    a = touched_a;
    b = touched_b;
    report.passed = report.bad == 0;
    report.precision.elements = problem.m * problem.n;
    report.precision.limit = misrounding_limit(problem.k, problem.element, problem.accumulator);
    return report;
  }
  CheckReport check_untouched() override {
    CheckReport report;
    report.passed = !red_zone_hit && a == a_before_ && b == b_before_;
    if (!report.passed) report.detail = "touched";
    return report;
  }
  std::uint64_t output_hash() override {
    std::uint64_t hash = 0;
    for (const std::uint16_t bits : c) hash = inputs::mix(hash + bits + 1);
    return hash;
  }
  std::int64_t count_equal_to(std::uint16_t pattern) override { return std::count(c.begin(), c.end(), pattern); }

  Result<std::vector<std::string>> open_baselines() override { return std::vector<std::string>{"baseline"}; }
  std::string baseline_detail(int subject) override { return "setting of " + std::to_string(subject); }
  Result<double> arm(int subject, bool cold, bool pdl) override {
    if (subject == failing_subject) return failure("scripted failure");
    if (subject == 0 && arm_error) return *arm_error;
    return time_of(subject, cold, pdl);
  }
  void set_batch(double wanted_us, double expected_us) override {
    batch_us = wanted_us;
    launch_us = expected_us;
  }
  Result<double> time_batch(int subject, bool cold, bool pdl) override {
    batches.push_back(std::to_string(subject) + (cold ? " cold" : " warm"));
    return spend(time_of(subject, cold, pdl), launches_per_batch(subject, cold, pdl));
  }
  int launches_per_batch(int, bool, bool) override { return 50; }
  Status preheat(int subject) override {
    preheated.push_back(subject);
    return ok_status();
  }
  Status ready_call(int subject, bool cold) override {
    if (subject == failing_subject) return failure("scripted failure");
    ready = std::to_string(subject) + (cold ? " cold" : " warm");
    return ok_status();
  }
  // A call of what was not made ready fails.
  Result<double> call(int subject, bool cold) override {
    const std::string name = std::to_string(subject) + (cold ? " cold" : " warm");
    if (ready != name) return failure("called before it was ready: " + name);
    ready.clear();
    batches.push_back(name);
    return spend(time_of(subject, cold, false), 1);
  }
  double now_seconds() override { return clock_seconds; }
  void idle(double seconds) override {
    waits.push_back(seconds);
    clock_seconds += seconds;
  }
  std::vector<std::string> throttle_reasons() override { return throttle; }
  double clock_mhz() override { return clocks_mhz[std::min(clock_samples++, clocks_mhz.size() - 1)]; }
  Result<CheckReport> check_timed_outputs(int) override {
    if (outputs_error) return *outputs_error;
    CheckReport report;
    report.passed = true;
    return report;
  }

 private:
  double time_of(int subject, bool cold, bool pdl) const {
    const double time_us = subject <= 0 ? candidate_us : 100 * subject + 10;
    return (disturb ? disturb(time_us) : time_us) - (cold ? 0 : 2) - (pdl ? 1 : 0);
  }
  double spend(double time_us, int launches) {
    clock_seconds += 1e-6 * time_us * launches;
    return time_us;
  }

  std::vector<std::uint16_t> a_before_, b_before_;
  int kept_ = 0;
};

}  // namespace warpsmith
