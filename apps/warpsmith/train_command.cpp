// `warpsmith train`: trains the embedded policy, or compares policies on held-out problems.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "archive/archive.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli.h"
#include "devices.h"
#include "problem/grids.h"
#include "progress.h"
#include "train/ablation.h"
#include "train/config.h"
#include "train/course.h"
#include "train/learner.h"
#include "train/trainer.h"

namespace warpsmith::cli {

namespace {

struct TrainArguments {
  std::string environment, stage = "all", config, output, start, archive, module;
  ProblemOptions problem;
  DeviceOptions device;
  std::string grid, shapes_file;
  int jobs = 0, stop_after = 0;
  bool resume = false, print_config = false, quiet = false;
  bool evaluate = false;
  std::vector<std::string> arms, csv_in;
  std::string csv, summary;
  int seeds = 5, first_seed = 1;
  std::size_t smallest_space = 1500;
};

// The environment with all that it stands on, which it refers to: held by pointer, since this is moved.
struct OpenEnvironment {
  std::optional<OpenDevice> device;
  std::unique_ptr<Compiler> compiler;
  std::unique_ptr<Archive> archive;
  std::unique_ptr<train::Environment> environment;
};

class TrainCommand {
 public:
  explicit TrainCommand(const TrainArguments& arguments) : arguments_(arguments) {}

  Result<int> run() {
    if (!arguments_.config.empty()) {
      auto loaded = train::load_config(arguments_.config);
      if (!loaded) return loaded.error();
      config_ = std::move(*loaded);
    }
    if (arguments_.print_config) {
      fmt::print("{}\n", train::to_json(config_).dump(2));
      return kExitOk;
    }
    return arguments_.evaluate ? evaluate() : train();
  }

 private:
  Result<std::vector<Problem>> problems() const;
  Result<OpenEnvironment> open(bool measuring) const;
  Result<int> train();
  Result<int> evaluate();
  // held_out: receives, of each model's file that says so, which problems were held out in its training.
  Result<std::vector<train::Arm>> arms(std::vector<std::pair<std::string, std::string>>& held_out) const;
  Result<int> report_rows(const std::vector<train::AblationRow>& rows) const;

  const TrainArguments& arguments_;
  train::TrainConfig config_;
};

Result<std::vector<Problem>> TrainCommand::problems() const {
  std::vector<Shape> shapes;
  if (!arguments_.grid.empty()) {
    auto grid = named_grid(arguments_.grid);
    if (!grid) return grid.error();
    shapes = std::move(*grid);
  }
  if (!arguments_.shapes_file.empty()) {
    auto more = load_shapes(arguments_.shapes_file);
    if (!more) return more.error();
    shapes.insert(shapes.end(), more->begin(), more->end());
  }
  if (shapes.empty()) return bad_input("a live environment needs problems; accepted: --grid cuda-l2, --shapes FILE");
  return arguments_.problem.problems_of(shapes);
}

Result<OpenEnvironment> TrainCommand::open(bool measuring) const {
  OpenEnvironment opened;
  const std::string& name = arguments_.environment;
  if (name.empty()) return bad_input("--env is missing; accepted: replay:FILE, cpu, sm80, sm90");
  if (name.starts_with("replay:")) {
    const std::filesystem::path file = name.substr(7);
    auto table = ReplayTable::load(file);
    if (!table) return table.error();
    const auto text = read_file(file);
    if (!text) return text.error();
    // A run belongs to the table's contents, whatever the file is called.
    opened.environment = train::make_replay_environment(
        std::move(*table), fmt::format("replay:{} {}", file.filename().string(), sha256_hex(*text).substr(0, 12)));
    return opened;
  }
  const auto target = parse_target(name);
  if (!target)
    return bad_input(fmt::format("unknown environment '{}'; accepted: replay:FILE, cpu, sm80, sm90", printable(name)));
  if (!measuring) return bad_input("--evaluate needs a recorded table: --env replay:FILE");
  const auto list = problems();
  if (!list) return list.error();
  DeviceOptions device = arguments_.device;
  device.target = name;
  auto started = open_device(device, config_.seed);
  if (!started) return started.error();
  opened.device = std::move(*started);
  opened.compiler = std::make_unique<Compiler>(CompilerOptions{.cache = cache_dir()});
  auto archive = Archive::open(arguments_.archive.empty() ? data_dir() / "archive.sqlite"
                                                          : std::filesystem::path(arguments_.archive));
  if (!archive) return archive.error();
  opened.archive = std::move(*archive);
  train::LiveOptions live;
  live.target = opened.device->target;
  live.threads = opened.device->threads;
  live.problems = *list;
  live.compile_jobs = arguments_.jobs > 0 ? arguments_.jobs : available_threads();
  opened.environment =
      train::make_live_environment(std::move(live), *opened.compiler, *opened.device->evaluator, *opened.archive);
  return opened;
}

std::string progress_text(const train::TrainProgress& progress) {
  std::string text = fmt::format("{} {}/{}", progress.stage, progress.step, progress.steps);
  for (const char* key :
       {"loss", "reward_mean", "kl", "entropy", "accepted_fraction", "mean_fraction_of_best", "best_fraction"}) {
    if (progress.row.contains(key)) text += fmt::format("  {} {:.4g}", key, progress.row.at(key).get<double>());
  }
  return text;
}

Result<int> TrainCommand::train() {
  if (arguments_.output.empty()) return bad_input("--output is missing: the directory for checkpoints, model and log");
  train::TrainOptions options;
  options.config = config_;
  if (arguments_.stage != "all") {
    const auto& names = train::stage_names();
    if (std::find(names.begin(), names.end(), arguments_.stage) == names.end()) {
      return bad_input(
          fmt::format("unknown stage '{}'; accepted: {}, all", printable(arguments_.stage), fmt::join(names, ", ")));
    }
    options.stages = {arguments_.stage};
  }
  options.output = arguments_.output;
  options.resume = arguments_.resume;
  options.start = arguments_.start;
  options.module = arguments_.module;
  options.stop_after = arguments_.stop_after;
  if (arguments_.module.empty()) {
    if (const auto module = train::find_torch_module(); !module) return module.error();
  }
  auto opened = open(true);
  if (!opened) return opened.error();
  ProgressLine line(arguments_.quiet);
  const auto summary = train::train(
      options, *opened->environment,
      [&line](const train::TrainProgress& progress) {
        line.update(progress.steps > 0 ? static_cast<double>(progress.step) / progress.steps : -1,
                    progress_text(progress));
      },
      interrupted());
  if (!summary) return summary.error();
  line.clear();
  fmt::print("{} step {}, {} measurements; model: {}\n", summary->stage, summary->step, summary->measurements,
             (options.output / "model.safetensors").string());
  return interrupted() ? kExitInterrupted : kExitOk;
}

// NAME, or NAME=MODEL[,none|random|buckets][,estimate].
Result<std::vector<train::Arm>> TrainCommand::arms(std::vector<std::pair<std::string, std::string>>& held_out) const {
  std::vector<train::Arm> list;
  std::vector<std::string> names = arguments_.arms;
  if (names.empty()) names = train::built_in_arm_names();
  for (const std::string& text : names) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      auto arm = train::built_in_arm(text);
      if (!arm) return arm.error();
      list.push_back(std::move(*arm));
      continue;
    }
    std::string path = text.substr(equals + 1);
    embedded::ExemplarChoice choice = config_.exemplar_choice();
    constexpr std::string_view kEstimate = ",estimate";
    const bool estimate = path.ends_with(kEstimate);
    if (estimate) path.erase(path.size() - kEstimate.size());
    for (const auto& [word, value] : {std::pair{",none", embedded::ExemplarChoice::none},
                                      {",random", embedded::ExemplarChoice::random},
                                      {",buckets", embedded::ExemplarChoice::buckets}}) {
      if (!path.ends_with(word)) continue;
      path.erase(path.size() - std::string_view(word).size());
      choice = value;
      break;
    }
    auto model = embedded::load_shared_model(path);
    if (!model) return model.error();
    const auto known = (*model)->metadata.find("held_out");
    if (known != (*model)->metadata.end()) held_out.emplace_back(path, known->second);
    list.push_back(train::model_arm(text.substr(0, equals), std::move(*model), choice, config_.buckets(), estimate));
  }
  return list;
}

Result<int> TrainCommand::report_rows(const std::vector<train::AblationRow>& rows) const {
  const auto summary = train::summarise(rows);
  if (!summary) return summary.error();
  if (!arguments_.csv.empty()) {
    if (const Status status = write_file_atomic(arguments_.csv, train::ablation_csv(rows)); !status)
      return status.error();
  }
  if (!arguments_.summary.empty()) {
    if (const Status status = write_file_atomic(arguments_.summary, train::summary_json(*summary).dump(1) + "\n");
        !status)
      return status.error();
  }
  fmt::print("{}", train::summary_markdown(*summary));
  return kExitOk;
}

Result<int> TrainCommand::evaluate() {
  std::vector<train::AblationRow> rows;
  for (const std::string& file : arguments_.csv_in) {
    auto more = train::read_ablation_csv(file);
    if (!more) return more.error();
    std::move(more->begin(), more->end(), std::back_inserter(rows));
  }
  if (arguments_.environment.empty() && !rows.empty()) return report_rows(rows);  // rows of other programs alone
  train::AblationOptions options;
  options.seeds = arguments_.seeds;
  options.first_seed = arguments_.first_seed;
  options.held_out_share = config_.held_out_share;
  options.smallest_space = arguments_.smallest_space;
  options.threads = config_.threads;
  std::vector<std::pair<std::string, std::string>> held_out;
  auto list = arms(held_out);
  if (!list) return list.error();
  options.arms = std::move(*list);
  auto opened = open(false);
  if (!opened) return opened.error();
  const std::string here = train::held_out_digest(*opened->environment, config_.held_out_share);
  for (const auto& [path, digest] : held_out) {
    if (digest == here) continue;
    return bad_input(
        fmt::format("{} was trained with other problems held out than {} holds out: what it is compared on may "
                    "have been taught",
                    path, opened->environment->name()));
  }
  ProgressLine line(arguments_.quiet);
  const auto ablation =
      train::run_ablation(options, *opened->environment, [&line](double share) { line.update(share, "evaluating"); });
  if (!ablation) return ablation.error();
  line.clear();
  fmt::print("{} held-out problems with {} to {} recipes each ({} left out), {} seeds\n", ablation->problems,
             ablation->smallest, ablation->largest, ablation->left_out.size(), options.seeds);
  for (const std::string& each : ablation->left_out) fmt::print("left out: {}\n", each);
  for (const auto& [arm, kinds] : ablation->verdicts) {
    std::string text;
    for (const auto& [kind, count] : kinds) text += fmt::format("  {} {}", kind, count);
    fmt::print("{}:{}\n", arm, text);
  }
  rows.insert(rows.end(), ablation->rows.begin(), ablation->rows.end());
  return report_rows(rows);
}

}  // namespace

void add_train_command(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("train", "Train the policy \"model\", or compare policies on held-out problems");
  command->footer(
      "Three stages: supervised (winners and legal recipes), self (own output that passes the gates), contrastive "
      "(GRPO on\n"
      "measured speed, two exemplars from distinct performance buckets in the prompt). Ctrl-C keeps the last step; "
      "--resume\n"
      "goes on. docs/learning.md explains every coefficient; --print-config prints them.");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("--env", arguments->environment, "What answers: replay:FILE, cpu, sm80, sm90");
  command->add_option("--stage", arguments->stage, "supervised, self, contrastive or all")->capture_default_str();
  command->add_option("--config", arguments->config, "Coefficients (JSON); absent ones keep their defaults");
  command->add_flag("--print-config", arguments->print_config, "Print all coefficients and stop");
  command->add_option("--output", arguments->output, "Directory for checkpoint, model, log, configuration, model card");
  command->add_flag("--resume", arguments->resume, "Go on with the run in --output");
  command->add_option("--start", arguments->start, "Model whose weights to begin with (safetensors)");
  command->add_option("--stop-after", arguments->stop_after, "Stop after this many steps; --resume goes on");
  command->add_option("--grid", arguments->grid, "Live: problems of a grid, cuda-l2");
  command->add_option("--shapes", arguments->shapes_file, "Live: file of problems' shapes");
  command->add_option("--layout", arguments->problem.layout, "Live: nn, tn, nt, tt or both")->capture_default_str();
  command->add_option("--type", arguments->problem.element, "Live: f16 or bf16")->capture_default_str();
  command->add_option("--threads", arguments->device.threads, "CPU target: threads a kernel may use")
      ->capture_default_str();
  command->add_option("--device", arguments->device.device, "CUDA target: device number")->capture_default_str();
  command->add_option("--jobs", arguments->jobs, "Live: compiles in parallel; 0: one a CPU");
  command->add_option("--archive", arguments->archive,
                      "Live: archive file; default: archive.sqlite in the data directory");
  command->add_option("--torch-module", arguments->module, "warpsmith-torch.so to load; default: beside the program");
  command->add_flag("--evaluate", arguments->evaluate,
                    "Compare policies on the problems held out, instead of training");
  command->add_option(
      "--arm", arguments->arms,
      fmt::format("Policy to compare, again for each: {}, or NAME=MODEL_FILE[,none|random|buckets][,estimate]",
                  fmt::join(train::built_in_arm_names(), ", ")));
  command->add_option("--seeds", arguments->seeds, "Seeds of each arm")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--first-seed", arguments->first_seed, "The first of them, the others follow")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      ->add_option("--smallest-space", arguments->smallest_space,
                   "Held-out problems with fewer recorded recipes are left out")
      ->capture_default_str();
  command->add_option("--csv", arguments->csv, "Write arm,seed,problem,n,fraction_of_best");
  command->add_option("--add-csv", arguments->csv_in, "Rows of other programs to include, again for each file");
  command->add_option("--summary", arguments->summary, "Write figures and paired differences (JSON)");
  command->add_flag("--quiet", arguments->quiet, "No progress line");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = TrainCommand(*arguments).run();
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
