// Rows out of a task's scope: its history, its candidates' texts, the answers that held them.
#include "task/models/task_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "llm/session.h"
#include "report/table.h"
#include "task/optimize.h"

namespace warpsmith::task {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::size_t kExemplars = 2;

std::string unended(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// One scope of the archive with what rows are made of.
struct Record {
  Archive::Scope scope;
  const Task* task = nullptr;
  std::string problem;  // the task at its timed setting
  std::vector<AttemptSummary> history;
  std::vector<llm::Measured> kernels;  // accepted, fastest first
  double first_us = 0;                 // of the first accepted one
  std::map<std::string, std::string> replies;
};

class Maker {
 public:
  Maker(llm::DatasetRows& rows, Archive& archive, const TaskPrompts& prompts, llm::TextIndex* index,
        const llm::DatasetOptions& options)
      : rows_(rows), archive_(archive), prompts_(prompts), index_(index), options_(options) {}

  Status add(llm::DatasetKind kind, const Archive::Scope& scope, const Task& task);

 private:
  Result<Record> read(const Archive::Scope& scope, const Task& task);
  // The prompt that shows candidates slower than `than_us`, or any where that is 0.
  Result<json> prompt(const Record& record, double than_us, Rng& rng, std::vector<llm::Measured>* shown);
  // The answer that holds a candidate, in a model's own words where there are some. Nothing: its text is not known, or
  // too long.
  Result<std::optional<std::string>> answer(const Record& record, const std::string& name,
                                            const std::vector<llm::Measured>& shown);
  Result<std::optional<TaskCandidate>> candidate(const Record& record, const std::string& name);
  Status add_chats(const Record& record);
  Status add_pairs(const Record& record);
  Status add_pair(const Record& record, const llm::Measured& chosen, const std::string& rejected, const json& facts);
  Status add_prompts(const Record& record);
  Status add_kernels(const Record& record);
  void add_row(const Record& record, json row);

  llm::DatasetRows& rows_;
  Archive& archive_;
  const TaskPrompts& prompts_;
  llm::TextIndex* index_;
  const llm::DatasetOptions& options_;
};

void Maker::add_row(const Record& record, json row) {
  row["problem"] = record.problem;
  row["task"] = record.task->identity;
  row["target"] = to_string(record.scope.target);
  rows_.add(std::move(row), "task " + record.task->name);
}

Result<Record> Maker::read(const Archive::Scope& scope, const Task& task) {
  Record record;
  record.scope = scope;
  record.task = &task;
  record.problem = instance_of(task, task.timed_on(scope.target)).describe();
  auto history = archive_.summaries(scope);
  if (!history) return history.error();
  record.history = std::move(*history);
  for (const AttemptSummary& attempt : record.history) {
    if (attempt.cold_us && record.first_us == 0) record.first_us = *attempt.cold_us;
  }
  record.kernels = llm::accepted_kernels(record.history, record.first_us);
  const auto exchanges = archive_.exchanges(scope);
  if (!exchanges) return exchanges.error();
  for (const ExchangeRecord& exchange : *exchanges) {
    if (!exchange.name.empty()) record.replies.emplace(exchange.name, exchange.reply);
  }
  return record;
}

Result<std::optional<TaskCandidate>> Maker::candidate(const Record& record, const std::string& name) {
  return find_candidate(*record.task, archive_, {}, name);
}

Result<json> Maker::prompt(const Record& record, double than_us, Rng& rng, std::vector<llm::Measured>* shown) {
  std::vector<AttemptSummary> slower;
  for (const AttemptSummary& attempt : record.history) {
    if (attempt.kind == "wrong" || !attempt.cold_us || *attempt.cold_us > than_us) slower.push_back(attempt);
  }
  std::vector<ShownCandidate> exemplars;
  for (const llm::Measured& one : llm::draw_exemplars(slower, record.first_us, kExemplars, {}, rng)) {
    const auto found = candidate(record, one.name);
    if (!found) return found.error();
    if (!*found) continue;
    exemplars.push_back({(*found)->form.source, (*found)->descriptor, one.time_us, one.speedup});
    if (shown != nullptr) shown->push_back(one);
  }
  return llm::messages_to_json(
      propose(prompts_, *record.task, record.scope.target, record.scope.machine, exemplars, {}));
}

Result<std::optional<std::string>> Maker::answer(const Record& record, const std::string& name,
                                                 const std::vector<llm::Measured>& shown) {
  using Answer = std::optional<std::string>;
  if (const auto reply = record.replies.find(name); reply != record.replies.end()) return Answer(reply->second);
  const auto found = candidate(record, name);
  if (!found) return found.error();
  if (!*found) return Answer();
  if ((*found)->form.source.size() > options_.max_source_bytes) {
    rows_.leave_out_too_long();
    return Answer();
  }
  std::string analysis = "No kernel was measured before; this one is a first guess from sizes and hardware.";
  if (shown.size() >= 2) {
    const llm::Measured &slow = shown.front(), &fast = shown.back();
    analysis = fmt::format("Kernel {} is {:.2f} times as fast as kernel 1 ({} us, {} us).", shown.size(),
                           slow.time_us / fast.time_us, significant(fast.time_us), significant(slow.time_us));
  }
  std::string design = fmt::format("The candidate {}", (*found)->form.name);
  for (const auto& [macro, value] : (*found)->chosen) design += fmt::format(", {} = {}", macro, value);
  const bool cuda = is_cuda(record.scope.target);
  json descriptor = chosen_descriptor(**found);
  descriptor["source"] = cuda ? "answer.cu" : "answer.cpp";
  const std::string code = fmt::format("```{}\n{}\n```\n```json\n{}\n```", cuda ? "cuda" : "cpp",
                                       unended((*found)->form.source), descriptor.dump(2));
  return Answer(llm::written_answer(analysis, design + ".", code));
}

Status Maker::add_chats(const Record& record) {
  for (std::size_t i = 0; i < std::min(record.kernels.size(), options_.per_problem); ++i) {
    const llm::Measured& kernel = record.kernels[i];
    Rng rng(options_.seed ^ hash64(kernel.name));
    std::vector<llm::Measured> shown;
    auto chat = prompt(record, kernel.time_us, rng, &shown);
    if (!chat) return chat.error();
    const auto text = answer(record, kernel.name, shown);
    if (!text) return text.error();
    if (!*text) continue;
    chat->push_back(llm::chat_message("assistant", **text));
    add_row(record, {{"messages", std::move(*chat)}, {"time_us", kernel.time_us}});
  }
  return ok_status();
}

Status Maker::add_pair(const Record& record, const llm::Measured& chosen, const std::string& rejected,
                       const json& facts) {
  Rng rng(options_.seed ^ hash64(chosen.name + rejected));
  std::vector<llm::Measured> shown;
  const auto messages = prompt(record, chosen.time_us, rng, &shown);
  if (!messages) return messages.error();
  const auto good = answer(record, chosen.name, shown), bad = answer(record, rejected, shown);
  if (!good) return good.error();
  if (!bad) return bad.error();
  if (!*good || !*bad) return ok_status();
  json row = {{"prompt", *messages},
              {"chosen", json::array({llm::chat_message("assistant", **good)})},
              {"rejected", json::array({llm::chat_message("assistant", **bad)})},
              {"chosen_us", chosen.time_us}};
  row.update(facts);
  add_row(record, std::move(row));
  return ok_status();
}

// Each fast one against its mirror image in the list, where that is slower by the ratio, and against one that failed.
Status Maker::add_pairs(const Record& record) {
  std::vector<std::pair<std::string, std::string>> failed;  // name, verdict
  for (const AttemptSummary& attempt : record.history) {
    const bool bad = attempt.kind == "wrong" || attempt.kind == "compile-error" || attempt.kind == "crashed" ||
                     attempt.kind == "timed-out";
    const bool accepted = std::any_of(record.kernels.begin(), record.kernels.end(),
                                      [&](const llm::Measured& kernel) { return kernel.name == attempt.recipe; });
    if (bad && !accepted) failed.emplace_back(attempt.recipe, attempt.kind);
  }
  for (std::size_t i = 0; i < std::min(record.kernels.size(), options_.per_problem); ++i) {
    const llm::Measured& chosen = record.kernels[i];
    const std::size_t mirror = record.kernels.size() - 1 - i;
    if (mirror > i && record.kernels[mirror].time_us >= chosen.time_us * options_.least_ratio) {
      const llm::Measured& slower = record.kernels[mirror];
      const Status added = add_pair(record, chosen, slower.name, {{"rejected_us", slower.time_us}});
      if (!added) return added;
    }
    if (i >= failed.size()) continue;
    const Status added = add_pair(record, chosen, failed[i].first, {{"rejected_verdict", failed[i].second}});
    if (!added) return added;
  }
  return ok_status();
}

Status Maker::add_prompts(const Record& record) {
  for (std::size_t i = 0; i < options_.per_problem; ++i) {
    Rng rng(options_.seed ^ hash64(fmt::format("{}/{}", record.problem, i)));
    const auto messages = prompt(record, 0, rng, nullptr);
    if (!messages) return messages.error();
    add_row(record, {{"prompt", *messages},
                     {"label", record.problem},
                     {"data_source", "warpsmith"},
                     {"ability", "code"},
                     {"reward_model", {{"style", "rule"}, {"ground_truth", record.problem}}},
                     {"extra_info", {{"problem", record.problem}, {"target", to_string(record.scope.target)}}}});
  }
  return ok_status();
}

Status Maker::add_kernels(const Record& record) {
  for (std::size_t i = 0; i < std::min(record.kernels.size(), options_.per_problem); ++i) {
    const auto found = candidate(record, record.kernels[i].name);
    if (!found) return found.error();
    if (!*found) continue;
    if ((*found)->form.source.size() > options_.max_source_bytes) {
      rows_.leave_out_too_long();
      continue;
    }
    const std::string instruction = fmt::format("Write a {} kernel for the task {}: {}. It is timed at {}, on {}.",
                                                is_cuda(record.scope.target) ? "CUDA" : "C++", record.task->name,
                                                record.task->about, record.problem, record.scope.machine.name);
    // As the rows of the index have it: no column of the others.
    rows_.add({{"instruction", instruction},
               {"context", llm::retrieved_context(index_, instruction, {})},
               {"code", (*found)->form.source},
               {"place", "archive:" + record.problem}},
              "task " + record.task->name);
  }
  return ok_status();
}

Status Maker::add(llm::DatasetKind kind, const Archive::Scope& scope, const Task& task) {
  const auto record = read(scope, task);
  if (!record) return record.error();
  switch (kind) {
    case llm::DatasetKind::sft:
      return add_chats(*record);
    case llm::DatasetKind::preference:
      return add_pairs(*record);
    case llm::DatasetKind::prompts:
      return add_prompts(*record);
    case llm::DatasetKind::pretrain:
      return add_kernels(*record);
  }
  return ok_status();
}

}  // namespace

Result<std::vector<Task>> load_tasks(const std::vector<fs::path>& directories) {
  std::vector<fs::path> paths;
  for (const fs::path& directory : directories) {
    if (fs::exists(directory / "task.toml")) {
      paths.push_back(directory);
      continue;
    }
    std::error_code error;
    const std::size_t before = paths.size();
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (fs::exists(entry.path() / "task.toml")) paths.push_back(entry.path());
    }
    if (paths.size() == before) {
      return bad_input(fmt::format("{}: neither a task nor a directory of tasks (NAME/task.toml)", directory.string()));
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Task> tasks;
  for (const fs::path& path : paths) {
    auto task = load_task(path);
    if (!task) return task.error();
    tasks.push_back(std::move(*task));
  }
  return tasks;
}

Result<std::set<std::string>> add_tasks(llm::DatasetRows& rows, llm::DatasetKind kind, Archive& archive,
                                        const std::vector<Task>& tasks, const TaskPrompts& prompts,
                                        llm::TextIndex* index, const llm::DatasetOptions& options) {
  const auto scopes = archive.task_scopes();
  if (!scopes) return scopes.error();
  std::set<std::string> unknown;
  Maker maker(rows, archive, prompts, index, options);
  for (const Archive::Scope& scope : *scopes) {
    if (options.target && scope.target != *options.target) continue;
    const auto task =
        std::find_if(tasks.begin(), tasks.end(), [&](const Task& one) { return one.identity == scope.task; });
    if (task == tasks.end()) {
      unknown.insert(scope.task);
      continue;
    }
    if (const Status added = maker.add(kind, scope, *task); !added) return added.error();
  }
  return unknown;
}

}  // namespace warpsmith::task
