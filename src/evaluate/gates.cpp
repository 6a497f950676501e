// Runs the gates over a Backend: coverage and repeatability on normal data first (they explain a failure best), then
// the elementwise bound on every distribution, the exact gate, the accumulator probe, precision, freshness, state, and
// dependent launches where they are offered.
#include "evaluate/gates.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace warpsmith {

namespace {

constexpr std::uint64_t kHoleStride = 64;

// What scaled problems are scaled by, gate after gate. With beta = 0 C holds poison, which must not be read: so in the
// first gate, and in those that launch on what C holds already.
constexpr Factors kPlain = {1, 0};
constexpr Factors kScales[] = {{1, 1}, {-1, 0.5F}, {0.5F, -1}};

// All gates that compare one run with a reference, in order. The first is also the coverage and repeatability data.
// The last two use data that nobody can have prepared for. What the accumulator probe looks for is no fault where FP16
// accumulation is asked for.
std::vector<GateInput> gate_inputs(std::uint64_t seed, std::uint64_t fresh_seed, AccumulatorType accumulator) {
  std::vector<GateInput> result;
  constexpr InputKind kBoundKinds[] = {InputKind::normal,     InputKind::uniform, InputKind::positive,
                                       InputKind::wide_range, InputKind::large,   InputKind::subnormal,
                                       InputKind::special,    InputKind::edge};
  const auto add = [&](std::string gate, InputKind kind, Criterion criterion, std::uint64_t data_seed,
                       GateStep::Place place) {
    const std::uint16_t poison = kPoisonPatterns[result.size() % 2];
    const bool plain = result.empty() || place == GateStep::Place::kept;
    const Factors factors = plain ? kPlain : kScales[(result.size() - 1) % std::size(kScales)];
    result.push_back({std::move(gate), {kind, data_seed, criterion, poison, place, factors}});
  };
  for (const InputKind kind : kBoundKinds) {
    add(fmt::format("bound/{}", to_string(kind)), kind, Criterion::bound, seed, GateStep::Place::fresh);
  }
  add("exact", InputKind::zero_one, Criterion::exact, seed, GateStep::Place::fresh);
  if (accumulator == AccumulatorType::f32) {
    add("accumulator", InputKind::accumulator, Criterion::exact, seed, GateStep::Place::fresh);
  }
  add("freshness", InputKind::normal, Criterion::bound, fresh_seed, GateStep::Place::fresh);
  add("state", InputKind::normal, Criterion::bound, inputs::mix(fresh_seed + 1), GateStep::Place::kept);
  return result;
}

class GateRunner {
 public:
  GateRunner(Backend& backend, const GateOptions& options) : backend_(backend), options_(options) {}

  GateReport run(const std::vector<GateInput>& inputs) && {
    bool passed = run_normal(inputs.front());
    for (std::size_t i = 1; passed && i + 1 < inputs.size(); ++i) {
      passed = run_input(inputs[i]);
      // Not before the accumulator probe: what that finds, it explains better.
      if (passed && inputs[i].gate == "accumulator") passed = record(precision_gate(normal_, ""));
    }
    if (passed && run_state(inputs.back())) run_dependent_launch();
    return std::move(report_);
  }

 private:
  bool record(GateResult gate) {
    report_.gates.push_back(std::move(gate));
    return report_.gates.back().passed;
  }

  // Something did not complete: by the environment's fault or the candidate's.
  bool broke(const Error& error) {
    (error.kind == ErrorKind::environment ? report_.fault : report_.crash) = error.message;
    return false;
  }

  std::optional<GateObservation> observe(const GateStep& step) {
    GateObservation seen = backend_.run_step(step);
    report_.fault = seen.fault;
    report_.crash = seen.crash;
    if (seen.fault || seen.crash) return std::nullopt;
    if (!seen.untouched.passed) report_.strayed = true;
    return seen;
  }

  // Every element written, red zones and inputs intact.
  GateResult coverage(const GateStep& step, const GateObservation& seen) const {
    GateResult result{"coverage", true, {}, 0};
    if (seen.unwritten != 0) {
      result.passed = false;
      result.detail = fmt::format("{} elements of {} still hold the poison 0x{:04x}: they were not written",
                                  seen.unwritten, options_.output, step.poison);
      return result;
    }
    result.passed = seen.untouched.passed;
    result.detail = seen.untouched.detail;
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
    const auto first = observe(input.step);
    if (!first) return false;
    GateResult covered = coverage(input.step, *first);
    if (!covered.passed) return record(std::move(covered));
    GateStep again = input.step;
    again.place = GateStep::Place::repeat;
    again.poison = kPoisonPatterns[1];
    const auto second = observe(again);
    if (!second) return false;
    covered = coverage(again, *second);
    if (!record(std::move(covered))) return false;
    if (!record(judged(input.gate, first->judged))) return false;
    if (!second->judged.passed) return record(judged(input.gate, second->judged));
    normal_ = first->judged.precision;
    normal_.add(second->judged.precision);
    return record(repeatability(first->hash, second->hash));
  }

  bool run_input(const GateInput& input) {
    const auto seen = observe(input.step);
    if (!seen) return false;
    GateResult covered = coverage(input.step, *seen);
    if (!covered.passed) {
      covered.detail = fmt::format("on {} inputs: {}", to_string(input.step.kind), covered.detail);
      return record(std::move(covered));
    }
    GateResult result = judged(input.gate, seen->judged);
    if (input.gate == "freshness" && result.passed) {
      if (!seen->judged.precision.good()) return record(precision_gate(seen->judged.precision, "on fresh data"));
      result.detail += fmt::format("{}seed {}", result.detail.empty() ? "" : "; ", input.step.seed);
    }
    return record(std::move(result));
  }

  // The last run's remains, first under other data, then under the same with holes in C: a result kept anywhere shows.
  // Whoever looks at a few elements to see whether C is there finds one of many holes now and then, and hardly ever the
  // only one; whoever looks at nearly all of it overlooks one of many.
  bool run_state(const GateInput& input) {
    GateResult result{input.gate, true, {}, 0};
    GateStep stale = input.step;
    stale.place = GateStep::Place::stale;
    stale.poison = kPoisonPatterns[1];
    stale.holes = {draw_seed(), kHoleStride};
    GateStep pierced = stale;
    pierced.holes = {draw_seed(), 0};
    for (const GateStep& step : {input.step, stale, pierced}) {
      const auto seen = observe(step);
      if (!seen) return false;
      const std::string when =
          step.place == GateStep::Place::kept
              ? "with other data at the same addresses and nothing reset"
              : fmt::format("launched once more with poison scattered in {} and nothing reset", options_.output);
      GateResult covered = coverage(step, *seen);
      if (covered.passed && seen->judged.passed) {
        if (!seen->judged.precision.good()) return record(precision_gate(seen->judged.precision, when));
        result.worst_error = std::max(result.worst_error, seen->judged.worst_error);
        continue;
      }
      result.passed = false;
      result.detail = fmt::format("{}: {}", when, covered.passed ? seen->judged.detail : covered.detail);
      return record(std::move(result));
    }
    const auto state = backend_.check_state();
    if (!state) return broke(state.error());
    result.passed = state->passed;
    result.detail = state->detail;
    return record(std::move(result));
  }

  bool run_dependent_launch() {
    if (!backend_.offers_dependent_launch()) return true;
    GateResult result{"dependent-launch", true, {}, 0};
    if (options_.order_nondeterministic) {
      result.detail = "not run: the candidate's bits vary from run to run, as declared, and cannot be compared";
      return record(std::move(result));
    }
    const auto chained = backend_.check_dependent_launch();
    if (!chained) return broke(chained.error());
    return record(judged(result.gate, *chained));
  }

  Backend& backend_;
  const GateOptions& options_;
  GateReport report_;
  Precision normal_;  // of both runs on normal data
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
    case InputKind::edge:
      return "edge";
    case InputKind::zero_one:
      return "zero-one";
    case InputKind::accumulator:
      return "accumulator";
    case InputKind::offset:
      return "offset";
  }
  return "unknown";
}

GateObservation Backend::run_step(const GateStep& step) {
  GateObservation seen;
  const bool filled = step.place == GateStep::Place::fresh || step.place == GateStep::Place::kept;
  if (filled) {
    const bool fresh = step.place == GateStep::Place::fresh;
    const Status status = fresh ? fill(step.kind, step.seed) : refill(step.kind, step.seed);
    if (!status) {
      seen.fault = status.error().message;
      return seen;
    }
  }
  const Status ran = step.place == GateStep::Place::kept    ? run_kept(step.poison)
                     : step.place == GateStep::Place::stale ? run_stale(step.poison, step.holes)
                                                            : run_once(step.poison);
  if (!ran) {
    (ran.error().kind == ErrorKind::environment ? seen.fault : seen.crash) = ran.error().message;
    return seen;
  }
  seen.unwritten = count_equal_to(step.poison);
  seen.untouched = check_untouched();
  seen.hash = output_hash();
  seen.judged = check(step.criterion);
  return seen;
}

GateResult precision_gate(const Precision& precision, std::string_view when) {
  const double elements = static_cast<double>(std::max<std::int64_t>(1, precision.elements));
  GateResult result{"precision", precision.good(), {}, 0};
  result.detail =
      fmt::format("{}{}{:.3g} % of {} elements are not the correctly rounded result; at most {:.3g} % are allowed",
                  when, when.empty() ? "" : ": ", 100 * static_cast<double>(precision.misrounded) / elements,
                  precision.elements, std::min(100.0, 100 * precision.allowed() / elements));
  return result;
}

std::uint64_t draw_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) throw EnvironmentError("the system gives no random numbers");
  return seed;
}

Status prepare_gates(Backend& backend, std::uint64_t seed, std::uint64_t fresh_seed, AccumulatorType accumulator) {
  for (const GateInput& input : gate_inputs(seed, fresh_seed, accumulator)) {
    const GateStep& step = input.step;
    const bool same_place = step.place == GateStep::Place::kept;
    const Status filled = same_place ? backend.refill(step.kind, step.seed) : backend.fill(step.kind, step.seed);
    if (!filled) return filled;
  }
  return ok_status();
}

GateReport run_gates(Backend& backend, const GateOptions& options) {
  return run_gates(backend, options, gate_inputs(options.seed, options.fresh_seed, options.accumulator));
}

GateReport run_gates(Backend& backend, const GateOptions& options, const std::vector<GateInput>& inputs) {
  return GateRunner(backend, options).run(inputs);
}

}  // namespace warpsmith
