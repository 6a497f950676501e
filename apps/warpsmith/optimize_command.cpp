// `warpsmith optimize`: search, conclude, report.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "archive/archive.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli.h"
#include "devices.h"
#include "llm_search.h"
#include "models.h"
#include "optimize_report.h"
#include "progress.h"
#include "report/table.h"
#include "search/conclude.h"
#include "search/optimize.h"
#include "task_command.h"
#include "train/in_run.h"

namespace warpsmith::cli {

namespace {

struct OptimizeArguments {
  ProblemOptions problem;
  DeviceOptions device;
  std::string budget = "60s";
  std::string policy = "auto", model;
  bool learn = false;
  std::uint64_t seed = 1;
  std::int64_t max_candidates = 0;
  int jobs = 0;
  std::string archive;
  std::string kernels;
  bool json = false;
  bool quiet = false;
  bool no_final = false;
  bool no_sanitizer = false;
  LlmOptions llm;
  std::vector<std::string> tasks, task_candidates;
  bool no_sandbox = false;
};

// baseline_us: of the fastest baseline of the problem's layout; 0: unknown.
std::string progress_text(const OptimizeProgress& progress, double baseline_us) {
  const double left = std::max(0.0, progress.budget_seconds - progress.elapsed_seconds);
  const double rate = progress.elapsed_seconds > 0 ? static_cast<double>(progress.tried) / progress.elapsed_seconds : 0;
  std::string text = fmt::format("{:.0f} s left  {} tried  {:.1f}/s", left, progress.tried, rate);
  if (progress.best_us) {
    text += fmt::format("  best {} us", significant(*progress.best_us));
    if (baseline_us > 0) text += fmt::format(" ({:.2f}x)", baseline_us / *progress.best_us);
    text += "  " + progress.best_recipe;
  }
  return text;
}

// As the user would type it: a wrapper script names itself in WARPSMITH_INVOKED_AS.
std::string resume_command(const OptimizeArguments& arguments, const Archive::Scope& scope) {
  const Problem& problem = scope.problem;
  const char* invoked_as = std::getenv("WARPSMITH_INVOKED_AS");
  std::string text =
      fmt::format("{} optimize {} {} {} --layout {} --budget 300s", invoked_as == nullptr ? "warpsmith" : invoked_as,
                  problem.m, problem.n, problem.k, to_string(problem.layout));
  if (problem.element != ElementType::f16) text += fmt::format(" --type {}", to_string(problem.element));
  if (arguments.device.target != "auto") text += " --target " + arguments.device.target;
  if (scope.target == Target::cpu && arguments.device.threads != "all")
    text += " --threads " + arguments.device.threads;
  return text;
}

class OptimizeCommand {
 public:
  explicit OptimizeCommand(const OptimizeArguments& arguments) : arguments_(arguments) {}

  Result<int> run();

 private:
  Result<std::optional<Measurement>> fastest_baseline(const Problem& problem, Evaluator& evaluator) const;
  Result<OptimizeOutcome> search_with_models(const Archive::Scope& scope, OpenDevice& device, const Compiler& compiler,
                                             const std::optional<Measurement>& baseline, double budget_seconds);
  Result<OptimizeOutcome> search_live(const Problem& problem, OpenDevice& device, double budget_seconds);
  Result<OptimizeOutcome> search_replay(const Problem& problem, const ReplayTable& table, double budget_seconds);
  Result<OptimizeOutcome> search(const Archive::Scope& scope, Trials& trials, double budget_seconds,
                                 double baseline_us);
  Status choose(Target target, const Machine& machine);
  Status prepare_models(bool replay);
  void show(const OptimizeOutcome& outcome);

  const OptimizeArguments& arguments_;
  std::filesystem::path archive_path_, kernels_path_;
  std::unique_ptr<Archive> archive_;
  PolicyChoice policy_;
  std::unique_ptr<LlmSearch> llm_;  // of policy llm
  nlohmann::json report_ = nlohmann::json::array();
};

Result<OptimizeOutcome> OptimizeCommand::search(const Archive::Scope& scope, Trials& trials, double budget_seconds,
                                                double baseline_us) {
  OptimizeOptions options;
  options.scope = scope;
  options.policy = policy_.name;
  options.model = policy_.model;
  // Speed-ups in prompts mean what they meant in training.
  const bool by_baseline = policy_.model && policy_.model->metadata.count("reference") != 0 &&
                           policy_.model->metadata.at("reference") == "baseline";
  options.reference_us = by_baseline ? baseline_us : 0;
  if (arguments_.learn) {
    train::TrainConfig config;
    config.threads = 1;  // idle threads of a pool would spin beside the kernels that are timed
    auto learner = train::make_in_run_learner(*policy_.model, config);
    if (!learner) return learner.error();
    options.learner = std::move(*learner);
  }
  options.seed = arguments_.seed;
  options.budget_seconds = budget_seconds;
  options.max_candidates = arguments_.max_candidates;
  ProgressLine line(arguments_.quiet);
  auto result = optimize(
      options, trials, *archive_,
      [&line, baseline_us](const OptimizeProgress& progress) {
        line.update(progress.elapsed_seconds / progress.budget_seconds, progress_text(progress, baseline_us));
      },
      interrupted());
  if (!result) return result.error();
  OptimizeOutcome outcome;
  outcome.scope = scope;
  outcome.search = std::move(*result);
  outcome.archive_path = archive_path_.string();
  outcome.command = resume_command(arguments_, scope);
  return outcome;
}

// A short measurement, for the progress line; the closing table has the figures that count.
Result<std::optional<Measurement>> OptimizeCommand::fastest_baseline(const Problem& problem,
                                                                     Evaluator& evaluator) const {
  ProgressLine line(arguments_.quiet);
  line.update(-1, "measuring the baselines");
  const auto measured = evaluator.baselines(problem, {0.05, 5});
  if (!measured) return measured.error();
  const Measurement* fastest = fastest_of(*measured, to_string(problem.layout));
  return fastest == nullptr ? std::nullopt : std::optional(*fastest);
}

// With policy llm; prints the prompt instead where only that is asked for.
Result<OptimizeOutcome> OptimizeCommand::search_with_models(const Archive::Scope& scope, OpenDevice& device,
                                                            const Compiler& compiler,
                                                            const std::optional<Measurement>& baseline,
                                                            double budget_seconds) {
  LlmScope llm;
  llm.scope = scope;
  llm.budget_seconds = budget_seconds;
  llm.max_candidates = arguments_.max_candidates;
  llm.seed = arguments_.seed;
  if (baseline) {
    llm.reference_us = baseline->cold.median_us;
    llm.reference = baseline->subject;
  }
  OptimizeOutcome outcome;
  outcome.scope = scope;
  outcome.archive_path = archive_path_.string();
  outcome.command = resume_command(arguments_, scope);
  if (arguments_.llm.dry_run) {
    auto prompt = llm_->dry_run(llm, *archive_);
    if (!prompt) return prompt.error();
    outcome.prompt = std::move(*prompt);
    return outcome;
  }
  auto result = llm_->run(llm, compiler, *device.evaluator, *archive_, arguments_.quiet);
  if (!result) return result.error();
  outcome.search = std::move(result->search);
  outcome.models = std::move(result->report);
  return outcome;
}

Result<OptimizeOutcome> OptimizeCommand::search_live(const Problem& problem, OpenDevice& device,
                                                     double budget_seconds) {
  const Archive::Scope scope{problem, device.evaluator->machine(), device.target, device.threads};
  const Compiler compiler({.cache = cache_dir()});
  LiveTrialsOptions options;
  options.problem = problem;
  options.compile_jobs = arguments_.jobs > 0 ? arguments_.jobs : available_threads();
  options.quiet_while_measuring = device.target == Target::cpu;
  options.effort = search_effort(device.evaluator->machine());
  const auto trials = make_live_trials(options, compiler, *device.evaluator);
  const auto baseline = fastest_baseline(problem, *device.evaluator);
  if (!baseline) return baseline.error();
  auto outcome = llm_ ? search_with_models(scope, device, compiler, *baseline, budget_seconds)
                      : search(scope, *trials, budget_seconds, *baseline ? (*baseline)->cold.median_us : 0);
  if (!outcome) return outcome;
  outcome->provenance =
      provenance_of(device, compiler.versions(), std::string(to_string(TimingMode::offline)), arguments_.seed);
  outcome->provenance->date = utc_now();
  if (interrupted() || !outcome->search.best || arguments_.no_final) return outcome;

  ProgressLine line(arguments_.quiet);
  ConcludeOptions finish;
  finish.scope = scope;
  finish.kernels = kernels_path_;
  finish.sanitize = !arguments_.no_sanitizer;
  finish.sanitizer.device = arguments_.device.device;
  auto conclusion = conclude(finish, compiler, *device.evaluator, *archive_,
                             [&line](const std::string& step) { line.update(-1, step); });
  if (!conclusion) return conclusion.error();
  outcome->conclusion = std::move(*conclusion);
  return outcome;
}

Result<OptimizeOutcome> OptimizeCommand::search_replay(const Problem& problem, const ReplayTable& table,
                                                       double budget_seconds) {
  const Archive::Scope scope{problem, table.machine(), table.target(), table.threads()};
  const auto trials = make_replay_trials(problem, table);
  return search(scope, *trials, budget_seconds, 0);
}

// The policy, once the target is known.
Status OptimizeCommand::choose(Target target, const Machine& machine) {
  auto choice = choose_policy(arguments_.policy, arguments_.model, target, machine);
  if (!choice) return choice.error();
  policy_ = std::move(*choice);
  if (!policy_.notice.empty() && !arguments_.quiet) fmt::print(stderr, "{}\n", policy_.notice);
  if (arguments_.learn && !policy_.model) return bad_input("--learn is for policy model, and there is none");
  return ok_status();
}

// What policy llm needs, before a device is opened.
Status OptimizeCommand::prepare_models(bool replay) {
  if (arguments_.policy != "llm") return ok_status();
  if (replay) {
    return bad_input("policy llm writes kernels that no table has measured; accepted: a target that is a device");
  }
  auto llm = LlmSearch::prepare(arguments_.llm);
  if (!llm) return llm.error();
  llm_ = std::move(*llm);
  return ok_status();
}

void OptimizeCommand::show(const OptimizeOutcome& outcome) {
  if (!outcome.prompt.empty()) {
    fmt::print("{}", outcome.prompt);
  } else if (arguments_.json) {
    report_.push_back(outcome_to_json(outcome));
  } else {
    fmt::print("{}", format_outcome(outcome));
    std::fflush(stdout);
  }
}

Result<int> OptimizeCommand::run() {
  const auto problems = arguments_.problem.problems();
  if (!problems) return problems.error();
  const auto budget = parse_duration(arguments_.budget);
  if (!budget) return budget.error();
  if (const auto names = policy_choices(); std::find(names.begin(), names.end(), arguments_.policy) == names.end()) {
    return bad_input(
        fmt::format("unknown policy '{}'; accepted: {}", printable(arguments_.policy), fmt::join(names, ", ")));
  }
  const bool replay = arguments_.device.target.rfind("replay:", 0) == 0;
  if (const Status status = prepare_models(replay); !status) return status.error();
  // A replayed search has an archive of its own run only, unless asked otherwise: its verdicts are recorded ones.
  archive_path_ = !arguments_.archive.empty() ? std::filesystem::path(arguments_.archive)
                                              : data_dir() / (replay ? "replay.sqlite" : "archive.sqlite");
  kernels_path_ = !arguments_.kernels.empty() ? std::filesystem::path(arguments_.kernels) : data_dir() / "kernels";
  auto archive = Archive::open(archive_path_);
  if (!archive) return archive.error();
  archive_ = std::move(*archive);

  std::optional<ReplayTable> table;
  std::optional<OpenDevice> device;
  if (replay) {
    auto loaded = ReplayTable::load(arguments_.device.target.substr(7));
    if (!loaded) return loaded.error();
    table = std::move(*loaded);
  } else {
    auto opened = open_device(arguments_.device, arguments_.seed);
    if (!opened) return opened.error();
    device = std::move(*opened);
    if (!device->note.empty() && !arguments_.quiet) {
      fmt::print(stderr, "optimising on this CPU ({})\n", device->note);
    }
  }
  const Status chosen =
      replay ? choose(table->target(), table->machine()) : choose(device->target, device->evaluator->machine());
  if (!chosen) return chosen.error();
  int exit_code = kExitOk;
  for (const Problem& problem : *problems) {
    const double share = *budget / static_cast<double>(problems->size());
    auto outcome = replay ? search_replay(problem, *table, share) : search_live(problem, *device, share);
    if (!outcome) return outcome.error();
    show(*outcome);
    if (!outcome->search.best && outcome->prompt.empty()) exit_code = kExitFailed;
    if (interrupted()) {
      exit_code = kExitInterrupted;
      break;
    }
  }
  if (arguments_.json && !arguments_.llm.dry_run) fmt::print("{}\n", report_.dump(2));
  return exit_code;
}

}  // namespace

namespace {

// An option of policy llm that another policy would leave unread.
Status check_policy(const OptimizeArguments& arguments, const CLI::App& command) {
  if (arguments.policy == "llm") return ok_status();
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() != LlmOptions::kGroup || option->count() == 0) continue;
    return bad_input(fmt::format("{} goes with --policy llm alone", option->get_name()));
  }
  return ok_status();
}

// What of these options concerns tasks.
Result<int> run_on_tasks(const OptimizeArguments& arguments, const CLI::App& command) {
  for (const char* option : {"shape", "--mnk", "--layout", "--type", "--acc", "--scaled", "--ld", "--model", "--learn",
                             "--jobs", "--no-final", "--llm-parallel", "--llm-profile"}) {
    const CLI::Option* found = command.get_option_no_throw(option);
    if (found != nullptr && found->count() > 0) return bad_input(fmt::format("{} does not go with --task", option));
  }
  if (arguments.policy != "auto" && arguments.policy != "llm") {
    return bad_input(
        fmt::format("--policy {} does not go with --task; accepted: auto (the task's candidates and the "
                    "values of their macros), llm",
                    printable(arguments.policy)));
  }
  TaskArguments task;
  if (arguments.policy == "llm") task.llm = arguments.llm;
  task.tasks = arguments.tasks;
  task.candidates = arguments.task_candidates;
  task.device = arguments.device;
  task.budget = arguments.budget;
  task.max_candidates = arguments.max_candidates;
  task.archive = arguments.archive;
  task.kernels = arguments.kernels;
  task.seed = arguments.seed;
  task.no_sandbox = arguments.no_sandbox;
  task.sanitize = !arguments.no_sanitizer;
  task.json = arguments.json;
  task.quiet = arguments.quiet;
  return optimize_task_command(task);
}

}  // namespace

void add_optimize_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<OptimizeArguments>();
  CLI::App* command = app.add_subcommand("optimize", "Search for the fastest right kernel of a problem");
  command->footer(
      "Searches until the budget is spent, then measures the finalists again, compares the best with every baseline "
      "in\n"
      "one process and writes its source. Everything measured is kept in the archive: the same command searches on.\n"
      "Ctrl-C ends the search at once and keeps what was measured.");
  arguments->problem.add_to(*command);
  arguments->device.add_to(*command);
  command->add_option("--budget", arguments->budget, "Time to search: 60s, 5m, 1h")->capture_default_str();
  command->add_option("--candidates", arguments->max_candidates, "Stop after this many candidates; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--policy", arguments->policy,
                   "Who proposes candidates: " + fmt::format("{}", fmt::join(policy_choices(), ", ")) +
                       "; auto: the model where one fits, else evolution")
      ->capture_default_str();
  command->add_option("--model", arguments->model, "Model of policy model (safetensors); default: the one that ships");
  command->add_flag("--learn", arguments->learn, "The model learns from what this search measures (needs LibTorch)");
  command->add_option("--seed", arguments->seed, "Seed of the policy and of the inputs")->capture_default_str();
  command->add_option("--jobs", arguments->jobs, "Compiles in parallel; 0: one a CPU")->check(CLI::Range(0, 1024));
  command->add_option("--archive", arguments->archive, "Archive file; default: archive.sqlite in the data directory");
  command->add_option("--kernels", arguments->kernels,
                      "Directory for the winner's source; default: kernels/ in the data directory");
  arguments->llm.add_to(*command);
  command
      ->add_option("--task", arguments->tasks,
                   "A general kernel instead: a task's directory (docs/tasks.md); repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--candidate", arguments->task_candidates,
                   "With --task: a candidate to start from, instead of those that lie with the task; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--no-sandbox", arguments->no_sandbox, "With --task: run C++ candidates unconfined (CPU)");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->add_flag("--no-final", arguments->no_final, "Search only: nothing is measured again or compared");
  command->add_flag("--no-sanitizer", arguments->no_sanitizer,
                    "Do not run compute-sanitizer over the finalists (CUDA); the report says so");
  command->add_flag("--quiet", arguments->quiet, "No progress line");
  command->callback([arguments, command, &run] {
    run = [arguments, command] {
      if (const Status status = check_policy(*arguments, *command); !status) return report(status.error());
      const auto code =
          arguments->tasks.empty() ? OptimizeCommand(*arguments).run() : run_on_tasks(*arguments, *command);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
