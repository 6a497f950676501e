// The worker's main loop: prepares a problem once, then proves and times one candidate per request.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>

#include "base/subprocess.h"
#include "evaluate/backend.h"
#include "evaluate/gates.h"
#include "evaluate/protocol.h"
#include "evaluate/timing.h"

namespace warpsmith {

namespace {

// Measured peaks of a CPU drift with its clock and with other load, and copies do not reach the bandwidth that reads
// reach: there only a time well under the floor is impossible.
constexpr double kCpuFloorTolerance = 0.75;

class Worker {
 public:
  explicit Worker(Backend& backend) : backend_(backend) {}

  int serve() {
    std::string line;
    while (!exhausted_ && channel_.receive(line)) {
      const nlohmann::json answer = answer_to(line);
      if (!channel_.send(answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))) break;
    }
    return 0;
  }

 private:
  nlohmann::json answer_to(const std::string& line) {
    try {
      const auto request = nlohmann::json::parse(line).get<WorkerRequest>();
      if (request.operation == "machine") return {{"done", backend_.machine()}};
      if (request.operation == "evaluate") return wrap(evaluate(request));
      if (request.operation == "compare") return wrap(compare(request));
      if (request.operation == "baselines") return wrap(baselines(request));
      return {{"error", error_to_json(failure("unknown operation " + request.operation))}};
    } catch (const nlohmann::json::exception& error) {
      return {{"error", error_to_json(failure(fmt::format("malformed request: {}", error.what())))}};
    } catch (const std::bad_alloc&) {
      return {{"error", error_to_json(environment_error("out of memory"))}};
    } catch (const EnvironmentError& error) {
      return {{"error", error_to_json(environment_error(error.what()))}};
    }
  }

  template <class T>
  static nlohmann::json wrap(const Result<T>& result) {
    if (!result) return {{"error", error_to_json(result.error())}};
    return {{"done", *result}};
  }

  void announce(const char* name) {
    stage_start_ = std::chrono::steady_clock::now();
    channel_.send(nlohmann::json{{"stage", name}}.dump());
  }

  double stage_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - stage_start_).count();
  }

  // Operands, and the references of every gate with this seed; kept until another problem comes.
  Status prepare(const WorkerRequest& request, bool gates) {
    const auto problem = parse_problem(request.problem);
    if (!problem) return problem.error();
    if (problem->accumulator != AccumulatorType::f32) {
      return bad_input("results are judged as FP32 accumulation; FP16 accumulation has no gate");
    }
    const bool new_problem = !problem_ || !(*problem_ == *problem);
    if (!new_problem && (!gates || seeds_.count(request.seed) != 0)) return ok_status();
    announce(stage::kPrepare);
    if (new_problem) {
      problem_.reset();
      seeds_.clear();
      baseline_names_.reset();
      if (const Status ready = backend_.prepare(*problem, request.seed); !ready) return ready;
      problem_ = *problem;
    }
    if (!gates) return ok_status();
    if (const Status ready = prepare_gates(backend_, request.seed); !ready) return ready;
    seeds_.insert(request.seed);
    return ok_status();
  }

  Status open_baselines() {
    if (baseline_names_) return ok_status();
    announce(stage::kBaselines);
    auto names = backend_.open_baselines();
    if (!names) return names.error();
    baseline_names_ = std::move(*names);
    return ok_status();
  }

  Status load(const WorkerRequest& request) {
    announce(stage::kGates);
    Artifact artifact;
    artifact.binary = request.binary;
    artifact.key = request.key;
    return backend_.load(artifact, request.launch);
  }

  GateReport prove(const WorkerRequest& request) {
    return run_gates(backend_, {request.seed, request.order_nondeterministic, request.nondeterminism_reason});
  }

  TimingSubject candidate_subject(const WorkerRequest& request) const {
    return {0, "candidate", request.launch.value("programmatic_dependent_launch", false)};
  }

  TimingPlan plan_for(const WorkerRequest& request) const {
    TimingPlan plan;
    plan.seconds = request.seconds;
    plan.min_samples = request.min_samples;
    plan.too_slow_us = request.too_slow_us;
    plan.seed = request.seed;
    return plan;
  }

  // A crashed device context is not used again: the parent starts a new worker.
  void poisoned() { exhausted_ = true; }

  Result<Verdict> evaluate(const WorkerRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    if (const Status ready = prepare(request, true); !ready) return ready.error();
    Verdict verdict;
    verdict.prepare_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (const Status loaded = load(request); !loaded) {
      poisoned();
      verdict.outcome = verdict::Crashed{"loading", loaded.error().message};
      return verdict;
    }
    GateReport gates = prove(request);
    verdict.gates = std::move(gates.gates);
    verdict.gate_seconds = stage_seconds();
    if (gates.fault) return environment_error(*gates.fault);
    if (gates.crash) {
      poisoned();
      verdict.outcome = verdict::Crashed{stage::kGates, *gates.crash};
      return verdict;
    }
    if (!verdict.gates.back().passed) {
      verdict.outcome = verdict::Wrong{verdict.gates.back()};
    } else {
      announce(stage::kTiming);
      time_candidate(request, verdict);
      verdict.timing_seconds = stage_seconds();
    }
    backend_.unload();
    return verdict;
  }

  void time_candidate(const WorkerRequest& request, Verdict& verdict) {
    TimingPlan plan = plan_for(request);
    plan.subjects = {candidate_subject(request)};
    const auto timed = time_subjects(backend_, plan);
    if (!timed) {
      poisoned();
      verdict.outcome = verdict::Crashed{stage::kTiming, timed.error().message};
      return;
    }
    const CheckReport outputs = backend_.check_timed_outputs(0);
    if (!outputs.passed) {
      verdict.gates.push_back({"timed-outputs", false, outputs.detail, outputs.worst_error});
      verdict.outcome = verdict::Wrong{verdict.gates.back()};
      return;
    }
    verdict.gates.push_back({"timed-outputs", true, outputs.detail, outputs.worst_error});
    if (timed->too_slow_us) {
      verdict.outcome = verdict::TooSlow{*timed->too_slow_us, request.too_slow_us};
      return;
    }
    const Measurement& measured = timed->measurements.front();
    if (const auto reason = impossible(measured)) {
      verdict.outcome = verdict::Suspicious{*reason, measured.cold.median_us};
      return;
    }
    verdict.outcome = verdict::Accepted{measured};
  }

  // Physics: no correct kernel is faster than the floor.
  std::optional<std::string> impossible(const Measurement& measured) const {
    const double tolerance = backend_.machine().kind == "cpu" ? kCpuFloorTolerance : 1.0;
    for (const bool cold : {true, false}) {
      const double floor_us = tolerance * physical_floor_us(*problem_, backend_.machine(), cold);
      const double time_us = cold ? measured.cold.median_us : measured.warm.median_us;
      if (!(time_us >= floor_us)) {
        return fmt::format("{} time {:.3f} us is under the physical floor of {:.3f} us", cold ? "cold" : "warm",
                           time_us, floor_us);
      }
    }
    return std::nullopt;
  }

  Result<ComparisonReport> compare(const WorkerRequest& request) {
    if (const Status ready = prepare(request, true); !ready) return ready.error();
    if (const Status ready = open_baselines(); !ready) return ready.error();
    ComparisonReport report;
    if (const Status loaded = load(request); !loaded) {
      poisoned();
      report.crash = loaded.error().message;
      return report;
    }
    GateReport gates = prove(request);
    report.gates = std::move(gates.gates);
    if (gates.fault) return environment_error(*gates.fault);
    if (gates.crash) {
      poisoned();
      report.crash = *gates.crash;
      return report;
    }
    if (report.gates.back().passed) {
      if (const Status timed = time_all(request, {candidate_subject(request)}, report); !timed) return timed.error();
    }
    backend_.unload();
    return report;
  }

  Result<ComparisonReport> baselines(const WorkerRequest& request) {
    if (const Status ready = prepare(request, false); !ready) return ready.error();
    if (const Status ready = open_baselines(); !ready) return ready.error();
    ComparisonReport report;
    if (const Status timed = time_all(request, {}, report); !timed) return timed.error();
    return report;
  }

  // The given subjects and every baseline, interleaved; each one's timed outputs are checked afterwards.
  Status time_all(const WorkerRequest& request, std::vector<TimingSubject> subjects, ComparisonReport& report) {
    for (std::size_t i = 0; i < baseline_names_->size(); ++i) {
      subjects.push_back({static_cast<int>(i) + 1, (*baseline_names_)[i], false});
    }
    announce(stage::kTiming);
    TimingPlan plan = plan_for(request);
    plan.subjects = subjects;
    plan.too_slow_us = 0;
    auto timed = time_subjects(backend_, plan);
    if (!timed) {
      poisoned();
      return timed.error();
    }
    for (const TimingSubject& subject : subjects) {
      const CheckReport outputs = backend_.check_timed_outputs(subject.number);
      if (subject.number == 0) {
        report.gates.push_back({"timed-outputs", outputs.passed, outputs.detail, outputs.worst_error});
        if (!outputs.passed) return ok_status();
      } else if (!outputs.passed) {
        return failure(fmt::format("baseline {} gives wrong results: {}", subject.name, outputs.detail));
      }
    }
    report.subjects = std::move(timed->measurements);
    report.versions = backend_.machine().versions;
    return ok_status();
  }

  Backend& backend_;
  ParentChannel channel_;
  std::optional<Problem> problem_;
  std::set<std::uint64_t> seeds_;  // whose references are made
  std::optional<std::vector<std::string>> baseline_names_;
  std::chrono::steady_clock::time_point stage_start_;
  bool exhausted_ = false;
};

}  // namespace

int serve_worker(Backend& backend) { return Worker(backend).serve(); }

}  // namespace warpsmith
