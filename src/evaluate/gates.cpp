// Runs the gates over a Backend: coverage and repeatability on normal data first (they explain a failure best), then
// the elementwise bound on every distribution, the exact gate, the accumulator probe and freshness.
#include "evaluate/gates.h"

#include <fmt/format.h>

#include <utility>

namespace warpsmith {

namespace {

struct GateInput {
  std::string gate;
  InputKind kind;
  Criterion criterion;
  std::uint64_t seed;
};

// All gates that compare one run with a reference, in order. The first is also the coverage and repeatability data.
std::vector<GateInput> gate_inputs(std::uint64_t seed) {
  std::vector<GateInput> result;
  constexpr InputKind kBoundKinds[] = {InputKind::normal,     InputKind::uniform, InputKind::positive,
                                       InputKind::wide_range, InputKind::large,   InputKind::subnormal,
                                       InputKind::special};
  for (const InputKind kind : kBoundKinds) {
    result.push_back({fmt::format("bound/{}", to_string(kind)), kind, Criterion::bound, seed});
  }
  result.push_back({"exact", InputKind::zero_one, Criterion::exact, seed});
  result.push_back({"accumulator", InputKind::accumulator, Criterion::exact, seed});
  result.push_back({"freshness", InputKind::normal, Criterion::bound, seed + 0x5851f42d4c957f2dULL});
  return result;
}

class GateRunner {
 public:
  GateRunner(Backend& backend, const GateOptions& options) : backend_(backend), options_(options) {}

  GateReport run() && {
    const auto inputs = gate_inputs(options_.seed);
    if (!run_normal(inputs.front())) return std::move(report_);
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (!run_input(inputs[i], kPoisonPatterns[i % 2])) break;
    }
    return std::move(report_);
  }

 private:
  bool record(GateResult gate) {
    report_.gates.push_back(std::move(gate));
    return report_.gates.back().passed;
  }

  bool fill(const GateInput& input) {
    const Status filled = backend_.fill(input.kind, input.seed);
    if (!filled) report_.fault = filled.error().message;
    return filled.ok();
  }

  bool execute(std::uint16_t poison) {
    const Status ran = backend_.run_once(poison);
    if (!ran) report_.crash = ran.error().message;
    return ran.ok();
  }

  // Every element written, red zones and inputs intact. Counting is meaningful only where no NaN is expected.
  GateResult coverage(std::uint16_t poison, bool count_poison) {
    GateResult result{"coverage", true, {}, 0};
    const std::int64_t left = count_poison ? backend_.count_equal_to(poison) : 0;
    if (left != 0) {
      result.passed = false;
      result.detail =
          fmt::format("{} elements of C still hold the poison 0x{:04x}: they were not written", left, poison);
      return result;
    }
    const CheckReport untouched = backend_.check_untouched();
    result.passed = untouched.passed;
    result.detail = untouched.detail;
    return result;
  }

  static GateResult judged(const std::string& gate, const CheckReport& report) {
    return {gate, report.passed, report.detail, report.worst_error};
  }

  GateResult repeatability(std::uint64_t first, std::uint64_t second) const {
    GateResult result{"repeatability", true, {}, 0};
    if (first == second) return result;
    if (options_.order_nondeterministic) {
      result.detail = "runs differ in their bits, as declared: " + options_.nondeterminism_reason;
    } else {
      result.passed = false;
      result.detail = "two runs on the same data differ in their bits, and the candidate does not declare it";
    }
    return result;
  }

  // Normal data, twice, under two different poisons.
  bool run_normal(const GateInput& input) {
    if (!fill(input) || !execute(kPoisonPatterns[0])) return false;
    GateResult covered = coverage(kPoisonPatterns[0], true);
    const std::uint64_t first = backend_.output_hash();
    const CheckReport first_report = backend_.check(input.criterion);
    if (!covered.passed) return record(std::move(covered));
    if (!execute(kPoisonPatterns[1])) return false;
    covered = coverage(kPoisonPatterns[1], true);
    if (!record(std::move(covered))) return false;
    if (!record(judged(input.gate, first_report))) return false;
    const std::uint64_t second = backend_.output_hash();
    const CheckReport second_report = backend_.check(input.criterion);
    if (!second_report.passed) return record(judged(input.gate, second_report));
    return record(repeatability(first, second));
  }

  bool run_input(const GateInput& input, std::uint16_t poison) {
    if (!fill(input) || !execute(poison)) return false;
    GateResult covered = coverage(poison, input.kind != InputKind::special);
    if (!covered.passed) {
      covered.detail = fmt::format("on {} inputs: {}", to_string(input.kind), covered.detail);
      return record(std::move(covered));
    }
    return record(judged(input.gate, backend_.check(input.criterion)));
  }

  Backend& backend_;
  const GateOptions& options_;
  GateReport report_;
};

}  // namespace

std::string_view to_string(InputKind kind) {
  switch (kind) {
    case InputKind::normal:
      return "normal";
    case InputKind::uniform:
      return "uniform";
    case InputKind::positive:
      return "positive";
    case InputKind::wide_range:
      return "wide-range";
    case InputKind::large:
      return "large";
    case InputKind::subnormal:
      return "subnormal";
    case InputKind::special:
      return "special";
    case InputKind::zero_one:
      return "zero-one";
    case InputKind::accumulator:
      return "accumulator";
  }
  return "unknown";
}

Status prepare_gates(Backend& backend, std::uint64_t seed) {
  for (const GateInput& input : gate_inputs(seed)) {
    if (const Status filled = backend.fill(input.kind, input.seed); !filled) return filled;
  }
  return ok_status();
}

GateReport run_gates(Backend& backend, const GateOptions& options) { return GateRunner(backend, options).run(); }

}  // namespace warpsmith
