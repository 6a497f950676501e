// Options of the four data sets.
#include "dataset_llm.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/paths.h"
#include "llm/dataset.h"
#include "task/models/task_dataset.h"

namespace warpsmith::cli {

namespace {

struct LanguageArguments {
  llm::DatasetKind kind = llm::DatasetKind::sft;
  std::string out, archive, prompts, index, target, of;
  std::vector<std::string> tasks;
  llm::DatasetOptions options;
};

// Those that are named, else the ones that ship or lie here.
Result<std::vector<task::Task>> known_tasks(const std::vector<std::string>& named) {
  std::vector<std::filesystem::path> directories(named.begin(), named.end());
  if (named.empty()) {
    for (const std::filesystem::path& place :
         {std::filesystem::path("tasks"), executable_dir() / "tasks", executable_dir() / "../share/warpsmith/tasks"}) {
      std::error_code ignored;
      for (const auto& entry : std::filesystem::directory_iterator(place, ignored)) {
        if (std::filesystem::exists(entry.path() / "task.toml")) directories.push_back(entry.path());
      }
    }
  }
  return task::load_tasks(directories);
}

Result<llm::Dataset> make_rows(const LanguageArguments& arguments, Archive& archive, llm::TextIndex* index) {
  llm::DatasetRows rows(arguments.options);
  if (arguments.of != "tasks") {
    const auto prompts = llm::Prompts::find(arguments.prompts);
    if (!prompts) return prompts.error();
    const Status added = llm::add_problems(rows, arguments.kind, archive, *prompts, index, arguments.options);
    if (!added) return added.error();
  }
  const auto scopes = archive.task_scopes();
  if (!scopes) return scopes.error();
  if (arguments.of != "products" && !scopes->empty()) {
    const auto prompts = task::TaskPrompts::find(arguments.prompts);
    if (!prompts) return prompts.error();
    const auto tasks = known_tasks(arguments.tasks);
    if (!tasks) return tasks.error();
    const auto unknown = task::add_tasks(rows, arguments.kind, archive, *tasks, *prompts, index, arguments.options);
    if (!unknown) return unknown.error();
    for (const std::string& identity : *unknown) {
      fmt::print(stderr, "warpsmith: task {} is in no directory of --tasks as it was measured; left out\n", identity);
    }
  }
  return std::move(rows).take();
}

Result<int> export_dataset(LanguageArguments arguments) {
  const std::filesystem::path path =
      arguments.archive.empty() ? data_dir() / "archive.sqlite" : std::filesystem::path(arguments.archive);
  if (!std::filesystem::exists(path)) return bad_input(fmt::format("there is no archive {}", path.string()));
  if (!arguments.target.empty()) {
    const auto target = parse_target(arguments.target);
    if (!target) return target.error();
    arguments.options.target = *target;
  }
  auto archive = Archive::open(path);
  if (!archive) return archive.error();
  std::unique_ptr<llm::TextIndex> index;
  const std::filesystem::path index_path =
      arguments.index.empty() ? llm::default_index_path() : std::filesystem::path(arguments.index);
  if (!arguments.index.empty() && !std::filesystem::exists(index_path)) {
    return bad_input(fmt::format("there is no index {}", index_path.string()));
  }
  if (arguments.kind == llm::DatasetKind::pretrain && std::filesystem::exists(index_path)) {
    auto opened = llm::TextIndex::open(index_path);
    if (!opened) return opened.error();
    index = std::move(*opened);
  }
  const auto dataset = make_rows(arguments, **archive, index.get());
  if (!dataset) return dataset.error();
  if (dataset->train.empty() && dataset->held_out.empty()) {
    const std::string of = arguments.of == "all" ? "" : fmt::format(" of {} (--of {})", arguments.of, arguments.of);
    return bad_input(fmt::format("the archive{} holds nothing for data set {}{}", index ? " and the index" : "",
                                 to_string(arguments.kind), of));
  }
  if (const Status status = llm::write_dataset(*dataset, arguments.out); !status) return status.error();
  fmt::print(
      "{}: {} rows; {}: {} rows of held-out problems; {} duplicates and {} kernels of too long a source left out\n",
      arguments.out, dataset->train.size(), llm::held_out_path(arguments.out).string(), dataset->held_out.size(),
      dataset->duplicates, dataset->too_long);
  return kExitOk;
}

void add_one(CLI::App& dataset, Run& run, llm::DatasetKind kind, const char* meaning) {
  auto arguments = std::make_shared<LanguageArguments>();
  arguments->kind = kind;
  CLI::App* command = dataset.add_subcommand(std::string(to_string(kind)), meaning);
  command
      ->add_option("--out", arguments->out, "File to write (JSON lines); held-out problems go to NAME.held-out.jsonl")
      ->required();
  command->add_option("--archive", arguments->archive, "Archive file; default: archive.sqlite in the data directory");
  command->add_option("--target", arguments->target, "Only problems of this target");
  command->add_option("--held-out", arguments->options.held_out, "Share of the problems that is held out")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--per-problem", arguments->options.per_problem, "Rows of a problem")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  arguments->of = kind == llm::DatasetKind::prompts ? "products" : "all";
  command->add_option("--of", arguments->of, "Attempts at matrix products, at tasks, or at all of them")
      ->check(CLI::IsMember({"products", "tasks", "all"}))
      ->capture_default_str();
  command
      ->add_option("--tasks", arguments->tasks,
                   "Directory of a task or of several, to know what was asked; repeatable. Default: those that ship")
      ->allow_extra_args(false);
  command->add_option("--llm-prompts", arguments->prompts, "Directory of prompt templates");
  command->add_option("--seed", arguments->options.seed, "Of the split and of the exemplars")->capture_default_str();
  if (kind == llm::DatasetKind::preference) {
    command->add_option("--least-ratio", arguments->options.least_ratio, "Least ratio of the times of a pair")
        ->check(CLI::Range(1.0, 1e6))
        ->capture_default_str();
  }
  if (kind == llm::DatasetKind::pretrain) {
    command->add_option("--index", arguments->index, "Index (warpsmith index); default: the one in the data directory");
  }
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = export_dataset(*arguments);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace

void add_language_datasets(CLI::App& dataset, Run& run) {
  add_one(dataset, run, llm::DatasetKind::sft, "Chats that end with a fast kernel, for supervised fine-tuning");
  add_one(dataset, run, llm::DatasetKind::preference, "Prompts with a faster and a slower or failed answer");
  add_one(dataset, run, llm::DatasetKind::prompts, "Prompts alone, for reinforcement learning with the reward server");
  add_one(dataset, run, llm::DatasetKind::pretrain,
          "Instruction, retrieved context, code: of the archive and the index");
}

}  // namespace warpsmith::cli
