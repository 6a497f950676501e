// The worker's main loop: prepares a problem once, then proves and times one candidate per request.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>

#include "base/subprocess.h"
#include "evaluate/backend.h"
#include "evaluate/gates.h"
#include "evaluate/paired_score.h"
#include "evaluate/protocol.h"
#include "evaluate/survey.h"
#include "evaluate/task_judge.h"
#include "evaluate/timing.h"

namespace warpsmith {

namespace {

// Screening: a few short cold batches. What they show to be the best so far is timed in full.
constexpr double kScreeningBatchUs = 150;
constexpr int kScreeningSamples = 5;

constexpr const char* kTimedOutputs = "timed-outputs";

class Worker {
 public:
  explicit Worker(Backend& backend, TaskService* tasks = nullptr) : backend_(backend), tasks_(tasks) {}

  int serve() {
    std::string line;
    while (!exhausted_ && channel_.receive(line)) {
      nlohmann::json answer = answer_to(line);
      if (exhausted_) answer["spent"] = true;
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
      if (request.operation == "self") return wrap(against_itself(request));
      if (request.operation == "survey") return wrap(survey(request));
      if (request.operation == "task" && tasks_ != nullptr) return wrap(evaluate_task(request));
      if (request.operation == "peers") return {{"done", backend_.peers()}};
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

  // The prepared problem with operands stored in another order.
  bool is_other_layout(const Problem& problem) const {
    if (!problem_ || !problem.packed()) return false;
    Problem same = *problem_;
    same.layout = problem.layout;
    return same == problem;
  }

  // Operands, and the references of every gate with this seed; kept until another problem comes.
  Status prepare(const WorkerRequest& request, bool gates) {
    const auto problem = parse_problem(request.problem);
    if (!problem) return problem.error();
    if (problem->accumulator == AccumulatorType::f16 && problem->element != ElementType::f16) {
      return bad_input("sums of bf16 elements are kept in f32; accepted with accumulator f16: f16 elements");
    }
    const bool new_problem = !problem_ || !(*problem_ == *problem);
    if (!new_problem && (!gates || seeds_.count(request.seed) != 0)) return ok_status();
    announce(stage::kPrepare);
    std::uint64_t fresh_seed = draw_seed();
    if (new_problem && is_other_layout(*problem) && backend_.change_layout(problem->layout)) {
      // The references are known: they are those of these seeds.
      if (const auto known = seeds_.find(request.seed); known != seeds_.end()) fresh_seed = known->second;
      seeds_.clear();
      problem_ = *problem;
    } else if (new_problem) {
      problem_.reset();
      seeds_.clear();
      baseline_names_.reset();
      // What is timed is data that nobody can have prepared for.
      if (const Status ready = backend_.prepare(*problem, draw_seed()); !ready) return ready;
      problem_ = *problem;
    }
    if (!gates) return ok_status();
    if (const Status ready = prepare_gates(backend_, request.seed, fresh_seed, problem_->accumulator); !ready)
      return ready;
    seeds_[request.seed] = fresh_seed;
    return ok_status();
  }

  Status open_baselines(const WorkerRequest& request) {
    if (!baseline_names_) {
      announce(stage::kBaselines);
      backend_.suggest_baselines(request.effort.baseline_choices);
      auto names = backend_.open_baselines();
      if (!names) return names.error();
      baseline_names_ = std::move(*names);
      exhaustive_ = false;
    }
    if (request.effort.exhaustive_seconds > 0 && !exhaustive_) {
      announce(stage::kBaselines);
      const auto names =
          backend_.open_exhaustive(request.effort.exhaustive_seconds, [this](double share, const std::string& text) {
            channel_.send(nlohmann::json{{"progress", share}, {"text", text}}.dump());
          });
      if (!names) return names.error();
      baseline_names_->insert(baseline_names_->end(), names->begin(), names->end());
      exhaustive_ = true;
    }
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
    return run_gates(backend_, {request.seed, seeds_.at(request.seed), request.order_nondeterministic,
                                request.nondeterminism_reason, problem_->accumulator});
  }

  TimingSubject candidate_subject(const WorkerRequest& request) const {
    return {0, "candidate", offers_programmatic_dependent_launch(request.launch)};
  }

  TimingPlan plan_for(const WorkerRequest& request) const {
    TimingPlan plan;
    plan.mode = request.effort.mode;
    plan.server = request.effort.server;
    plan.seconds = request.effort.seconds;
    plan.min_samples = request.effort.min_samples;
    plan.too_slow_us = request.too_slow_us;
    plan.seed = request.seed;
    return plan;
  }

  // Cold batches alone, as few and as short as tell a candidate that is clearly behind.
  TimingPlan screening_plan(const WorkerRequest& request) const {
    TimingPlan plan = plan_for(request);
    plan.mode = TimingMode::offline;
    plan.seconds = 0;
    plan.min_samples = plan.most_samples = kScreeningSamples;
    plan.warm = plan.preheat = false;
    plan.batch_us = kScreeningBatchUs;
    plan.launch_us = request.best_us;
    plan.clear_us = request.best_us;
    return plan;
  }

  // A process whose device context has crashed, or whose memory may have been written to, is not used again: the parent
  // starts a new worker.
  void poisoned() { exhausted_ = true; }

  Result<Verdict> evaluate(const WorkerRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    if (const Status ready = prepare(request, true); !ready) return ready.error();
    Verdict verdict;
    verdict.prepare_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (const Status loaded = load(request); !loaded) {
      poisoned();
      if (loaded.error().kind == ErrorKind::environment) return loaded.error();
      verdict.outcome = verdict::Crashed{"loading", loaded.error().message};
      return verdict;
    }
    GateReport gates = prove(request);
    verdict.gates = std::move(gates.gates);
    verdict.gate_seconds = stage_seconds();
    if (gates.strayed || gates.fault) poisoned();
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
      if (const Status timed = time_candidate(request, verdict); !timed) return timed.error();
      verdict.timing_seconds = stage_seconds();
    }
    backend_.unload();
    return verdict;
  }

  Result<Verdict> evaluate_task(const WorkerRequest& request) {
    return tasks_->evaluate({request.task, request.seed, request.effort, request.best_us, request.too_slow_us},
                            {[this](const char* stage) { announce(stage); }, [this] { poisoned(); }});
  }

  // Error: environment; whatever else happens is the verdict.
  Status time_candidate(const WorkerRequest& request, Verdict& verdict) {
    const bool only = request.effort.screening && request.effort.seconds == 0;
    if (only || (request.effort.screening && request.best_us > 0)) {
      TimingPlan screening = screening_plan(request);
      screening.subjects = {{0, "candidate", false}};
      const Status timed = time_by(screening, request, verdict);
      if (!timed) return timed;
      const auto* accepted = verdict.accepted();
      if (only || accepted == nullptr || accepted->measurement.cold.median_us > request.best_us) return timed;
    }
    TimingPlan plan = plan_for(request);
    plan.subjects = {candidate_subject(request)};
    return time_by(plan, request, verdict);
  }

  // Times the candidate and sets the verdict. Error: environment.
  Status time_by(const TimingPlan& plan, const WorkerRequest& request, Verdict& verdict) {
    const auto crash = [&](const Error& error) -> Status {
      poisoned();
      if (error.kind == ErrorKind::environment) return error;
      verdict.outcome = verdict::Crashed{stage::kTiming, error.message};
      return ok_status();
    };
    const auto timed = time_subjects(backend_, plan);
    if (!timed) return crash(timed.error());
    const auto outputs = backend_.check_timed_outputs(0);
    if (!outputs) return crash(outputs.error());
    if (outputs->strayed) poisoned();
    std::erase_if(verdict.gates, [](const GateResult& gate) { return gate.gate == kTimedOutputs; });  // of screening
    if (!record_timed_outputs(*outputs, verdict.gates)) {
      verdict.outcome = verdict::Wrong{verdict.gates.back()};
      return ok_status();
    }
    if (timed->too_slow_us) {
      verdict.outcome = verdict::TooSlow{*timed->too_slow_us, request.too_slow_us};
      return ok_status();
    }
    const Measurement& measured = timed->measurements.front();
    if (const auto reason = under_physical_floor(*problem_, backend_.machine(), measured)) {
      verdict.outcome = verdict::Suspicious{*reason, measured.cold.median_us};
      return ok_status();
    }
    verdict.outcome = verdict::Accepted{measured};
    return ok_status();
  }

  static bool record_timed_outputs(const CheckReport& outputs, std::vector<GateResult>& gates) {
    gates.push_back({kTimedOutputs, outputs.passed, outputs.detail, outputs.worst_error});
    if (outputs.passed && !outputs.precision.good()) {
      gates.push_back(precision_gate(outputs.precision, "in the outputs of timed launches"));
    }
    return gates.back().passed;
  }

  Result<ComparisonReport> compare(const WorkerRequest& request) {
    if (const Status ready = prepare(request, true); !ready) return ready.error();
    if (const Status ready = open_baselines(request); !ready) return ready.error();
    ComparisonReport report;
    report.baseline_choices = backend_.baseline_choices();
    if (const Status loaded = load(request); !loaded) {
      poisoned();
      if (loaded.error().kind == ErrorKind::environment) return loaded.error();
      report.crash = loaded.error().message;
      return report;
    }
    GateReport gates = request.effort.mode == TimingMode::cuda_l2 ? prove_as_cuda_l2(request) : prove(request);
    report.gates = std::move(gates.gates);
    if (gates.strayed || gates.fault) poisoned();
    if (gates.fault) return environment_error(*gates.fault);
    if (gates.crash) {
      poisoned();
      report.crash = *gates.crash;
      return report;
    }
    if (report.gates.back().passed) {
      const Status timed = time_all(request, with_baselines(request, {candidate_subject(request)}), report);
      if (!timed) return timed.error();
    }
    backend_.unload();
    return report;
  }

  Result<ComparisonReport> baselines(const WorkerRequest& request) {
    if (const Status ready = prepare(request, false); !ready) return ready.error();
    if (const Status ready = open_baselines(request); !ready) return ready.error();
    ComparisonReport report;
    const Status timed = time_all(request, with_baselines(request, {}), report);
    if (!timed) return timed.error();
    return report;
  }

  // Every tuned baseline (the first one where none is tuned) as two subjects.
  Result<ComparisonReport> against_itself(const WorkerRequest& request) {
    if (const Status ready = prepare(request, false); !ready) return ready.error();
    if (const Status ready = open_baselines(request); !ready) return ready.error();
    std::vector<TimingSubject> subjects;
    for (const TimingSubject& baseline : with_baselines(request, {})) {
      const bool tuned = baseline.name.find("-auto-") != std::string::npos;
      if (!tuned && request.effort.baselines.empty()) continue;
      subjects.push_back(baseline);
      subjects.push_back({baseline.number, baseline.name + "-again", false});
    }
    if (subjects.empty() && !baseline_names_->empty()) {
      const std::string& name = baseline_names_->front();
      subjects = {{1, name, false}, {1, name + "-again", false}};
    }
    ComparisonReport report;
    if (const Status timed = time_all(request, subjects, report); !timed) return timed.error();
    return report;
  }

  // The backend holds another problem afterwards.
  Result<SurveyReport> survey(const WorkerRequest& request) {
    problem_.reset();
    seeds_.clear();
    baseline_names_.reset();
    return survey_shape(backend_, request.survey.get<SurveyRequest>(),
                        {[this](const char* stage) { announce(stage); }, [this] { poisoned(); }});
  }

  // The released criterion: {0,1} inputs, results below 2048, every bit right. Nothing else is asked.
  GateReport prove_as_cuda_l2(const WorkerRequest& request) {
    GateReport report;
    if (const Status filled = backend_.fill(InputKind::zero_one, request.seed); !filled) {
      report.fault = filled.error().message;
    } else if (const Status ran = backend_.run_once(kPoisonPatterns[0]); !ran) {
      report.crash = ran.error().message;
    } else {
      const CheckReport exact = backend_.check(Criterion::exact);
      report.gates.push_back({"exact", exact.passed, exact.detail, exact.worst_error});
    }
    return report;
  }

  // The given subjects and the baselines that the request wants.
  std::vector<TimingSubject> with_baselines(const WorkerRequest& request, std::vector<TimingSubject> subjects) const {
    const auto& wanted = request.effort.baselines;
    for (std::size_t i = 0; i < baseline_names_->size(); ++i) {
      const std::string& name = (*baseline_names_)[i];
      const bool listed = std::any_of(wanted.begin(), wanted.end(),
                                      [&](const std::string& prefix) { return name.starts_with(prefix); });
      if (wanted.empty() || listed) subjects.push_back({static_cast<int>(i) + 1, name, false});
    }
    return subjects;
  }

  // The subjects interleaved; each one's timed outputs are checked afterwards. A candidate is the first one.
  Status time_all(const WorkerRequest& request, const std::vector<TimingSubject>& subjects, ComparisonReport& report) {
    announce(stage::kTiming);
    TimingPlan plan = plan_for(request);
    plan.subjects = subjects;
    plan.too_slow_us = 0;
    const std::string layout(to_string(problem_->layout));
    plan.satisfied = [&](const TimingRounds& rounds) {
      const auto score = paired_score(rounds, subjects, layout);
      return !score || score->usable;
    };
    auto timed = time_subjects(backend_, plan);
    if (!timed) {
      poisoned();
      return timed.error();
    }
    int checked = -1;
    for (const TimingSubject& subject : subjects) {
      if (subject.number == checked) continue;  // under another name
      checked = subject.number;
      const auto outputs = backend_.check_timed_outputs(subject.number);
      if (!outputs) {
        poisoned();
        if (subject.number != 0 || outputs.error().kind == ErrorKind::environment) return outputs.error();
        report.crash = outputs.error().message;
        return ok_status();
      }
      if (outputs->strayed) poisoned();
      // Its criterion of results is another.
      if (subject.number == 0 && plan.mode == TimingMode::cuda_l2 && !outputs->strayed) continue;
      if (subject.number == 0) {
        if (!record_timed_outputs(*outputs, report.gates)) return ok_status();
      } else if (!outputs->passed) {
        return failure(fmt::format("baseline {} gives wrong results: {}", subject.name, outputs->detail));
      }
    }
    if (!subjects.empty() && subjects.front().number == 0 && plan.mode != TimingMode::cuda_l2) {
      const auto reason = under_physical_floor(*problem_, backend_.machine(), timed->measurements.front());
      report.gates.push_back({"physics", !reason, reason.value_or(""), 0});
    }
    report.score = paired_score(timed->rounds, subjects, layout);
    report.subjects = std::move(timed->measurements);
    report.versions = backend_.machine().versions;
    return ok_status();
  }

  Backend& backend_;
  TaskService* tasks_;
  ParentChannel channel_;
  std::optional<Problem> problem_;
  std::map<std::uint64_t, std::uint64_t> seeds_;  // whose references are made, each with the fresh seed beside it
  std::optional<std::vector<std::string>> baseline_names_;
  bool exhaustive_ = false;  // those of the exhaustive search are among them
  std::chrono::steady_clock::time_point stage_start_;
  bool exhausted_ = false;
};

}  // namespace

int serve_worker(Backend& backend) { return Worker(backend).serve(); }
int serve_worker(Backend& backend, TaskService& tasks) { return Worker(backend, &tasks).serve(); }

}  // namespace warpsmith
