// `warpsmith sweep`: declared spaces, measured whole.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "base/paths.h"
#include "cli.h"
#include "devices.h"
#include "evaluate/replay/declared.h"
#include "model/estimate.h"
#include "progress.h"
#include "search/trials.h"
#include "search/tune.h"
#include "tune_report.h"

namespace warpsmith::cli {

namespace {

struct SweepArguments {
  DeviceOptions device;
  std::string spaces, gpus, archive;
  std::string budget = "10m";
  std::uint64_t seed = 1;
  int jobs = 0;
  bool json = false, quiet = false;
};

struct Bench {
  std::optional<ReplayTable> table;
  std::vector<OpenDevice> devices;
  std::optional<Compiler> compiler;
  std::unique_ptr<TuneBench> bench;
  Target target = Target::cpu;
  int threads = 1;
  const Machine& machine() const { return table ? table->machine() : devices.front().evaluator->machine(); }
};

Result<std::unique_ptr<Bench>> open_bench(const SweepArguments& arguments) {
  auto opened = std::make_unique<Bench>();
  if (arguments.device.target.rfind("replay:", 0) == 0) {
    if (!arguments.gpus.empty()) return bad_input("--gpus goes with a CUDA target");
    auto table = ReplayTable::load(arguments.device.target.substr(7));
    if (!table) return table.error();
    opened->table = std::move(*table);
    opened->target = opened->table->target();
    opened->threads = opened->table->threads();
    opened->bench = make_replay_bench(*opened->table);
    return opened;
  }
  auto devices = open_devices(arguments.device, arguments.gpus, arguments.seed);
  if (!devices) return devices.error();
  opened->devices = std::move(*devices);
  opened->target = opened->devices.front().target;
  opened->threads = opened->devices.front().threads;
  opened->compiler.emplace(CompilerOptions{.cache = cache_dir()});
  std::vector<Evaluator*> evaluators;
  for (const OpenDevice& device : opened->devices) evaluators.push_back(device.evaluator.get());
  opened->bench = make_live_bench(*opened->compiler, std::move(evaluators));
  return opened;
}

// What the performance model finds fastest first: then a problem's best is known early, and the rest is measured more
// quickly, and surprises nobody.
std::vector<Recipe> promising_first(const Problem& problem, std::vector<Recipe> space, const Machine& machine) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const bool known = model::covers(space[i].family()) && is_legal(space[i], problem, machine);
    order.emplace_back(
        known ? model::estimate(space[i], problem, machine).time_us : std::numeric_limits<double>::infinity(), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Recipe> sorted;
  for (const auto& [time_us, index] : order) sorted.push_back(std::move(space[index]));
  return sorted;
}

Result<TunePlan> make_plan(const DeclaredSpaces& spaces, const Bench& opened) {
  TunePlanOptions options;
  options.problems = spaces.problems();
  options.machine = opened.machine();
  options.target = opened.target;
  for (const Problem& problem : options.problems) {
    options.spaces.push_back(promising_first(problem, spaces.space(problem), options.machine));
  }
  return TunePlan::create(std::move(options));
}

TuneOptions make_options(const SweepArguments& arguments, const Bench& opened, double budget_seconds) {
  TuneOptions options;
  options.machine = opened.machine();
  options.target = opened.target;
  options.threads = opened.threads;
  options.seed = arguments.seed;
  options.budget_seconds = budget_seconds;
  options.build_jobs = arguments.jobs > 0 ? arguments.jobs : available_threads();
  options.quiet_while_measuring = !opened.table && opened.target == Target::cpu;
  options.effort = options.first_effort = search_effort(options.machine);
  if (is_cuda(opened.target)) options.full_from_us = std::numeric_limits<double>::infinity();  // screened, all of them
  return options;
}

std::string sweep_text(const TuneProgress& progress, std::int64_t declared) {
  constexpr std::int64_t kTellsTheRate = 100;
  const std::int64_t left = std::max<std::int64_t>(0, declared - progress.resumed - progress.tried);
  std::string text =
      fmt::format("{}/{} problems measured  {} recipes left", progress.exhausted, progress.problems, left);
  if (progress.tried >= kTellsTheRate) {
    const double rate = static_cast<double>(progress.tried) / progress.elapsed_seconds;
    text += fmt::format(", {:.0f} s at {:.1f}/s", static_cast<double>(left) / rate, rate);
  }
  return text + fmt::format("  budget {:.0f} s  built {}/{}",
                            std::max(0.0, progress.budget_seconds - progress.elapsed_seconds), progress.built,
                            progress.sources);
}

Result<int> sweep(const SweepArguments& arguments) {
  const auto spaces = DeclaredSpaces::load(arguments.spaces);
  if (!spaces) return spaces.error();
  const auto budget = parse_duration(arguments.budget);
  if (!budget) return budget.error();
  const auto opened = open_bench(arguments);
  if (!opened) return opened.error();
  Bench& on = **opened;
  if (on.machine().name != spaces->machine() || on.target != spaces->target()) {
    return bad_input(fmt::format("{} declares spaces of {} (target {}), and this is {} (target {})", arguments.spaces,
                                 spaces->machine(), to_string(spaces->target()), on.machine().name,
                                 to_string(on.target)));
  }
  auto archive = Archive::open(arguments.archive.empty() ? data_dir() / "archive.sqlite"
                                                         : std::filesystem::path(arguments.archive));
  if (!archive) return archive.error();
  auto plan = make_plan(*spaces, on);
  if (!plan) return plan.error();
  std::int64_t declared = 0;
  for (const Problem& problem : spaces->problems())
    declared += static_cast<std::int64_t>(spaces->space(problem).size());
  const TuneOptions options = make_options(arguments, on, *budget);
  const auto known = resume(*plan, options, *on.bench, **archive);
  if (!known) return known.error();
  ProgressLine line(arguments.quiet);
  const auto result = tune(
      *plan, options, *on.bench, **archive,
      [&](const TuneProgress& progress) {
        line.update(static_cast<double>(progress.resumed + progress.tried) / static_cast<double>(declared),
                    sweep_text(progress, declared));
      },
      interrupted());
  if (!result) return result.error();
  line.clear();
  if (arguments.json) {
    fmt::print("{}\n", to_json(*result).dump());
  } else {
    fmt::print("{}{} of {} problems measured whole{}\n", describe(*result), result->progress.exhausted,
               result->progress.problems, result->exhausted ? "" : "; the same command goes on");
    if (result->progress.unmeasured > 0) {
      fmt::print(stderr, "warpsmith: {} recipes could not be tried, the device or the compiler being at fault\n",
                 result->progress.unmeasured);
    }
  }
  if (interrupted()) return kExitInterrupted;
  return result->exhausted ? kExitOk : kExitFailed;
}

}  // namespace

void add_sweep_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command = app.add_subcommand("sweep", "Measure declared spaces of recipes whole");
  command->footer(
      "Measures every recipe that `warpsmith dataset spaces` declared, one problem after the other, with all gates "
      "and\n"
      "at the effort with which tuning screens. Everything is kept in the archive: the same command goes on, Ctrl-C\n"
      "keeps what was measured. Exit code 1: the budget was spent before all was measured.");
  command->add_option("--spaces", arguments->spaces, "File of declared spaces")->required();
  arguments->device.add_to(*command);
  command->add_option("--gpus", arguments->gpus,
                      "CUDA devices to spread the problems over: all, or numbers such as 0,1; default: --device");
  command->add_option("--budget", arguments->budget, "Time to measure: 60s, 5m, 1h")->capture_default_str();
  command->add_option("--seed", arguments->seed, "Seed of the inputs")->capture_default_str();
  command->add_option("--compile-jobs", arguments->jobs, "Compiles in parallel; 0: one a CPU")
      ->check(CLI::Range(0, 1024));
  command->add_option("--archive", arguments->archive, "Archive file; default: archive.sqlite in the data directory");
  command->add_flag("--json", arguments->json, "Print a JSON object");
  command->add_flag("--quiet", arguments->quiet, "No progress line");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = sweep(*arguments);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
