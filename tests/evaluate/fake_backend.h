// A backend without a device: a scripted candidate over real inputs and an exact reference.
#pragma once

#include <algorithm>
#include <functional>
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

  // State that kernels may touch.
  Problem problem{6, 10, 64};
  InputSpec spec;
  std::vector<std::uint16_t> a, b, c;
  bool red_zone_hit = false;
  int runs = 0;
  std::vector<std::string> batches;
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
      for (std::int64_t j = 0; j < problem.n; ++j)
        c[at(i, j, problem.n)] = double_to_element(product(i, j), problem.element);
    }
  }
  static std::size_t at(std::int64_t row, std::int64_t col, std::int64_t cols) {
    return static_cast<std::size_t>(row * cols + col);
  }

  const Machine& machine() const override { return machine_; }
  Status prepare(const Problem& next, std::uint64_t) override {
    problem = next;
    return ok_status();
  }
  Status load(const Artifact&, const nlohmann::json&) override { return ok_status(); }
  void unload() override {}

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
  Status run_once(std::uint16_t poison) override {
    ++runs;
    if (!run_error.empty() && spec.kind == fail_at) return failure(run_error);
    c.assign(static_cast<std::size_t>(problem.m * problem.n), poison);
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
        const auto range = acceptable_range(criterion, c64, magnitudes, problem.k, problem.element);
        if (!range.contains(c[at(i, j, problem.n)], problem.element)) ++report.bad;
      }
    }
    a = touched_a;
    b = touched_b;
    report.passed = report.bad == 0;
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
    return time_of(subject, cold, pdl);
  }
  Result<double> time_batch(int subject, bool cold, bool pdl) override {
    batches.push_back(std::to_string(subject) + (cold ? " cold" : " warm"));
    return time_of(subject, cold, pdl);
  }
  int launches_per_batch(int, bool, bool) override { return 50; }
  double clock_mhz() override { return 1500; }
  CheckReport check_timed_outputs(int) override {
    CheckReport report;
    report.passed = true;
    return report;
  }

 private:
  static double time_of(int subject, bool cold, bool pdl) { return 100 * subject + (cold ? 10 : 8) - (pdl ? 1 : 0); }

  Machine machine_;
  std::vector<std::uint16_t> a_before_, b_before_;
};

}  // namespace warpsmith
