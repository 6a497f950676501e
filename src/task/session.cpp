// Compiling for every setting, then one request to the worker.
#include "task/session.h"

#include <fmt/format.h>

#include <variant>

#include "base/hash.h"

namespace warpsmith::task {

namespace {

constexpr std::int64_t kMostWatchedBytes = 1LL << 30;  // of a setting that the sanitizer runs

// Settings in the order of proving: the timed one last, where it stays loaded.
std::vector<int> proving_order(const Task& task, Target target) {
  std::vector<int> order;
  const int timed = task.timed_on(target);
  for (const int setting : task.settings_on(target)) {
    if (setting != timed) order.push_back(setting);
  }
  order.push_back(timed);
  return order;
}

}  // namespace

std::string TaskCandidate::short_name() const {
  std::string text = form.name;
  for (const auto& [macro, value] : chosen) text += fmt::format(" {}={}", macro, value);
  return text;
}

std::string TaskCandidate::identity() const {
  return fmt::format("free {} {}", HashInput().add(form.source).add(descriptor).hex(), short_name());
}

Result<std::unique_ptr<TaskSession>> TaskSession::open(Task task, const SessionOptions& options) {
  std::unique_ptr<TaskSession> session(new TaskSession(std::move(task), options));
  auto judge = TaskJudge::start(options.evaluator);
  if (!judge) return judge.error();
  session->judge_ = std::move(*judge);
  if (const Status compiled = session->compile_reference(); !compiled) return compiled.error();
  return session;
}

Status TaskSession::compile_reference() {
  const auto complain = [&](const Error& error) {
    if (error.kind == ErrorKind::environment) return error;
    return bad_input(fmt::format("{}: {}", (task_.directory / task_.reference_name).string(), error.message));
  };
  if (task_.reference_descriptor.empty()) {
    const auto compiled = compiler_.compile(reference_candidate(task_, machine()));
    if (!compiled) return complain(compiled.error());
    reference_ = compiled->binary.string();
    return ok_status();
  }
  if (!is_cuda(target())) return ok_status();  // the worker says that it needs a GPU
  for (const int setting : task_.settings_on(target())) {
    const auto made = cuda_reference_candidate(instance_of(task_, setting), machine());
    if (!made) return made.error();
    const auto compiled = compiler_.compile(*made);
    if (!compiled) return complain(compiled.error());
    const auto& launch = std::get<CudaLaunch>(made->launch);
    references_.push_back({setting, compiled->binary.string(), launch, launch.workspace_bytes, launch.zero_workspace});
  }
  return ok_status();
}

Archive::Scope TaskSession::scope() const {
  Archive::Scope scope;
  scope.machine = machine();
  scope.target = target();
  scope.threads = options_.evaluator.threads;
  scope.task = task_.identity;
  return scope;
}

Result<TaskCandidate> parse_task_candidate(const Task& task, std::string source, const std::string& descriptor) {
  auto form = parse_candidate(descriptor, std::move(source), "answer.json", task.names());
  if (!form) return form.error();
  TaskCandidate candidate{std::move(*form), {}, descriptor};
  for (const Tunable& tunable : candidate.form.tune) candidate.chosen.emplace_back(tunable.macro, tunable.values[0]);
  return candidate;
}

nlohmann::json chosen_descriptor(const TaskCandidate& candidate) {
  auto descriptor = nlohmann::json::parse(candidate.descriptor, nullptr, false);
  for (const auto& [macro, value] : candidate.chosen) descriptor["tune"][macro] = {value};
  return descriptor;
}

Result<Candidate> TaskSession::instantiate(const TaskCandidate& candidate, int setting) const {
  return make_candidate(candidate.form, instance_of(task_, setting), candidate.chosen, machine());
}

// The verdict is set where the candidate cannot be evaluated; then the status is an error.
Status TaskSession::compile_all(const TaskCandidate& candidate, EvaluationRequest& request, TaskOutcome& outcome,
                                ResourceReport& resources) {
  for (const int setting : proving_order(task_, target())) {
    const auto made = instantiate(candidate, setting);
    if (!made) {
      outcome.verdict.outcome = verdict::Illegal{"descriptor", made.error().message};
      return made.error();
    }
    outcome.source_hash = sha256_hex(made->source);
    const auto compiled = compiler_.compile(*made);
    if (!compiled) {
      const bool environment = compiled.error().kind == ErrorKind::environment;
      if (environment) {
        outcome.verdict.outcome = verdict::Failed{compiled.error().message};
      } else {
        outcome.verdict.outcome = verdict::CompileError{compiled.error().message};
      }
      return compiled.error();
    }
    outcome.verdict.compile_seconds += compiled->seconds;
    resources = compiled->resources;
    CompiledSetting one;
    one.setting = setting;
    one.binary = compiled->binary.string();
    std::visit([&](const auto& launch) { one.launch = launch; }, made->launch);
    if (const auto* cuda = std::get_if<CudaLaunch>(&made->launch)) {
      one.workspace_bytes = cuda->workspace_bytes;
    } else {
      one.workspace_bytes = std::get<CpuLaunch>(made->launch).workspace_bytes;
    }
    one.zero_workspace = candidate.form.zero_workspace;
    request.settings.push_back(std::move(one));
    request.order_nondeterministic = made->order_nondeterministic;
    request.nondeterminism_reason = made->nondeterminism_reason;
  }
  return ok_status();
}

EvaluationRequest TaskSession::request_for_task() const {
  EvaluationRequest request;
  request.directory = task_.directory.string();
  request.identity = task_.identity;
  request.reference = reference_;
  request.references = references_;
  request.confined = options_.confined;
  return request;
}

SanitizerReport TaskSession::sanitize(const TaskCandidate& candidate, SanitizerOptions options) {
  if (!is_cuda(target())) return sanitizer_not_run("it watches CUDA kernels only");
  TaskOutcome outcome;
  EvaluationRequest request = request_for_task();
  ResourceReport resources;
  if (const Status compiled = compile_all(candidate, request, outcome, resources); !compiled) {
    return sanitizer_not_run("the candidate cannot be built: " + compiled.error().message);
  }
  std::erase_if(request.settings, [&](const CompiledSetting& one) {
    return slab_of(instance_of(task_, one.setting), one.workspace_bytes).bytes > kMostWatchedBytes;
  });
  if (request.settings.empty()) return sanitizer_not_run("every setting has tensors of more than 1 GiB");
  options.device = options_.evaluator.device;
  const std::string problem = fmt::format("{} at {} settings", task_.identity, request.settings.size());
  return run_sanitizer(problem, {{"task", request}}, options);
}

TaskOutcome TaskSession::evaluate(const TaskCandidate& candidate, double best_us, const TimingEffort& effort) {
  TaskOutcome outcome;
  EvaluationRequest request = request_for_task();
  ResourceReport resources;
  if (const Status compiled = compile_all(candidate, request, outcome, resources); !compiled) return outcome;
  const double compile_seconds = outcome.verdict.compile_seconds;
  outcome.verdict = judge_->judge_task(task_.identity, request, best_us, effort);
  outcome.verdict.compile_seconds = compile_seconds;
  outcome.verdict.resources = std::move(resources);
  return outcome;
}

TimingEffort task_effort(const Machine& machine) {
  TimingEffort effort;
  effort.seconds = 0.2;
  effort.screening = machine.kind == "cuda";
  return effort;
}

}  // namespace warpsmith::task
