// `warpsmith bench`: measures given recipes, or a family's starting points, against the baselines.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/paths.h"
#include "base/text.h"
#include "bench_candidates.h"
#include "bench_report.h"
#include "bench_studies.h"
#include "cli.h"
#include "devices.h"
#include "problem/grids.h"
#include "progress.h"
#include "search/conclude.h"
#include "search/trials.h"
#include "task_command.h"
#include "torch_baseline.h"
#include "wisdom/wisdom.h"

namespace warpsmith::cli {

namespace {

constexpr double kMostQps = 1e5;
constexpr std::int64_t kMostArrivals = 1'000'000;
constexpr int kMostProcesses = 1000;
constexpr double kStudyEffortSeconds = 0.25;  // of each subject, unless --effort says otherwise

struct BenchArguments {
  ProblemOptions problem;
  DeviceOptions device;
  std::string shapes_file, grid;
  std::string recipe;
  std::vector<std::string> candidates;  // paths
  std::string family;
  int first = 4;
  std::string effort = "500ms";
  std::string mode = "offline", protocol;
  double qps = 100;
  std::int64_t arrivals = 100;
  bool exhaustive = false;
  std::string exhaustive_time = "60s";
  bool self = false;
  int processes = 0;       // of --repeat-processes; 0: not asked for
  std::string throughput;  // a duration; empty: not asked for
  bool verify = false;
  bool torch = false;
  ReportOptions report;
  std::uint64_t seed = 1;
  std::string wisdom;
  std::vector<std::string> tasks;  // directories of general kernels
  bool no_sandbox = false, sanitize = false;
  const CLI::App* command = nullptr;  // as parsed
};

class BenchCommand {
 public:
  explicit BenchCommand(const BenchArguments& arguments) : arguments_(arguments) {}
  Result<int> run();

 private:
  Result<std::vector<Problem>> problems() const;
  Result<std::vector<Recipe>> recipes_for(const Problem& problem, const OpenDevice& device) const;
  // Compiles everything in parallel; measuring then finds it in the cache.
  void compile_ahead(const std::vector<Problem>& list, const OpenDevice& device, const Compiler& compiler,
                     ProgressLine& line) const;
  Result<BenchRow> measure(const Problem& problem, OpenDevice& device, const Compiler& compiler) const;
  // With --torch: what measure_torch() says of the row's problem, both layouts at once.
  void add_torch(BenchRow& row, const OpenDevice& device);
  Provenance provenance(const OpenDevice& device, const Compiler& compiler) const {
    return provenance_of(device, compiler.versions(), std::string(to_string(effort_.mode)), arguments_.seed);
  }
  // Every problem that `report` lacks, until interrupted.
  Status measure_all(const std::vector<Problem>& list, OpenDevice& device, const Compiler& compiler,
                     BenchReport& report);

  bool given(const char* option) const { return arguments_.command->count(option) > 0; }
  // The options of timing, checked and read into effort_.
  Status read_effort();
  Status check_studies() const;
  bool is_study() const { return arguments_.self || given("--repeat-processes") || given("--throughput"); }
  Result<std::vector<Entrant>> entrants_for(const Problem& problem, const OpenDevice& device) const;
  StudyOptions study_options(const Compiler& compiler) const;
  Result<int> run_study(const std::vector<Problem>& list, OpenDevice& device, const Compiler& compiler) const;
  // Adds the released protocol of CUDA-L2 to a row.
  Status add_protocol(const BenchRow& row, OpenDevice& device, const Compiler& compiler, nlohmann::json& json) const;

  const BenchArguments& arguments_;
  std::vector<FreeForm> forms_;  // of --candidate
  std::optional<Wisdom> wisdom_;
  TimingEffort effort_;
  double throughput_seconds_ = 0;
  std::map<std::string, nlohmann::json> torch_;  // by sizes and element type
};

Status BenchCommand::read_effort() {
  effort_.min_samples = 25;
  const auto seconds = parse_duration(arguments_.effort);
  if (!seconds) return seconds.error();
  effort_.seconds = !given("--effort") && is_study() ? kStudyEffortSeconds : *seconds;
  const auto mode = parse_timing_mode(arguments_.mode);
  if (!mode) return mode.error();
  effort_.mode = *mode;
  for (const char* option : {"--qps", "--arrivals"}) {
    if (given(option) && *mode != TimingMode::server) return bad_input(fmt::format("{} needs --mode server", option));
  }
  if (!(arguments_.qps > 0 && arguments_.qps <= kMostQps)) {
    return bad_input(fmt::format("--qps {:g}; accepted: more than 0, up to {:g}", arguments_.qps, kMostQps));
  }
  if (arguments_.arrivals < 1 || arguments_.arrivals > kMostArrivals) {
    return bad_input(fmt::format("--arrivals {}; accepted: 1 to {}", arguments_.arrivals, kMostArrivals));
  }
  effort_.server = {arguments_.qps, static_cast<int>(arguments_.arrivals)};
  const auto exhaustive = parse_duration(arguments_.exhaustive_time);
  if (!exhaustive) return exhaustive.error();
  if (arguments_.exhaustive) effort_.exhaustive_seconds = *exhaustive;
  return ok_status();
}

Status BenchCommand::check_studies() const {
  if (given("--protocol") && arguments_.protocol != "cuda-l2") {
    return bad_input(fmt::format("unknown protocol '{}'; accepted: cuda-l2", printable(arguments_.protocol)));
  }
  std::vector<std::string> chosen;
  for (const char* option : {"--self", "--repeat-processes", "--throughput", "--protocol", "--verify"}) {
    if (given(option)) chosen.emplace_back(option);
  }
  if (chosen.size() > 1) return bad_input(fmt::format("{} and {} do not go together", chosen[0], chosen[1]));
  if (given("--repeat-processes") && (arguments_.processes < 2 || arguments_.processes > kMostProcesses)) {
    return bad_input(fmt::format("--repeat-processes {}; accepted: 2 to {}", arguments_.processes, kMostProcesses));
  }
  if (is_study() && !(arguments_.report.output.empty() && arguments_.report.format.empty())) {
    return bad_input(
        fmt::format("{} prints lines, with --json as JSON; --format and --output are for speed-ups", chosen.front()));
  }
  return ok_status();
}

Result<std::vector<Entrant>> BenchCommand::entrants_for(const Problem& problem, const OpenDevice& device) const {
  if (!forms_.empty()) return applicable_candidates(forms_, problem, device.evaluator->machine());
  const auto recipes = recipes_for(problem, device);
  if (!recipes) return recipes.error();
  std::vector<Entrant> entrants;
  for (const Recipe& recipe : *recipes) {
    auto candidate = generate(recipe, problem, device.evaluator->machine());
    if (!candidate) return candidate.error();
    entrants.push_back({to_short_string(recipe), std::move(*candidate)});
  }
  return entrants;
}

Result<std::vector<Problem>> BenchCommand::problems() const {
  const int sources = !arguments_.shapes_file.empty() + !arguments_.grid.empty() +
                      (!arguments_.problem.shape_words.empty() || !arguments_.problem.mnk.empty());
  if (sources > 1) return bad_input("give the shape once: M N K, --shapes FILE or --grid NAME");
  if (sources == 0 || (arguments_.shapes_file.empty() && arguments_.grid.empty())) return arguments_.problem.problems();
  const auto shapes = arguments_.grid.empty() ? load_shapes(arguments_.shapes_file) : named_grid(arguments_.grid);
  if (!shapes) return shapes.error();
  return arguments_.problem.problems_of(*shapes);
}

Result<std::vector<Recipe>> BenchCommand::recipes_for(const Problem& problem, const OpenDevice& device) const {
  if (!arguments_.recipe.empty()) {
    const auto recipe = parse_recipe(arguments_.recipe);
    if (!recipe) return recipe.error();
    return std::vector<Recipe>{*recipe};
  }
  if (const WisdomEntry* entry = wisdom_ ? wisdom_->find(problem) : nullptr) {
    const auto recipe = parse_recipe(entry->recipe);
    if (!recipe) return recipe.error();
    if (is_legal(*recipe, problem, device.evaluator->machine())) return std::vector<Recipe>{*recipe};
  }
  std::vector<Recipe> recipes;
  for (const Family* family : families_for(device.target)) {
    if (!arguments_.family.empty() && family->name != arguments_.family) continue;
    const auto starts = family->starting_points(problem, device.evaluator->machine());
    for (std::size_t i = 0; i < starts.size() && i < static_cast<std::size_t>(arguments_.first); ++i) {
      recipes.push_back(starts[i]);
    }
  }
  return recipes;
}

void BenchCommand::compile_ahead(const std::vector<Problem>& list, const OpenDevice& device, const Compiler& compiler,
                                 ProgressLine& line) const {
  std::map<std::string, Candidate> distinct;  // by source: many problems share one
  for (const Problem& problem : list) {
    auto entrants = entrants_for(problem, device);
    if (!entrants) continue;
    for (Entrant& entrant : *entrants) {
      distinct.try_emplace(entrant.candidate.source, std::move(entrant.candidate));
    }
  }
  std::vector<const Candidate*> queue;
  for (const auto& [source, candidate] : distinct) queue.push_back(&candidate);
  std::atomic<std::size_t> taken{0}, done{0};
  std::vector<std::jthread> workers;
  for (int i = 0; i < available_threads(); ++i) {
    workers.emplace_back([&] {
      for (std::size_t at = taken++; at < queue.size() && !interrupted(); at = taken++) {
        // An error comes up again, with its verdict, when the recipe is measured.
        static_cast<void>(compiler.compile(*queue[at]).ok());
        ++done;
      }
    });
  }
  while (done < queue.size() && !interrupted()) {
    line.update(static_cast<double>(done) / static_cast<double>(queue.size()),
                fmt::format("compiling {} of {}", done.load(), queue.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<BenchRow> BenchCommand::measure(const Problem& problem, OpenDevice& device, const Compiler& compiler) const {
  const auto entrants = entrants_for(problem, device);
  if (!entrants) return entrants.error();
  BenchRow row{problem, {}, {}, {}, {}};
  row.verdict.outcome = verdict::Illegal{"starting_points", "no legal recipe for this problem"};
  const Entrant* best = nullptr;
  std::optional<Artifact> best_artifact;
  double best_us = 0;
  for (const Entrant& entrant : *entrants) {
    Verdict verdict;
    const auto artifact = compiler.compile(entrant.candidate);
    if (!artifact && artifact.error().kind == ErrorKind::environment) return artifact.error();
    if (artifact && entrant.generated && !resource_gate(artifact->resources).passed) {
      verdict.outcome = verdict::Wrong{resource_gate(artifact->resources)};
    } else if (artifact) {
      verdict = device.evaluator->evaluate(problem, entrant.candidate, *artifact, 0, {});
    } else {
      verdict.outcome = verdict::CompileError{artifact.error().message};
    }
    const auto* accepted = verdict.accepted();
    if (accepted == nullptr) {  // a failure is never hidden by a recipe that did better
      row.recipe = entrant.name;
      row.verdict = verdict;
      return row;
    }
    if (best != nullptr && !(accepted->measurement.cold.median_us < best_us)) continue;
    best = &entrant;
    best_artifact = *artifact;
    best_us = accepted->measurement.cold.median_us;
    row.recipe = entrant.name;
    row.verdict = verdict;
  }
  if (best == nullptr || arguments_.verify) return row;
  ConcludeOptions options;
  options.scope = {problem, device.evaluator->machine(), device.target, device.threads};
  options.comparison_effort = effort_;
  auto conclusion = conclude_with(best->name, best->candidate, *best_artifact, options, *device.evaluator);
  if (!conclusion && conclusion.error().kind == ErrorKind::environment) return conclusion.error();
  if (conclusion) {
    row.conclusion = std::move(*conclusion);
  } else {
    row.verdict.outcome = verdict::Failed{conclusion.error().message};
  }
  return row;
}

void BenchCommand::add_torch(BenchRow& row, const OpenDevice& device) {
  if (!arguments_.torch || arguments_.verify) return;
  if (!is_cuda(device.target)) {
    row.torch = {
        {"not_run", fmt::format("torch.matmul is measured on a CUDA GPU; the target is {}", to_string(device.target))}};
    return;
  }
  if (row.problem.scaled() || !row.problem.packed()) {
    row.torch = {{"not_run", "torch.matmul multiplies packed operands, without alpha and beta"}};
    return;
  }
  Problem key = row.problem;
  key.layout = Layout::nn;
  const auto [known, missing] = torch_.try_emplace(to_string(key));
  if (missing) {
    TorchRequest request;
    request.mode = std::string(to_string(effort_.mode));
    request.qps = effort_.server.qps;
    request.arrivals = effort_.server.arrivals;
    request.seconds = effort_.seconds;
    request.seed = arguments_.seed;
    request.device = arguments_.device.device;
    known->second = measure_torch(row.problem, request);
  }
  row.torch = known->second;
}

StudyOptions BenchCommand::study_options(const Compiler& compiler) const {
  StudyOptions options;
  options.effort = effort_;
  options.seed = arguments_.seed;
  options.json_lines = arguments_.report.json_lines;
  options.device = arguments_.device;
  options.entrants = [this](const Problem& problem, const OpenDevice& device) { return entrants_for(problem, device); };
  options.provenance = [this, &compiler](const OpenDevice& device, const std::string& mode) {
    return provenance_of(device, compiler.versions(), mode, arguments_.seed);
  };
  return options;
}

Result<int> BenchCommand::run_study(const std::vector<Problem>& list, OpenDevice& device,
                                    const Compiler& compiler) const {
  const StudyOptions options = study_options(compiler);
  if (arguments_.self) return bench_self(list, device, options);
  {
    ProgressLine line(arguments_.report.json_lines);
    compile_ahead(list, device, compiler, line);
  }
  if (arguments_.processes > 0) return bench_processes(list, device, compiler, arguments_.processes, options);
  return bench_throughput(list, device, compiler, throughput_seconds_, options);
}

// Of the recipe that the row is about, whatever our own gates say of it.
Status BenchCommand::add_protocol(const BenchRow& row, OpenDevice& device, const Compiler& compiler,
                                  nlohmann::json& json) const {
  const auto entrants = entrants_for(row.problem, device);
  if (!entrants) return entrants.error();
  for (const Entrant& entrant : *entrants) {
    if (entrant.name != row.recipe) continue;
    const auto artifact = compiler.compile(entrant.candidate);
    if (!artifact) break;
    json["cuda_l2"] = measure_as_cuda_l2(row.problem, entrant, *artifact, *device.evaluator, effort_);
  }
  return ok_status();
}

Status BenchCommand::measure_all(const std::vector<Problem>& list, OpenDevice& device, const Compiler& compiler,
                                 BenchReport& report) {
  ProgressLine line(arguments_.report.json_lines);
  std::vector<Problem> missing;
  std::copy_if(list.begin(), list.end(), std::back_inserter(missing),
               [&](const Problem& problem) { return !report.has(problem); });
  compile_ahead(missing, device, compiler, line);
  std::size_t done = 0;
  for (const Problem& problem : missing) {
    if (interrupted()) break;
    line.update(static_cast<double>(done++) / static_cast<double>(missing.size()), to_string(problem));
    if (report.has(problem)) continue;  // listed twice
    auto row = measure(problem, device, compiler);
    if (!row) return row.error();
    add_torch(*row, device);
    line.clear();
    nlohmann::json json = row_to_json(*row, device);
    if (!arguments_.protocol.empty()) {
      if (const Status added = add_protocol(*row, device, compiler, json); !added) return added;
    }
    const bool both = json.contains("cuda_l2") && !arguments_.report.json_lines;
    const std::string protocols = both ? protocols_line(json) : std::string();
    if (const Status status = report.add(std::move(json), provenance(device, compiler)); !status) return status;
    if (both) fmt::print("{}\n", protocols);
  }
  return ok_status();
}

Result<int> BenchCommand::run() {
  auto list = problems();
  if (!list) return list.error();
  if (const Status checked = check_studies(); !checked) return checked.error();
  if (const Status read = read_effort(); !read) return read.error();
  if (given("--throughput")) {
    const auto seconds = parse_duration(arguments_.throughput);
    if (!seconds) return seconds.error();
    throughput_seconds_ = *seconds;
  }
  if (!arguments_.family.empty() && find_family(arguments_.family) == nullptr) {
    return bad_input(fmt::format("unknown family '{}'; accepted: {}", printable(arguments_.family), family_names()));
  }
  if (!arguments_.recipe.empty()) {
    if (const auto recipe = parse_recipe(arguments_.recipe); !recipe) return recipe.error();
  }
  if (!arguments_.wisdom.empty()) {
    auto wisdom = Wisdom::load(arguments_.wisdom);
    if (!wisdom) return wisdom.error();
    wisdom_ = std::move(*wisdom);
  }
  if (auto forms = load_candidates(arguments_.candidates); forms) {
    forms_ = std::move(*forms);
  } else {
    return forms.error();
  }
  if (const auto format = arguments_.report.check(); !format) return format.error();
  auto device = open_device(arguments_.device, arguments_.seed);
  if (!device) return device.error();
  const Machine& machine = device->evaluator->machine();
  if (wisdom_ && !wisdom_->header().same_machine(wisdom_header(machine, device->target, device->threads))) {
    return bad_input(fmt::format("{} is of {}; accepted: of {}", printable(arguments_.wisdom, 200),
                                 printable(wisdom_->header().machine), machine.name));
  }
  if (!forms_.empty()) {
    auto claimed = claimed_problems(forms_, *list, device->evaluator->machine(), arguments_.report.json_lines);
    if (!claimed) return claimed.error();
    list = std::move(*claimed);
  }
  if (arguments_.exhaustive && !is_cuda(device->target)) {
    return bad_input("--exhaustive searches cuBLASLt's configurations; accepted with a CUDA target");
  }
  const Compiler compiler({.cache = cache_dir()});
  if (is_study()) return run_study(*list, *device, compiler);
  nlohmann::json measuring = measuring_options(*arguments_.command);
  if (!forms_.empty()) measuring["candidate"] = identify(forms_);
  auto report = BenchReport::open(arguments_.report, measuring, provenance(*device, compiler));
  if (!report) return report.error();
  const Status measured = measure_all(*list, *device, compiler, *report);
  const bool complete =
      std::all_of(list->begin(), list->end(), [&](const Problem& problem) { return report->has(problem); });
  const Status finished = report->finish(complete);
  if (!measured) return measured.error();
  if (!finished) return finished.error();
  if (interrupted()) return kExitInterrupted;
  return report->accepted() == report->size() ? kExitOk : kExitFailed;
}

}  // namespace

namespace {

// What of these options concerns tasks.
Result<int> run_on_tasks(const BenchArguments& arguments) {
  for (const char* option : {"shape",        "--mnk",      "--shapes", "--grid",
                             "--layout",     "--type",     "--acc",    "--scaled",
                             "--ld",         "--recipe",   "--family", "--mode",
                             "--exhaustive", "--protocol", "--self",   "--repeat-processes",
                             "--throughput", "--verify",   "--output", "--format",
                             "--resume"}) {
    const CLI::Option* found = arguments.command->get_option_no_throw(option);
    if (found != nullptr && found->count() > 0) return bad_input(fmt::format("{} does not go with --task", option));
  }
  TaskArguments task;
  task.tasks = arguments.tasks;
  task.candidates = arguments.candidates;
  task.device = arguments.device;
  task.effort = arguments.effort;
  task.seed = arguments.seed;
  task.torch = arguments.torch;
  task.no_sandbox = arguments.no_sandbox;
  task.sanitize = arguments.sanitize;
  task.json = arguments.report.json_lines;
  return bench_task_command(task);
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure recipes against the baselines");
  command->footer(
      "Proves each recipe (all gates), times it, and compares the fastest one with every baseline, cold and warm,\n"
      "interleaved in one process. Without --recipe, the starting points of the families that the target runs are "
      "taken.");
  arguments->problem.add_to(*command);
  command->add_option("--shapes", arguments->shapes_file, "File with one shape a line");
  command->add_option("--grid", arguments->grid, "Named set of shapes: cuda-l2");
  arguments->device.add_to(*command);
  command->add_option("--recipe", arguments->recipe, "The recipe to measure, in its text form");
  command
      ->add_option("--candidate", arguments->candidates,
                   "A free-form kernel to measure: its .cu or .json file (docs/candidates.md); repeatable")
      ->allow_extra_args(false)
      ->excludes("--recipe");
  command
      ->add_option("--wisdom", arguments->wisdom,
                   "Wisdom file: the kernels to measure of the problems that it holds; starting points of others")
      ->type_name("FILE")
      ->excludes("--recipe")
      ->excludes("--candidate");
  command->add_option("--family", arguments->family, "Only the starting points of this family");
  command->add_option("--first", arguments->first, "How many starting points of each family to try")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--effort", arguments->effort, "Time to spend on each subject of a comparison")
      ->capture_default_str();
  command->add_option("--mode", arguments->mode, "What is timed: offline (back-to-back launches), call, server")
      ->capture_default_str();
  command->add_option("--qps", arguments->qps, "Mode server: calls a second of each subject, on average")
      ->capture_default_str();
  command->add_option("--arrivals", arguments->arrivals, "Mode server: calls of each subject")->capture_default_str();
  command->add_flag("--exhaustive", arguments->exhaustive, "Also search all configurations of cuBLASLt (CUDA)");
  command->add_option("--exhaustive-time", arguments->exhaustive_time, "Longest time for that, a problem")
      ->capture_default_str();
  command->add_option("--protocol", arguments->protocol, "Measure by this protocol as well: cuda-l2");
  command->add_flag("--self", arguments->self, "Measure the library's tuned GEMM against itself");
  command->add_option("--repeat-processes", arguments->processes,
                      "Measure the ratio to the library's tuned GEMM in so many processes, and its spread");
  command->add_option("--throughput", arguments->throughput,
                      "Evaluate for so long, as optimize does, and print verdicts a second");
  command->add_flag("--verify", arguments->verify, "Gates and a short timing only, no baselines");
  command->add_flag("--torch", arguments->torch,
                    "Measure torch.matmul as well, in a process of its own ($WARPSMITH_PYTHON, else python3)");
  command
      ->add_option("--task", arguments->tasks,
                   "A general kernel instead: a task's directory (docs/tasks.md), whose candidates are measured; "
                   "repeatable")
      ->allow_extra_args(false);
  command->add_flag("--no-sandbox", arguments->no_sandbox, "With --task: run C++ candidates unconfined (CPU)");
  command->add_flag("--sanitizer", arguments->sanitize,
                    "With --task: run compute-sanitizer over the fastest candidate (CUDA)");
  command->add_option("--seed", arguments->seed, "Seed of the inputs")->capture_default_str();
  arguments->report.add_to(*command);
  arguments->command = command;
  command->callback([arguments, &run] {
    run = [arguments] {
      if (arguments->tasks.empty() && (arguments->sanitize || arguments->no_sandbox)) {
        return report(
            bad_input(fmt::format("{} goes with --task alone", arguments->sanitize ? "--sanitizer" : "--no-sandbox")));
      }
      const auto code = arguments->tasks.empty() ? BenchCommand(*arguments).run() : run_on_tasks(*arguments);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
