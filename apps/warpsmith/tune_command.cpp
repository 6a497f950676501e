// `warpsmith tune`: many problems at once, into the archive, wisdom and a table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "archive/archive.h"
#include "base/file.h"
#include "base/paths.h"
#include "base/text.h"
#include "baseline_times.h"
#include "bench_tables.h"
#include "cli.h"
#include "devices.h"
#include "problem/grids.h"
#include "progress.h"
#include "report/speedup.h"
#include "report/table.h"
#include "search/conclude.h"
#include "search/trials.h"
#include "search/tune.h"
#include "search/tune_finish.h"
#include "tune_report.h"

namespace warpsmith::cli {

namespace {

// Ratios to auto-tuned cuBLASLt that are worth reaching, per bucket of sizes: what is left to gain is much for small
// problems and little for those that keep all tensor cores busy.
constexpr std::array<double, kSizeBuckets.size()> kAims = {1.5, 1.4, 1.25, 1.06, 1.02};

// Longer kernels of a GPU heat it up: they are worth timing at the clocks that they settle at.
constexpr double kFullFromUs = 100;

struct TuneArguments {
  ProblemOptions problem;
  DeviceOptions device;
  std::string shapes_file, grid, gpus;
  std::string budget = "5m", final_budget, effort = "50ms";
  std::int64_t per_shape = 0;
  std::string policy = "evolution";
  std::uint64_t seed = 1;
  int jobs = 0;
  std::string archive, wisdom, csv, replay, baselines;
  bool resume = false, no_final = false, no_baselines = false, json = false, quiet = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class TuneCommand {
 public:
  explicit TuneCommand(const TuneArguments& arguments) : arguments_(arguments) {}
  Result<int> run();

 private:
  Result<std::vector<Problem>> problems() const;
  Status read_options();
  Status open_devices();
  Result<TunePlan> make_plan(const std::vector<Problem>& list, const TuneBench& bench) const;
  Result<TuneOptions> make_options(const std::vector<Problem>& list);
  double compared_baseline_us(const Problem& problem, const TuneOptions& options);
  Result<int> search_and_finish(TunePlan& plan, const TuneOptions& options, TuneBench& bench);
  Status finish_all(const TunePlan& plan, const TuneOptions& options, TuneBench& bench);
  Result<std::optional<TuneConclusion>> conclude_one(const TunePlan& plan, std::size_t index, int device,
                                                     const TuneOptions& options, TuneBench& bench);
  FinishOptions finish_options(const TunePlan& plan, std::size_t index) const;
  void keep(TuneConclusion conclusion);
  Status write_files(const TunePlan& plan, bool complete);
  Status export_replay(const std::vector<Problem>& list);
  Provenance provenance(int device) const;
  void print_summary() const;
  bool replaying() const { return table_.has_value(); }
  const Machine& machine() const { return replaying() ? table_->machine() : devices_.front().evaluator->machine(); }

  const TuneArguments& arguments_;
  double budget_seconds_ = 0, final_seconds_ = 0, effort_seconds_ = 0;
  std::optional<ReplayTable> table_;
  std::vector<OpenDevice> devices_;
  Target target_ = Target::cpu;
  int threads_ = 1;
  std::optional<Compiler> compiler_;
  std::unique_ptr<Archive> archive_;
  std::filesystem::path archive_path_, wisdom_path_;
  std::mutex mutex_;  // of what follows, while problems are concluded
  std::vector<TuneConclusion> conclusions_;
  std::vector<nlohmann::json> rows_;
  std::vector<std::string> failures_;
  std::optional<Error> error_;
};

Result<std::vector<Problem>> TuneCommand::problems() const {
  const bool given = !arguments_.problem.shape_words.empty() || !arguments_.problem.mnk.empty();
  if (!arguments_.shapes_file.empty() + !arguments_.grid.empty() + given > 1) {
    return bad_input("give the shapes once: M N K, --shapes FILE or --grid NAME");
  }
  if (given) return arguments_.problem.problems();
  if (arguments_.shapes_file.empty() && arguments_.grid.empty()) {
    return bad_input("no shapes given; accepted: M N K, --shapes FILE or --grid cuda-l2");
  }
  const auto shapes = arguments_.grid.empty() ? load_shapes(arguments_.shapes_file) : named_grid(arguments_.grid);
  if (!shapes) return shapes.error();
  auto list = arguments_.problem.problems_of(*shapes);
  if (!list) return list;
  std::set<std::string> seen;
  std::erase_if(*list, [&](const Problem& problem) { return !seen.insert(to_string(problem)).second; });
  if (list->empty()) return bad_input(fmt::format("{} holds no shape", arguments_.shapes_file));
  return list;
}

Status TuneCommand::read_options() {
  const auto budget = parse_duration(arguments_.budget);
  if (!budget) return budget.error();
  budget_seconds_ = *budget;
  if (!arguments_.final_budget.empty()) {
    const auto final_budget = parse_duration(arguments_.final_budget);
    if (!final_budget) return final_budget.error();
    final_seconds_ = *final_budget;
  }
  const auto effort = parse_duration(arguments_.effort);
  if (!effort) return effort.error();
  effort_seconds_ = *effort;
  const auto names = policy_names();
  if (std::find(names.begin(), names.end(), arguments_.policy) == names.end()) {
    return bad_input(
        fmt::format("unknown policy '{}'; accepted: {}", printable(arguments_.policy), fmt::join(names, ", ")));
  }
  return ok_status();
}

Status TuneCommand::open_devices() {
  if (arguments_.device.target.rfind("replay:", 0) == 0) {
    if (!arguments_.gpus.empty()) return bad_input("--gpus goes with a CUDA target");
    auto table = ReplayTable::load(arguments_.device.target.substr(7));
    if (!table) return table.error();
    table_ = std::move(*table);
    target_ = table_->target();
    threads_ = table_->threads();
    return ok_status();
  }
  auto opened = cli::open_devices(arguments_.device, arguments_.gpus, arguments_.seed);
  if (!opened) return opened.error();
  devices_ = std::move(*opened);
  target_ = devices_.front().target;
  threads_ = devices_.front().threads;
  if (!devices_.front().note.empty() && !arguments_.quiet) {
    fmt::print(stderr, "tuning on this CPU ({})\n", devices_.front().note);
  }
  return ok_status();
}

Result<TunePlan> TuneCommand::make_plan(const std::vector<Problem>& list, const TuneBench& bench) const {
  TunePlanOptions options;
  options.problems = list;
  options.machine = machine();
  options.target = target_;
  options.policy = arguments_.policy;
  options.seed = arguments_.seed;
  options.per_problem = arguments_.per_shape;
  if (!is_cuda(target_)) {  // measuring takes longer than changing problems
    options.first_batch = 4;
    options.batch = 6;
  }
  options.source_of = [&bench](const Problem& problem, const Recipe& recipe) {
    return bench.source_of(problem, recipe);
  };
  return TunePlan::create(std::move(options));
}

// Of the latest comparison that tuning has made; 0: there is none.
double TuneCommand::compared_baseline_us(const Problem& problem, const TuneOptions& options) {
  const auto record = archive_->last_comparison(options.scope(problem));
  if (!record || !*record || !(*record)->result.contains("subjects")) return 0;
  try {
    const auto subjects = (*record)->result["subjects"].get<std::vector<Measurement>>();
    const Measurement* fastest = fastest_of(subjects, to_string(problem.layout));
    return fastest == nullptr ? 0 : fastest->cold.median_us;
  } catch (const nlohmann::json::exception&) {  // of another version of the program
    return 0;
  }
}

Result<TuneOptions> TuneCommand::make_options(const std::vector<Problem>& list) {
  TuneOptions options;
  options.machine = machine();
  options.target = target_;
  options.threads = threads_;
  options.seed = arguments_.seed;
  options.budget_seconds = budget_seconds_;
  options.build_jobs = arguments_.jobs > 0 ? arguments_.jobs : available_threads();
  options.quiet_while_measuring = !replaying() && target_ == Target::cpu;
  options.effort = options.first_effort = search_effort(options.machine);
  if (is_cuda(target_)) {
    options.first_effort.seconds = 0.004;
    options.first_effort.min_samples = 5;
    options.full_from_us = kFullFromUs;
  }
  std::map<std::string, double> given;
  if (!arguments_.baselines.empty()) {
    auto loaded = load_baseline_times(arguments_.baselines);
    if (!loaded) return loaded.error();
    given = std::move(*loaded);
  }
  for (const Problem& problem : list) {
    const auto found = given.find(baseline_key(problem));
    options.baseline_us.push_back(found != given.end() ? found->second : compared_baseline_us(problem, options));
    options.aims.push_back(kAims[size_bucket(problem.m, problem.n, problem.k)]);
  }
  return options;
}

Provenance TuneCommand::provenance(int device) const {
  Provenance now;
  if (replaying()) {
    now.device = machine().name;
  } else {
    now =
        provenance_of(devices_.at(static_cast<std::size_t>(device)), compiler_->versions(), "offline", arguments_.seed);
  }
  now.date = utc_now();
  return now;
}

// All baselines are measured beside the faster layout of a shape; beside the other one the tuned ones are enough.
FinishOptions TuneCommand::finish_options(const TunePlan& plan, std::size_t index) const {
  FinishOptions finish;
  finish.finalist_effort.seconds = finish.comparison_effort.seconds = effort_seconds_;
  finish.baselines = !arguments_.no_baselines && !replaying();
  finish.provenance = [this](int device) { return nlohmann::json(provenance(device)); };
  if (!is_cuda(target_)) return finish;
  const Problem& here = plan.problem(index);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Problem& other = plan.problem(i);
    if (i == index || other.m != here.m || other.n != here.n || other.k != here.k) continue;
    if (plan.best_us(i) && *plan.best_us(i) < *plan.best_us(index)) {
      finish.comparison_effort.baselines = {"cublaslt-auto-"};
    }
  }
  return finish;
}

Result<std::optional<TuneConclusion>> TuneCommand::conclude_one(const TunePlan& plan, std::size_t index, int device,
                                                                const TuneOptions& options, TuneBench& bench) {
  const std::optional<TuneConclusion> none;
  if (!plan.best_us(index)) return none;
  const FinishOptions finish = finish_options(plan, index);
  if (arguments_.resume) {
    auto standing = standing_conclusion(plan, index, finish, options, bench, *archive_);
    if (!standing || *standing) return standing;
  }
  auto made = finish_problem(plan, index, device, finish, options, bench, *archive_);
  if (!made) return made.error();
  return std::optional(std::move(*made));
}

void TuneCommand::keep(TuneConclusion conclusion) {
  const std::lock_guard lock(mutex_);
  rows_.push_back(tune_row(conclusion, target_, threads_));
  conclusions_.push_back(std::move(conclusion));
  fmt::print("{}\n", arguments_.json ? rows_.back().dump() : tune_line(rows_.back()));
  std::fflush(stdout);
}

// Every problem with a kernel, dealt out to the devices.
Status TuneCommand::finish_all(const TunePlan& plan, const TuneOptions& options, TuneBench& bench) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  ProgressLine line(arguments_.quiet || arguments_.json);
  const auto work = [&](int device) {
    for (std::size_t i = next++; i < plan.size() && !interrupted(); i = next++) {
      if (final_seconds_ > 0 && seconds_since(start) > final_seconds_) return;
      {
        const std::lock_guard lock(mutex_);
        if (error_) return;
        line.update(static_cast<double>(i) / static_cast<double>(plan.size()),
                    fmt::format("comparing {} of {}: {}", i + 1, plan.size(), to_string(plan.problem(i))));
      }
      auto conclusion = conclude_one(plan, i, device, options, bench);
      if (!conclusion) {
        const std::lock_guard lock(mutex_);
        if (conclusion.error().kind == ErrorKind::environment) error_ = conclusion.error();
        failures_.push_back(conclusion.error().message);
      } else if (*conclusion) {
        line.clear();
        keep(std::move(**conclusion));
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int device = 0; device < bench.devices(); ++device) threads.emplace_back(work, device);
  threads.clear();
  line.clear();
  return error_ ? Status(*error_) : ok_status();
}

Status TuneCommand::write_files(const TunePlan& plan, bool complete) {
  if (!conclusions_.empty() && !replaying()) {
    // Versions of libraries that were opened while comparing are known only now.
    const WisdomHeader header = wisdom_header(devices_.front().evaluator->machine(), target_, threads_);
    const auto taken = write_wisdom(wisdom_path_, header, conclusions_);
    if (!taken) return taken.error();
    if (!arguments_.json) {
      fmt::print("{}: {} of {} entries are new or better\n", wisdom_path_.string(), *taken, conclusions_.size());
    }
  }
  if (!arguments_.csv.empty() && !conclusions_.empty()) {
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> shapes;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      shapes.emplace(plan.problem(i).m, plan.problem(i).n, plan.problem(i).k);
    }
    const std::string text = shapes_csv(conclusions_, provenance(0), shapes.size());
    if (const Status status = write_file_atomic(arguments_.csv, text); !status) return status;
  }
  if (!arguments_.json && !complete) fmt::print("not all is done; the same command with --resume goes on\n");
  return ok_status();
}

Status TuneCommand::export_replay(const std::vector<Problem>& list) {
  if (arguments_.replay.empty()) return ok_status();
  const auto table =
      export_replay_table(*archive_, {machine().id(), target_, threads_, list}, nlohmann::json(provenance(0)));
  if (!table) return table.error();
  if (const Status status = table->save(arguments_.replay); !status) return status;
  if (!arguments_.json) {
    fmt::print("{}: {} measurements of {} problems\n", arguments_.replay, table->size(), table->problems().size());
  }
  return ok_status();
}

// Per size bucket, against the fastest baseline and against auto-tuned cuBLASLt.
void TuneCommand::print_summary() const {
  const bool compared = std::any_of(conclusions_.begin(), conclusions_.end(),
                                    [](const TuneConclusion& each) { return each.subjects.size() > 1; });
  if (!compared || conclusions_.size() < 2) return;
  auto summaries = summarize_rows(rows_);
  if (!summaries) return;
  for (SpeedupReport& report : *summaries) {
    std::erase_if(report.groups, [](const SpeedupGroup& group) {
      return group.key.baseline != kFastest && group.key.baseline != "cublaslt-auto";
    });
  }
  const Table table = speedup_table(*summaries, std::make_shared<const Provenance>(provenance(0)));
  if (table.size() == 0) return;
  if (arguments_.json) {
    fmt::print("{}\n", nlohmann::json({{"summary", table.json()}}).dump());
  } else {
    fmt::print("\n{}\n", table.text());
  }
}

Result<int> TuneCommand::search_and_finish(TunePlan& plan, const TuneOptions& options, TuneBench& bench) {
  const auto known = resume(plan, options, bench, *archive_);
  if (!known) return known.error();
  std::optional<TuneResult> searched;
  {
    ProgressLine line(arguments_.quiet);
    auto result = tune(
        plan, options, bench, *archive_,
        [&line](const TuneProgress& progress) {
          line.update(progress.elapsed_seconds / progress.budget_seconds, progress_text(progress));
        },
        interrupted());
    if (!result) return result.error();
    searched = std::move(*result);
  }
  fmt::print("{}", arguments_.json ? to_json(*searched).dump() + "\n" : describe(*searched));
  std::fflush(stdout);
  // What was concluded before an error or an interruption is written all the same.
  Status finished = ok_status();
  if (!interrupted() && !arguments_.no_final) finished = finish_all(plan, options, bench);
  std::size_t possible = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) possible += plan.best_us(i) ? 1 : 0;
  for (const std::string& reason : failures_) fmt::print(stderr, "warpsmith: {}\n", reason);
  print_summary();
  const Status written = write_files(plan, arguments_.no_final || conclusions_.size() + failures_.size() == possible);
  if (!finished) return finished.error();
  if (!written) return written.error();
  if (interrupted()) return kExitInterrupted;
  return failures_.empty() && possible == plan.size() ? kExitOk : kExitFailed;
}

Result<int> TuneCommand::run() {
  const auto list = problems();
  if (!list) return list.error();
  if (const Status read = read_options(); !read) return read.error();
  archive_path_ =
      !arguments_.archive.empty()
          ? std::filesystem::path(arguments_.archive)
          : data_dir() / (arguments_.device.target.rfind("replay:", 0) == 0 ? "replay.sqlite" : "archive.sqlite");
  if (const Status opened = open_devices(); !opened) return opened.error();
  auto archive = Archive::open(archive_path_);
  if (!archive) return archive.error();
  archive_ = std::move(*archive);
  const WisdomHeader header = wisdom_header(machine(), target_, threads_);
  wisdom_path_ = !arguments_.wisdom.empty() ? std::filesystem::path(arguments_.wisdom)
                                            : std::filesystem::path("wisdom") / (wisdom_name(header) + ".jsonl");
  // A file that cannot be merged with is found out before the time is spent.
  if (const auto mergeable = write_wisdom(wisdom_path_, header, {}); !mergeable) return mergeable.error();
  compiler_.emplace(CompilerOptions{.cache = cache_dir()});
  std::vector<Evaluator*> evaluators;
  for (const OpenDevice& device : devices_) evaluators.push_back(device.evaluator.get());
  const auto bench = replaying() ? make_replay_bench(*table_) : make_live_bench(*compiler_, std::move(evaluators));
  auto plan = make_plan(*list, *bench);
  if (!plan) return plan.error();
  const auto options = make_options(*list);
  if (!options) return options.error();
  const auto code = search_and_finish(*plan, *options, *bench);
  if (!code) return code.error();
  if (const Status exported = export_replay(*list); !exported) return exported.error();
  return *code;
}

}  // namespace

void add_tune_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* command = app.add_subcommand("tune", "Search for the fastest right kernels of many problems at once");
  command->footer(
      "Searches all problems, breadth first, until the budget is spent; then measures each problem's finalists again\n"
      "and compares the best with the baselines. Everything measured is kept in the archive: the same command "
      "searches\n"
      "on, and with --resume it compares only what has changed. Ctrl-C keeps what was measured.");
  arguments->problem.layout = "both";
  arguments->problem.add_to(*command);
  command->add_option("--shapes", arguments->shapes_file, "File with one shape a line");
  command->add_option("--grid", arguments->grid, "Named set of shapes: cuda-l2");
  arguments->device.add_to(*command);
  command->add_option("--gpus", arguments->gpus,
                      "CUDA devices to spread the problems over: all, or numbers such as 0,1; default: --device");
  command->add_option("--budget", arguments->budget, "Time to search: 60s, 5m, 1h")->capture_default_str();
  command->add_option("--final-budget", arguments->final_budget,
                      "Time for measuring finalists and comparing; default: as long as it takes");
  command->add_option("--effort", arguments->effort, "Time to spend on each subject of a comparison")
      ->capture_default_str();
  command
      ->add_option("--per-shape", arguments->per_shape,
                   "Stop searching a problem after so many verdicts, earlier runs included; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--policy", arguments->policy,
                   "Who proposes beyond starting points and neighbours' best: " +
                       fmt::format("{}", fmt::join(policy_names(), ", ")))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Seed of the policies and of the inputs")->capture_default_str();
  command->add_option("--compile-jobs", arguments->jobs, "Compiles in parallel; 0: one a CPU")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--resume", arguments->resume, "Do not compare again where the archive's comparison still stands");
  command->add_flag("--no-final", arguments->no_final,
                    "Search only: nothing is compared, and wisdom stays; survey does both for many shapes, faster");
  command
      ->add_option("--baselines", arguments->baselines,
                   "CSV file of a survey: its auto-tuned cuBLASLt times tell where searching is worth most")
      ->type_name("FILE");
  command->add_flag("--no-baselines", arguments->no_baselines, "Measure finalists again, without baselines");
  command->add_option("--archive", arguments->archive, "Archive file; default: archive.sqlite in the data directory");
  command->add_option("--wisdom", arguments->wisdom, "Wisdom file to merge into; default: wisdom/GPU.jsonl");
  command->add_option("--csv", arguments->csv, "Write a table with a row a shape");
  command->add_option("--export-replay", arguments->replay,
                      "Write what the archive holds of these problems as a table for --target replay:FILE");
  command->add_flag("--json", arguments->json, "Print JSON objects, one a line");
  command->add_flag("--quiet", arguments->quiet, "No progress line");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = TuneCommand(*arguments).run();
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
