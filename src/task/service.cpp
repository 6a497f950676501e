// One task at a time stays prepared: its data sets and references serve every candidate.
#include "task/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>

#include "evaluate/gates.h"
#include "evaluate/protocol.h"
#include "evaluate/timing.h"
#include "task/cpu_device.h"
#include "task/task_backend.h"

namespace warpsmith::task {

namespace {

// Screening: a few short batches; what they show to be the best so far is timed in full.
constexpr double kScreeningBatchUs = 150;
constexpr int kScreeningSamples = 5;

class Service final : public TaskService {
 public:
  explicit Service(std::unique_ptr<DeviceFactory> factory) : factory_(std::move(factory)) {}

  Result<Verdict> evaluate(const TaskRequest& request, const WorkerNotices& notices) override {
    const auto asked = request.task.get<EvaluationRequest>();
    Verdict verdict;
    for (const CompiledSetting& setting : asked.settings) {
      const auto start = std::chrono::steady_clock::now();
      notices.announce(stage::kPrepare);
      if (const Status ready = prepare(asked, setting, request.seed); !ready) return ready.error();
      verdict.prepare_seconds += seconds_since(start);
      const auto proved = prove(asked, setting, request.seed, notices, verdict);
      if (!proved) return proved.error();
      if (!*proved) return verdict;
    }
    notices.announce(stage::kTiming);
    const auto start = std::chrono::steady_clock::now();
    time_candidate(request, notices, verdict);
    verdict.timing_seconds = seconds_since(start);
    backend_->unload();
    if (backend_->fault()) return *backend_->fault();
    return verdict;
  }

 private:
  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Status open(const EvaluationRequest& asked) {
    if (task_ && task_->identity == asked.identity && confined_ == asked.confined) return ok_status();
    backend_.reset();
    reference_.reset();
    device_.reset();
    fresh_seeds_.clear();
    auto loaded = load_task(asked.directory);
    if (!loaded) return loaded.error();
    if (loaded->identity != asked.identity) return failure("the task's files have changed since the search began");
    task_ = std::make_unique<Task>(std::move(*loaded));
    auto device = factory_->device(asked);
    if (!device) return device.error();
    auto reference = factory_->reference(*task_, asked);
    if (!reference) return reference.error();
    device_ = std::move(*device);
    reference_ = std::move(*reference);
    confined_ = asked.confined;
    backend_ = std::make_unique<TaskBackend>(*device_, *reference_, draw_seed());
    return ok_status();
  }

  std::vector<GateInput> gates(int setting, std::uint64_t seed) {
    const auto [fresh, drawn] = fresh_seeds_.try_emplace({setting, seed}, 0);
    if (drawn) fresh->second = draw_seed();
    return gates_of(*task_, seed, fresh->second);
  }

  Status prepare(const EvaluationRequest& asked, const CompiledSetting& setting, std::uint64_t seed) {
    if (const Status opened = open(asked); !opened) return opened;
    const Status turned =
        backend_->open(instance_of(*task_, setting.setting), setting.workspace_bytes, setting.zero_workspace);
    if (!turned) return turned;
    if (const Status made = backend_->make_data(gates(setting.setting, seed)); !made) return made;
    const bool timed = &setting == &asked.settings.back();
    return timed ? backend_->make_timing_data() : ok_status();
  }

  // False: the verdict is known.
  Result<bool> prove(const EvaluationRequest& asked, const CompiledSetting& setting, std::uint64_t seed,
                     const WorkerNotices& notices, Verdict& verdict) {
    notices.announce(stage::kGates);
    const auto start = std::chrono::steady_clock::now();
    Artifact artifact;
    artifact.binary = setting.binary;
    const auto crashed = [&](const std::string& stage, const std::string& reason) {
      if (!device_->outlives_crashes()) notices.poisoned();
      verdict.outcome = verdict::Crashed{stage, fmt::format("{}: {}", where(setting), reason)};
      backend_->unload();
      return false;
    };
    if (const Status loaded = backend_->load(artifact, setting.launch); !loaded) {
      if (loaded.error().kind == ErrorKind::environment) return loaded.error();
      return crashed("loading", loaded.error().message);
    }
    GateOptions options;
    options.seed = seed;
    options.order_nondeterministic = asked.order_nondeterministic;
    options.nondeterminism_reason = asked.nondeterminism_reason;
    options.output = "the outputs";
    GateReport report = run_gates(*backend_, options, gates(setting.setting, seed));
    verdict.gate_seconds += seconds_since(start);
    for (GateResult& gate : report.gates) {
      gate.detail = fmt::format("{}{}{}", where(setting), gate.detail.empty() ? "" : ": ", gate.detail);
      verdict.gates.push_back(std::move(gate));
    }
    if ((report.strayed || report.fault) && !device_->outlives_crashes()) notices.poisoned();
    if (report.fault) return environment_error(*report.fault);
    if (report.crash) return crashed(stage::kGates, *report.crash);
    if (verdict.gates.back().passed) return true;
    verdict.outcome = verdict::Wrong{verdict.gates.back()};
    backend_->unload();
    return false;
  }

  std::string where(const CompiledSetting& setting) const {
    return describe(*task_, task_->settings[static_cast<std::size_t>(setting.setting)]);
  }

  static TimingPlan plan_for(const TaskRequest& request) {
    TimingPlan plan;
    plan.subjects = {{0, "candidate", false}};
    plan.mode = request.effort.mode == TimingMode::cuda_l2 ? TimingMode::offline : request.effort.mode;
    plan.server = request.effort.server;
    plan.seconds = request.effort.seconds;
    plan.min_samples = request.effort.min_samples;
    plan.too_slow_us = request.too_slow_us;
    plan.seed = request.seed;
    plan.preheat = false;
    return plan;
  }

  void time_candidate(const TaskRequest& request, const WorkerNotices& notices, Verdict& verdict) {
    if (request.effort.screening && request.best_us > 0) {
      TimingPlan screening = plan_for(request);
      screening.mode = TimingMode::offline;
      screening.seconds = 0;
      screening.min_samples = screening.most_samples = kScreeningSamples;
      screening.batch_us = kScreeningBatchUs;
      screening.clear_us = request.best_us;
      screening.warm = false;
      const double time_us = time_by(screening, request, notices, verdict);
      if (!(time_us <= request.best_us)) return;
    }
    time_by(plan_for(request), request, notices, verdict);
  }

  // Sets the verdict. The cold median; infinite unless it was accepted.
  double time_by(const TimingPlan& plan, const TaskRequest& request, const WorkerNotices& notices, Verdict& verdict) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    constexpr const char* kTimedOutputs = "timed-outputs";
    const auto timed = time_subjects(*backend_, plan);
    if (!timed) {
      if (!device_->outlives_crashes()) notices.poisoned();
      verdict.outcome = verdict::Crashed{stage::kTiming, timed.error().message};
      return kNone;
    }
    const auto checked = backend_->check_timed_outputs(0);
    if (!checked) {
      if (!device_->outlives_crashes()) notices.poisoned();
      verdict.outcome = verdict::Crashed{stage::kTiming, checked.error().message};
      return kNone;
    }
    const CheckReport& outputs = *checked;
    std::erase_if(verdict.gates, [](const GateResult& gate) { return gate.gate == kTimedOutputs; });
    verdict.gates.push_back({kTimedOutputs, outputs.passed, outputs.detail, outputs.worst_error});
    if (!outputs.passed) {
      verdict.outcome = verdict::Wrong{verdict.gates.back()};
      return kNone;
    }
    if (timed->too_slow_us) {
      verdict.outcome = verdict::TooSlow{*timed->too_slow_us, request.too_slow_us};
      return kNone;
    }
    const Measurement& measured = timed->measurements.front();
    if (const auto reason = backend_->under_floor(measured)) {
      verdict.outcome = verdict::Suspicious{*reason, measured.cold.median_us};
      return kNone;
    }
    verdict.outcome = verdict::Accepted{measured};
    return measured.cold.median_us;
  }

  std::unique_ptr<DeviceFactory> factory_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<TaskDevice> device_;
  std::unique_ptr<Reference> reference_;
  std::unique_ptr<TaskBackend> backend_;
  bool confined_ = true;
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> fresh_seeds_;
};

class CpuFactory final : public DeviceFactory {
 public:
  explicit CpuFactory(const Machine& machine) : machine_(machine) {}

  Result<std::unique_ptr<TaskDevice>> device(const EvaluationRequest& request) override {
    // The parent's limits are those that count: it kills this process and all below it.
    ForeignHost::Options options;
    options.confined = request.confined;
    options.limit_seconds = 3600;
    return make_cpu_task_device(machine_, options);
  }

  Result<std::unique_ptr<Reference>> reference(const Task& task, const EvaluationRequest& request) override {
    return open_cpp_reference(task, request);
  }

 private:
  Machine machine_;
};

nlohmann::json list_of(const std::vector<CompiledSetting>& settings) {
  auto list = nlohmann::json::array();
  for (const CompiledSetting& one : settings) {
    list.push_back({{"setting", one.setting},
                    {"binary", one.binary},
                    {"launch", one.launch},
                    {"workspace_bytes", one.workspace_bytes},
                    {"zero_workspace", one.zero_workspace}});
  }
  return list;
}

std::vector<CompiledSetting> settings_from(const nlohmann::json& list) {
  std::vector<CompiledSetting> settings;
  for (const auto& one : list) {
    settings.push_back({one.at("setting").get<int>(), one.at("binary").get<std::string>(), one.at("launch"),
                        one.at("workspace_bytes").get<std::int64_t>(), one.at("zero_workspace").get<bool>()});
  }
  return settings;
}

}  // namespace

Result<std::unique_ptr<Reference>> open_cpp_reference(const Task& task, const EvaluationRequest& request) {
  if (!request.reference.empty()) return make_cpp_reference(request.reference);
  return environment_error(
      fmt::format("the reference of {} is CUDA code ({}), which needs a GPU", task.name, task.reference_name));
}

void to_json(nlohmann::json& json, const EvaluationRequest& request) {
  json = {{"directory", request.directory},
          {"identity", request.identity},
          {"reference", request.reference},
          {"references", list_of(request.references)},
          {"settings", list_of(request.settings)},
          {"order_nondeterministic", request.order_nondeterministic},
          {"nondeterminism_reason", request.nondeterminism_reason},
          {"confined", request.confined}};
}

void from_json(const nlohmann::json& json, EvaluationRequest& request) {
  json.at("directory").get_to(request.directory);
  json.at("identity").get_to(request.identity);
  json.at("reference").get_to(request.reference);
  request.references = settings_from(json.at("references"));
  request.settings = settings_from(json.at("settings"));
  json.at("order_nondeterministic").get_to(request.order_nondeterministic);
  json.at("nondeterminism_reason").get_to(request.nondeterminism_reason);
  json.at("confined").get_to(request.confined);
}

std::unique_ptr<DeviceFactory> make_cpu_factory(const Machine& machine) {
  return std::make_unique<CpuFactory>(machine);
}

std::unique_ptr<TaskService> make_task_service(std::unique_ptr<DeviceFactory> factory) {
  return std::make_unique<Service>(std::move(factory));
}

}  // namespace warpsmith::task
