// The parent's side: drives a worker process stage by stage, kills it at a stage's limit, and starts another when one
// has ended. Every end of a worker is turned into a verdict.
#include "evaluate/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <variant>

#include "base/paths.h"
#include "base/scratch.h"
#include "base/subprocess.h"
#include "evaluate/protocol.h"
#include "evaluate/survey.h"
#include "evaluate/task_judge.h"
#include "evaluate/timing.h"

namespace warpsmith {

namespace {

constexpr double kStartSeconds = 60;  // from starting a worker to its machine's facts (a cold CUDA driver is slow)

// How an exchange with the worker ended, other than with an answer.
struct WorkerLoss {
  std::string stage;
  bool timed_out = false;
  double limit_seconds = 0;
  std::string reason;  // how the process ended
};

using Exchange = std::variant<nlohmann::json, Error, WorkerLoss>;

// The CUDA devices that evaluators of this process measure on. Two that time candidates on one device at once disturb
// each other.
class DeviceUse {
 public:
  explicit DeviceUse(std::optional<int> device) : device_(device) {
    const std::lock_guard lock(mutex());
    if (device_) used().insert(*device_);
  }
  ~DeviceUse() {
    const std::lock_guard lock(mutex());
    if (device_) used().erase(used().find(*device_));
  }
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  static bool is_free(int device) {
    const std::lock_guard lock(mutex());
    return used().count(device) == 0;
  }

 private:
  // Evaluators may live until the program ends, and longer than objects that were made after them.
  static std::mutex& mutex() {
    static auto& guard = *new std::mutex;
    return guard;
  }
  static std::multiset<int>& used() {
    static auto& devices = *new std::multiset<int>;
    return devices;
  }
  std::optional<int> device_;
};

class ProcessEvaluator final : public Evaluator, public TaskJudge {
 public:
  explicit ProcessEvaluator(EvaluatorOptions options)
      : options_(std::move(options)), use_(is_cuda(options_.target) ? std::optional(options_.device) : std::nullopt) {
    if (options_.worker.empty()) {
      options_.worker =
          executable_dir() / (is_cuda(options_.target) ? "warpsmith-worker-cuda" : "warpsmith-worker-cpu");
    }
  }

  const Machine& machine() const override { return machine_; }
  const Machine& device() const override { return machine_; }

  // Starts a worker unless one is there.
  Status ensure_worker() {
    if (worker_) return ok_status();
    ChildProcess::Options child;
    child.argv = {options_.worker.string()};
    if (is_cuda(options_.target)) {
      child.argv.insert(child.argv.end(), {"--device", std::to_string(options_.device)});
    } else {
      child.argv.insert(child.argv.end(), {"--threads", std::to_string(options_.threads)});
    }
    if (const char* log = std::getenv("WARPSMITH_WORKER_LOG"); log != nullptr) child.log = log;
    // Whatever the worker and what it starts put there goes with it, also when it is killed.
    auto scratch = ScratchDirectory::create();
    if (!scratch) return scratch.error();
    scratch_ = std::move(*scratch);
    child.environment.emplace_back("TMPDIR", scratch_->path().string());
    auto spawned = ChildProcess::spawn(child);
    if (!spawned) return spawned.error();
    worker_ = std::move(*spawned);

    WorkerRequest request;
    request.operation = "machine";
    Exchange answer = exchange(request);
    if (const auto* json = std::get_if<nlohmann::json>(&answer)) {
      // Peaks are measured anew by every worker; the highest figure is nearest the truth.
      const Machine before = machine_;
      machine_ = json->get<Machine>();
      machine_.versions.insert(before.versions.begin(), before.versions.end());  // the baselines', learned later
      machine_.peak_gflops = std::max(machine_.peak_gflops, before.peak_gflops);
      machine_.peak_gb_per_s = std::max(machine_.peak_gb_per_s, before.peak_gb_per_s);
      return ok_status();
    }
    if (const auto* error = std::get_if<Error>(&answer)) {
      drop_worker();
      return *error;
    }
    const auto& loss = std::get<WorkerLoss>(answer);
    return environment_error(fmt::format("the worker {} did not start: {}", options_.worker.string(), loss.reason));
  }

  Verdict evaluate(const Problem& problem, const Candidate& candidate, const Artifact& artifact, double best_us,
                   const TimingEffort& effort) override {
    WorkerRequest request = request_for("evaluate", problem, options_.seed, effort);
    describe_candidate(request, candidate, artifact);
    request.best_us = best_us;
    request.too_slow_us = best_us > 0 ? best_us * options_.limits.too_slow_factor : 0;
    Verdict verdict = judge(request);
    confirm_leap(request, verdict);
    verdict.resources = artifact.resources;
    verdict.compile_seconds = artifact.seconds;
    return verdict;
  }

  Verdict judge_task(const std::string& identity, const nlohmann::json& task, double best_us,
                     const TimingEffort& effort) override {
    WorkerRequest request;
    request.operation = "task";
    request.problem = "task " + identity;
    request.seed = options_.seed;
    request.effort = effort;
    request.task = task;
    request.best_us = best_us;
    request.too_slow_us = best_us > 0 ? best_us * options_.limits.too_slow_factor : 0;
    Verdict verdict = judge(request);
    confirm_leap(request, verdict);
    return verdict;
  }

  Result<Comparison> compare(const Problem& problem, const Candidate& candidate, const Artifact& artifact,
                             const TimingEffort& effort, std::optional<Verdict>* refusal) override {
    // Other data than the search has seen.
    WorkerRequest request = request_for("compare", problem, options_.seed + 0x632be59bd9b4e019ULL, effort);
    describe_candidate(request, candidate, artifact);
    auto report = comparison_report(request);
    if (!report) return report.error();
    const auto refuse = [&](decltype(Verdict::outcome) outcome, std::vector<GateResult> gates, std::string message) {
      if (refusal != nullptr) {
        refusal->emplace().outcome = std::move(outcome);
        (*refusal)->gates = std::move(gates);
      }
      return failure(std::move(message));
    };
    if (!report->crash.empty()) {
      return refuse(verdict::Crashed{"comparison", report->crash}, report->gates,
                    "the candidate crashed on fresh data: " + report->crash);
    }
    for (const GateResult& gate : report->gates) {
      if (gate.passed) continue;
      const std::string message = fmt::format("the candidate fails gate {} on fresh data: {}", gate.gate, gate.detail);
      if (gate.gate == "physics") {
        const double time_us = report->subjects.empty() ? 0 : report->subjects.front().cold.median_us;
        return refuse(verdict::Suspicious{gate.detail, time_us}, report->gates, message);
      }
      return refuse(verdict::Wrong{gate}, report->gates, message);
    }
    Comparison comparison{std::move(report->subjects), std::move(report->gates), std::move(report->score),
                          std::move(report->baseline_choices)};
    if (const auto doubt = confirm_leap(request, comparison)) {
      return refuse(verdict::Suspicious{*doubt, comparison.subjects.front().cold.median_us}, comparison.gates,
                    "suspicious: " + *doubt);
    }
    return comparison;
  }

  Result<std::vector<Measurement>> baselines(const Problem& problem, const TimingEffort& effort) override {
    const std::string key = to_string(problem);
    if (const auto found = baselines_.find(key); found != baselines_.end()) return found->second;
    auto report = comparison_report(request_for("baselines", problem, options_.seed, effort));
    if (!report) return report.error();
    return baselines_[key] = std::move(report->subjects);
  }

  Result<std::vector<Measurement>> against_itself(const Problem& problem, const TimingEffort& effort) override {
    auto report = comparison_report(request_for("self", problem, options_.seed, effort));
    if (!report) return report.error();
    return std::move(report->subjects);
  }

  Result<SurveyReport> survey(const SurveyRequest& asked) override {
    TimingEffort effort;
    effort.seconds = asked.seconds;
    effort.server = asked.server;
    for (const TimingMode mode : asked.modes) {
      if (mode == TimingMode::server) effort.mode = mode;
    }
    WorkerRequest request = request_for("survey", asked.problem, asked.seed, effort);
    request.survey = asked;
    auto report = report_of<SurveyReport>(request);
    if (!report) return report;
    for (const SurveyCandidate& candidate : asked.candidates) confirm_leap(asked, candidate, *report);
    return report;
  }

  void on_progress(std::function<void(double, const std::string&)> listener) override {
    progress_ = std::move(listener);
  }

 private:
  static WorkerRequest request_for(const char* operation, const Problem& problem, std::uint64_t seed,
                                   const TimingEffort& effort) {
    WorkerRequest request;
    request.operation = operation;
    request.problem = to_string(problem);
    request.seed = seed;
    request.effort = effort;
    return request;
  }

  static void describe_candidate(WorkerRequest& request, const Candidate& candidate, const Artifact& artifact) {
    request.binary = artifact.binary.string();
    request.key = artifact.key;
    std::visit([&](const auto& launch) { request.launch = launch; }, candidate.launch);
    request.order_nondeterministic = candidate.order_nondeterministic;
    request.nondeterminism_reason = candidate.nondeterminism_reason;
  }

  // The verdict of the worker, whatever becomes of it. A worker that somebody else has killed says nothing about the
  // candidate: it is judged once more.
  Verdict judge(const WorkerRequest& request) {
    Verdict verdict = judge_once(request);
    if (!killed_) return verdict;
    verdict = judge_once(request);
    if (killed_) verdict.outcome = verdict::Failed{"the worker was killed, twice: " + verdict.describe()};
    return verdict;
  }

  Verdict judge_once(const WorkerRequest& request) {
    killed_ = false;
    if (const Status ready = ensure_worker(); !ready) {
      Verdict verdict;
      verdict.outcome = verdict::Failed{ready.error().message};
      return verdict;
    }
    return verdict_of(exchange(request));
  }

  // Why a cold time is too good to be taken on one measurement's word; nullopt: it is not.
  std::optional<std::string> leap(const std::string& problem, double time_us, double best_us) const {
    if (best_us > 0 && time_us * kLeapOverBest < best_us) {
      return fmt::format("less than half of the best so far, {:.2f} us", best_us);
    }
    const auto known = baselines_.find(problem);
    if (known == baselines_.end() || known->second.empty()) return std::nullopt;
    const bool far_ahead = std::all_of(known->second.begin(), known->second.end(), [&](const Measurement& baseline) {
      return time_us * kLeapOverBaseline < baseline.cold.median_us;
    });
    if (!far_ahead) return std::nullopt;
    return fmt::format("more than {:g} times faster than every baseline", kLeapOverBaseline);
  }

  // The verdict once more: from another device of the same type, else from a fresh process. `where` says which.
  Verdict judge_elsewhere(const WorkerRequest& request, std::string& where) {
    if (const std::optional<int> device = peer()) {
      where = fmt::format("on device {}", *device);
      EvaluatorOptions options = options_;
      options.device = *device;
      return ProcessEvaluator(std::move(options)).judge(request);
    }
    where = "in a fresh process";
    drop_worker();
    return judge(request);
  }

  // Another device of the type, on which no evaluator of this process measures.
  std::optional<int> peer() {
    if (!is_cuda(options_.target)) return std::nullopt;
    WorkerRequest request;
    request.operation = "peers";
    if (!worker_) return std::nullopt;
    const Exchange answer = exchange(request);
    const auto* list = std::get_if<nlohmann::json>(&answer);
    if (list == nullptr || !list->is_array()) return std::nullopt;
    for (const nlohmann::json& device : *list) {
      if (device.is_number_integer() && DeviceUse::is_free(device.get<int>())) return device.get<int>();
    }
    return std::nullopt;
  }

  // Measures again, up to kLeapTries times, because one disturbed measurement is no lie. The reason why the time is not
  // believed; nullopt: it is confirmed, and `gate` says how. dependent: the time is one with dependent launch.
  std::optional<std::string> disagreement(WorkerRequest request, double time_us, const std::string& reason,
                                          GateResult& gate, bool dependent = false) {
    if (request.operation != "task") request.operation = "evaluate";
    request.effort.mode = TimingMode::offline;
    request.effort.screening = false;
    request.best_us = request.too_slow_us = 0;
    std::string where, seen;
    for (int attempt = 0; attempt < kLeapTries; ++attempt) {
      const Verdict again = judge_elsewhere(request, where);
      const auto* accepted = again.accepted();
      if (accepted == nullptr) {
        seen = again.describe();
        continue;
      }
      const Measurement& measured = accepted->measurement;
      const double again_us = dependent && measured.cold_pdl ? measured.cold_pdl->median_us : measured.cold.median_us;
      seen = fmt::format("{:.3f} us", again_us);
      if (std::abs(again_us - time_us) <= kLeapAgreement * std::min(again_us, time_us)) {
        gate = {"leap", true, fmt::format("{}; measured again {}: {}", reason, where, seen), 0};
        return std::nullopt;
      }
    }
    gate = {"leap", false, fmt::format("{:.3f} us is {}; measured again {}: {}", time_us, reason, where, seen), 0};
    return gate.detail;
  }

  void confirm_leap(const WorkerRequest& request, Verdict& verdict) {
    const auto* accepted = verdict.accepted();
    if (accepted == nullptr) return;
    const double time_us = accepted->measurement.cold.median_us;
    const auto reason = leap(request.problem, time_us, request.best_us);
    if (!reason) return;
    GateResult gate;
    const auto doubt = disagreement(request, time_us, *reason, gate);
    verdict.gates.push_back(std::move(gate));
    if (doubt) verdict.outcome = verdict::Suspicious{*doubt, time_us};
  }

  // Of an offline comparison, whose baselines are known from now on. Why it is not believed; nullopt: it is.
  std::optional<std::string> confirm_leap(const WorkerRequest& request, Comparison& comparison) {
    if (request.effort.mode != TimingMode::offline || comparison.subjects.size() < 2) return std::nullopt;
    if (request.effort.baselines.empty()) {
      baselines_[request.problem] = {comparison.subjects.begin() + 1, comparison.subjects.end()};
    }
    const double time_us = comparison.subjects.front().cold.median_us;
    const auto reason = leap(request.problem, time_us, 0);
    if (!reason) return std::nullopt;
    GateResult gate;
    auto doubt = disagreement(request, time_us, *reason, gate);
    comparison.gates.push_back(std::move(gate));
    return doubt;
  }

  // Of a survey's offline times.
  void confirm_leap(const SurveyRequest& asked, const SurveyCandidate& candidate, SurveyReport& report) {
    const auto offline = report.modes.find(std::string(to_string(TimingMode::offline)));
    if (offline == report.modes.end()) return;
    std::vector<Measurement>& subjects = offline->second;
    const auto ours = std::find_if(subjects.begin(), subjects.end(),
                                   [&](const Measurement& one) { return one.subject == candidate.name; });
    if (ours == subjects.end()) return;
    // A variant that is there for dependent launch alone has no other times.
    const bool dependent = ours->cold.samples == 0;
    if (dependent && !ours->cold_pdl) return;
    const double time_us = dependent ? ours->cold_pdl->median_us : ours->cold.median_us;
    std::size_t baselines = 0;
    for (const Measurement& one : subjects) {
      if (one.subject.starts_with("ours-")) continue;
      ++baselines;
      if (!(time_us * kLeapOverBaseline < one.cold.median_us)) return;
    }
    if (baselines == 0) return;
    Problem problem = asked.problem;
    problem.layout = candidate.layout;
    WorkerRequest request = request_for("evaluate", problem, asked.seed, {});
    request.binary = candidate.binary;
    request.key = candidate.key;
    request.launch = candidate.launch;
    request.order_nondeterministic = candidate.order_nondeterministic;
    request.nondeterminism_reason = candidate.nondeterminism_reason;
    GateResult gate;
    const std::string reason = fmt::format("more than {:g} times faster than every baseline", kLeapOverBaseline);
    if (disagreement(request, time_us, reason, gate, dependent)) subjects.erase(ours);
    for (SurveyReport::Proof& proof : report.proofs) {
      if (proof.name == candidate.name) proof.gates.push_back(gate);
    }
  }

  double limit_of(const std::string& stage) const {
    if (stage == stage::kGates) return options_.limits.gate_seconds;
    if (stage == stage::kTiming) return options_.limits.timing_seconds + planned_seconds_;
    if (stage == kStarting) return kStartSeconds;
    return options_.limits.prepare_seconds + exhaustive_seconds_;
  }

  // Sends a request and follows the worker through its stages to its answer, or to its end.
  Exchange exchange(const WorkerRequest& request) {
    std::string current = request.operation == "machine" ? kStarting : stage::kPrepare;
    planned_seconds_ = planned_seconds(
        request.effort, request.operation == "evaluate" || request.operation == "task" ? 1 : kMostSubjects);
    exhaustive_seconds_ = kExhaustiveShare * request.effort.exhaustive_seconds;
    if (!worker_->send(nlohmann::json(request).dump())) return lose_worker(current, false);
    std::string line;
    for (;;) {
      const auto received = worker_->receive(line, limit_of(current));
      if (received != ChildProcess::Receive::line) {
        return lose_worker(current, received == ChildProcess::Receive::timeout);
      }
      const auto message = nlohmann::json::parse(line, nullptr, false);
      if (!message.is_object()) return lose_worker(current, false);
      if (const auto name = message.find("stage"); name != message.end() && name->is_string()) {
        current = name->get<std::string>();
      } else if (const auto done = message.find("done"); done != message.end()) {
        stage_ = current;
        if (message.contains("spent")) drop_worker();
        return *done;
      } else if (const auto error = message.find("error"); error != message.end()) {
        if (message.contains("spent")) drop_worker();
        return error_from_json(*error);
      } else if (const auto share = message.find("progress"); share != message.end() && share->is_number()) {
        if (progress_) progress_(share->get<double>(), message.value("text", ""));
      } else {
        return lose_worker(current, false);
      }
    }
  }

  void drop_worker() {
    if (worker_) worker_->kill();
    worker_.reset();
    scratch_.reset();
  }

  WorkerLoss lose_worker(const std::string& stage, bool timed_out) {
    WorkerLoss loss{stage, timed_out, limit_of(stage), {}};
    // A worker that closed its channel is about to end by itself, and its own status says most; one that hangs on is
    // killed.
    if (!timed_out) {
      const auto ended = worker_->wait_for(kEndSeconds);
      loss.reason = ended ? ended->describe() : "it closed its channel and hung";
      killed_ = ended && (ended->signal == SIGKILL || ended->signal == SIGTERM);
    } else {
      loss.reason = fmt::format("no answer within {:g} s", loss.limit_seconds);
    }
    drop_worker();
    return loss;
  }

  Verdict verdict_of(const Exchange& answer) {
    Verdict verdict;
    if (const auto* json = std::get_if<nlohmann::json>(&answer)) {
      try {
        verdict = json->get<Verdict>();
      } catch (const nlohmann::json::exception& error) {
        drop_worker();
        verdict.outcome = verdict::Crashed{stage_, fmt::format("the worker's answer is garbled: {}", error.what())};
      }
      // A context that a crash has poisoned is not used again.
      if (std::holds_alternative<verdict::Crashed>(verdict.outcome)) drop_worker();
      return verdict;
    }
    if (const auto* error = std::get_if<Error>(&answer)) {
      verdict.outcome = verdict::Failed{error->message};
      return verdict;
    }
    const auto& loss = std::get<WorkerLoss>(answer);
    const bool candidate_ran = loss.stage == stage::kGates || loss.stage == stage::kTiming;
    if (!candidate_ran) {
      verdict.outcome = verdict::Failed{fmt::format("the worker was lost in stage {}: {}", loss.stage, loss.reason)};
    } else if (loss.timed_out) {
      verdict.outcome = verdict::TimedOut{loss.stage, loss.limit_seconds};
    } else {
      verdict.outcome = verdict::Crashed{loss.stage, loss.reason};
    }
    return verdict;
  }

  Result<ComparisonReport> comparison_report(const WorkerRequest& request) {
    auto report = report_of<ComparisonReport>(request);
    if (report && !report->crash.empty()) drop_worker();
    return report;
  }

  // What the worker answers to a request that no verdict comes of; the versions in it become the machine's.
  template <class Report>
  Result<Report> report_of(const WorkerRequest& request) {
    if (const Status ready = ensure_worker(); !ready) return ready.error();
    const Exchange answer = exchange(request);
    if (const auto* error = std::get_if<Error>(&answer)) {
      drop_worker();
      return *error;
    }
    if (const auto* loss = std::get_if<WorkerLoss>(&answer)) {
      return failure(fmt::format("the worker was lost in stage {}: {}", loss->stage, loss->reason));
    }
    try {
      auto report = std::get<nlohmann::json>(answer).get<Report>();
      for (const auto& [name, version] : report.versions) machine_.versions[name] = version;
      return report;
    } catch (const nlohmann::json::exception& error) {
      drop_worker();
      return failure(fmt::format("the worker's answer is garbled: {}", error.what()));
    }
  }

  static constexpr const char* kStarting = "starting";
  static constexpr double kEndSeconds = 2;
  static constexpr int kMostSubjects = 16;         // of a comparison, generously
  static constexpr double kExhaustiveShare = 1.5;  // what is begun within the time asked for may end after it
  static constexpr int kLeapTries = 3;

  EvaluatorOptions options_;
  DeviceUse use_;
  std::optional<ScratchDirectory> scratch_;  // the worker's; outlives it
  std::optional<ChildProcess> worker_;
  Machine machine_;
  std::string stage_;                                    // in which the last answer came
  bool killed_ = false;                                  // the last worker that was lost, by somebody else
  double planned_seconds_ = 0, exhaustive_seconds_ = 0;  // of the request that is being answered
  std::map<std::string, std::vector<Measurement>> baselines_;
  std::function<void(double, const std::string&)> progress_;
};

}  // namespace

Result<std::vector<Measurement>> Evaluator::against_itself(const Problem&, const TimingEffort&) {
  return failure("this evaluator times no baselines");
}

Result<SurveyReport> Evaluator::survey(const SurveyRequest&) { return failure("this evaluator makes no surveys"); }

Result<std::unique_ptr<Evaluator>> Evaluator::start(const EvaluatorOptions& options) {
  auto evaluator = std::make_unique<ProcessEvaluator>(options);
  if (const Status ready = evaluator->ensure_worker(); !ready) return ready.error();
  return std::unique_ptr<Evaluator>(std::move(evaluator));
}

Result<std::unique_ptr<TaskJudge>> TaskJudge::start(const EvaluatorOptions& options) {
  auto evaluator = std::make_unique<ProcessEvaluator>(options);
  if (const Status ready = evaluator->ensure_worker(); !ready) return ready.error();
  return std::unique_ptr<TaskJudge>(std::move(evaluator));
}

}  // namespace warpsmith
