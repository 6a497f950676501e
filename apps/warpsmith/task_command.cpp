// Tasks on the command line: opening one on a device, searching, measuring, and what is printed of it.
#include "task_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "archive/archive.h"
#include "base/file.h"
#include "base/paths.h"
#include "devices.h"
#include "progress.h"
#include "report/speedup.h"
#include "report/table.h"
#include "task/finish.h"
#include "task/models/model_search.h"
#include "task/optimize.h"
#include "task_baselines.h"

namespace warpsmith::cli {

namespace fs = std::filesystem;
using task::Task;
using task::TaskCandidate;
using task::TaskSession;

namespace {

constexpr double kFinalSeconds = 1;
const SanitizerOptions kSanitizer{.seconds = 45};  // watched kernels of tasks run for moments

struct OpenTask {
  std::unique_ptr<TaskSession> session;
  std::vector<TaskCandidate> candidates;
  const Task& task() const { return session->task(); }
  std::string timed_setting() const {
    const int timed = task().timed_on(session->target());
    return task::describe(task(), task().settings[static_cast<std::size_t>(timed)]);
  }
};

Result<OpenTask> open_task(const std::string& path, const OpenDevice& device, const TaskArguments& arguments) {
  auto loaded = task::load_task(path);
  if (!loaded) return loaded.error();
  OpenTask open;
  if (arguments.candidates.empty()) {
    auto found = task::load_candidates(*loaded, loaded->directory / "candidates", device.target);
    if (!found) return found.error();
    open.candidates = std::move(*found);
  }
  for (const std::string& file : arguments.candidates) {
    auto one = task::load_candidate_file(*loaded, file);
    if (!one) return one.error();
    open.candidates.push_back(std::move(*one));
  }
  task::SessionOptions options;
  options.evaluator.target = device.target;
  options.evaluator.threads = device.threads;
  options.evaluator.device = arguments.device.device;
  options.evaluator.seed = arguments.seed;
  // Data of large settings and their references are made on the host, many of them between the batches.
  options.evaluator.limits.timing_seconds = 180;
  options.compiler.cache = cache_dir();
  options.confined = !arguments.no_sandbox;
  auto session = TaskSession::open(std::move(*loaded), options);
  if (!session) return session.error();
  open.session = std::move(*session);
  return open;
}

// The candidate as files that `bench --task` takes, its macros at the values that were chosen.
Result<fs::path> write_winner(const OpenTask& open, const TaskCandidate& winner, const fs::path& directory) {
  nlohmann::json descriptor = task::chosen_descriptor(winner);
  const std::string stem = fmt::format("{}-{}", open.task().name, to_string(open.session->target()));
  fs::path source = directory / (stem + (winner.form.language == Language::cuda ? ".cu" : ".cpp"));
  descriptor["source"] = source.filename().string();
  if (const Status written = write_file_atomic(source, winner.form.source); !written) return written.error();
  const Status written = write_file_atomic(directory / (stem + ".json"), descriptor.dump(2) + "\n");
  if (!written) return written.error();
  return source;
}

std::string verdicts_text(const std::map<std::string, std::int64_t>& by_kind) {
  std::string text;
  for (const auto& [kind, count] : by_kind) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  return text.empty() ? "none" : text;
}

struct Searched {
  task::OptimizeTaskResult search;
  std::optional<llm::SessionReport> models;  // of policy llm
  std::optional<task::TaskConclusion> conclusion;
  std::string why_none;  // of the conclusion; empty: nothing was accepted, or the search was interrupted
  std::string source;
};

void print(const llm::SessionReport& report) {
  fmt::print("models      {} requests, {} answers, {} without a candidate, {} known before; {} of {} repaired\n",
             report.spent.requests, report.answers, report.malformed, report.known, report.repaired, report.repairs);
  if (!report.last_malformed.empty()) fmt::print("            last answer without one: {}\n", report.last_malformed);
  if (report.leaps > 0) fmt::print("            {} leaps checked, {} not believed\n", report.leaps, report.hacks);
  for (const auto& [kind, count] : report.failures) fmt::print("            {} x {}\n", count, kind);
  if (!report.stopped.empty()) fmt::print("            ended early: {}\n", report.stopped);
}

std::string times_text(const Measurement& measured) {
  std::string text = significant(measured.cold.median_us) + " us cold";
  if (measured.warm.samples > 0) text += fmt::format(", {} us warm", significant(measured.warm.median_us));
  return text;
}

void print(const OpenTask& open, const Searched& result) {
  fmt::print("task        {} at {}\n", open.task().name, open.timed_setting());
  fmt::print("device      {}\n", open.session->machine().name);
  if (result.conclusion) {
    const Measurement& measured = result.conclusion->verdict.accepted()->measurement;
    fmt::print("best        {}: {}", result.conclusion->winner.short_name(), times_text(measured));
    if (result.search.first_us > 0) {
      fmt::print("; {:.2f}x the first candidate of this search", result.search.first_us / measured.cold.median_us);
    }
    fmt::print("\n");
    if (is_cuda(open.session->target())) fmt::print("sanitizer   {}\n", result.conclusion->sanitizer.describe());
  } else {
    fmt::print("best        {}\n", result.why_none.empty() ? "none" : "none holds: " + result.why_none);
  }
  fmt::print("candidates  {} tried now, {} known before; {}{}\n", result.search.tried, result.search.resumed,
             verdicts_text(result.search.by_kind), result.search.exhausted ? "; nothing is left to try" : "");
  if (result.models) print(*result.models);
  if (!result.source.empty()) fmt::print("source      {}\n", result.source);
}

nlohmann::json to_json(const OpenTask& open, const Searched& result) {
  nlohmann::json json = {{"task", open.task().name},
                         {"identity", open.task().identity},
                         {"setting", open.timed_setting()},
                         {"machine", open.session->machine()},
                         {"tried", result.search.tried},
                         {"resumed", result.search.resumed},
                         {"verdicts", result.search.by_kind},
                         {"exhausted", result.search.exhausted},
                         {"interrupted", result.search.interrupted},
                         {"source", result.source}};
  if (result.conclusion) {
    json["candidate"] = result.conclusion->winner.short_name();
    json["verdict"] = result.conclusion->verdict;
    json["sanitizer"] = result.conclusion->sanitizer;
  }
  if (!result.why_none.empty()) json["why_none"] = result.why_none;
  if (result.models) json["models"] = llm::to_json(*result.models);
  return json;
}

// --- bench ---

struct Measured {
  std::string name;
  Verdict verdict;
  double cold_us() const { return verdict.accepted()->measurement.cold.median_us; }
};

// The fastest accepted one; measured.size(): there is none.
std::size_t fastest_of(const std::vector<Measured>& measured) {
  std::size_t best = measured.size();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].verdict.accepted() == nullptr) continue;
    if (best == measured.size() || measured[i].cold_us() < measured[best].cold_us()) best = i;
  }
  return best;
}

struct TaskRow {
  nlohmann::json json;
  std::map<std::string, double> speedups;  // by baseline, of the fastest candidate
  bool accepted = false;
};

TaskRow row_of(const OpenTask& open, const std::vector<Measured>& measured, const nlohmann::json& baselines) {
  TaskRow row;
  row.json = {{"task", open.task().name}, {"identity", open.task().identity}, {"setting", open.timed_setting()}};
  auto list = nlohmann::json::array();
  for (const Measured& one : measured) {
    const auto* accepted = one.verdict.accepted();
    list.push_back({{"candidate", one.name},
                    {"kind", one.verdict.kind()},
                    {"verdict", one.verdict.describe()},
                    {"gates", one.verdict.gates.size()}});
    if (accepted != nullptr) list.back()["measurement"] = accepted->measurement;
  }
  row.json["candidates"] = std::move(list);
  row.json["baselines"] = baselines;
  const std::size_t best = fastest_of(measured);
  row.accepted = best < measured.size();
  if (!row.accepted) return row;
  const Measurement& ours = measured[best].verdict.accepted()->measurement;
  row.json["best"] = {
      {"candidate", measured[best].name}, {"cold_us", ours.cold.median_us}, {"warm_us", ours.warm.median_us}};
  if (!baselines.contains("subjects")) return row;
  std::map<std::string, double> warm;
  for (const auto& subject : baselines["subjects"]) {
    const auto name = subject["subject"].get<std::string>();
    const auto ratio = [&](const char* series, const TimingStats& stats) {
      return subject[series]["median_us"].get<double>() / stats.median_us;
    };
    if (subject.contains("cold")) row.speedups[name] = ratio("cold", ours.cold);
    if (subject.contains("warm")) warm[name] = ratio("warm", ours.warm);
  }
  row.json["speedups"] = row.speedups;
  row.json["warm_speedups"] = warm;
  return row;
}

void print(const OpenTask& open, const std::vector<Measured>& measured, const TaskRow& row) {
  fmt::print("{} at {}\n", open.task().name, open.timed_setting());
  for (const Measured& one : measured) {
    const auto* accepted = one.verdict.accepted();
    fmt::print("  {:<28} {}\n", one.name,
               accepted == nullptr ? one.verdict.describe() : times_text(accepted->measurement));
  }
  if (row.json.contains("sanitizer")) {
    fmt::print("  {:<28} {}\n", "sanitizer", row.json["sanitizer"]["text"].get<std::string>());
  }
  const auto& baselines = row.json["baselines"];
  if (baselines.contains("not_run")) fmt::print("  baselines not run: {}\n", baselines["not_run"].get<std::string>());
  if (!baselines.contains("subjects")) return;
  for (const auto& subject : baselines["subjects"]) {
    const auto name = subject["subject"].get<std::string>();
    if (subject.contains("cold")) {
      const auto found = row.speedups.find(name);
      fmt::print("  {:<28} {} us cold{}{}\n", name, significant(subject["cold"]["median_us"].get<double>()),
                 subject.contains("warm")
                     ? fmt::format(", {} us warm", significant(subject["warm"]["median_us"].get<double>()))
                     : "",
                 found == row.speedups.end() ? "" : fmt::format("; ours is {:.2f}x as fast", found->second));
    } else {
      fmt::print("  {:<28} not run: {}\n", name, subject.value("not_run", ""));
    }
  }
}

// Over all tasks, of each baseline.
Result<Table> summary_of(const std::vector<TaskRow>& rows) {
  std::map<std::string, std::vector<double>> ratios;
  for (const TaskRow& row : rows) {
    for (const auto& [baseline, ratio] : row.speedups) ratios[baseline].push_back(ratio);
  }
  using Style = Column::Style;
  Table table("Speed-ups over the baselines", {{"baseline", "baseline", "", Style::text},
                                               {"count", "tasks", "", Style::number},
                                               {"mean", "mean", "", Style::fixed, 3},
                                               {"median", "median", "", Style::fixed, 3},
                                               {"max", "maximum", "", Style::fixed, 3},
                                               {"min", "minimum", "", Style::fixed, 3},
                                               {"share_above_1.01", "above 1.01x", "%", Style::percent, 0}});
  for (const auto& [baseline, list] : ratios) {
    const auto statistics = speedup_statistics(list);
    if (!statistics) return statistics.error();
    table.add({baseline, std::int64_t{statistics->count}, statistics->mean, statistics->median, statistics->max,
               statistics->min, statistics->clear_win_rate});
  }
  return table;
}

Result<TaskRow> bench_one(const std::string& path, const OpenDevice& device, const TaskArguments& arguments,
                          double effort_seconds) {
  auto open = open_task(path, device, arguments);
  if (!open) return open.error();
  if (open->candidates.empty()) {
    return bad_input(fmt::format("{}: no candidates for this target; give one with --candidate", path));
  }
  ProgressLine line(arguments.quiet);
  TimingEffort effort;
  effort.seconds = effort_seconds;
  effort.min_samples = 15;
  std::vector<Measured> measured;
  for (const TaskCandidate& candidate : open->candidates) {
    if (interrupted()) break;
    line.update(static_cast<double>(measured.size()) / static_cast<double>(open->candidates.size()),
                open->task().name + ": " + candidate.short_name());
    measured.push_back({candidate.short_name(), open->session->evaluate(candidate, 0, effort).verdict});
    if (const auto* failed = std::get_if<verdict::Failed>(&measured.back().verdict.outcome)) {
      return environment_error(fmt::format("{}: {}", open->task().name, failed->reason));
    }
  }
  std::optional<SanitizerReport> watched;
  if (const std::size_t best = fastest_of(measured); arguments.sanitize && !interrupted() && best < measured.size()) {
    line.update(-1, open->task().name + ": compute-sanitizer");
    watched = open->session->sanitize(open->candidates[best], kSanitizer);
    if (const SanitizerCheck* failed = watched->first_failure()) {
      Verdict& verdict = measured[best].verdict;
      verdict.gates.push_back({"sanitizer/" + failed->tool, false, failed->detail, 0});
      verdict.outcome = verdict::Wrong{verdict.gates.back()};
    }
  }
  nlohmann::json baselines = {{"not_run", "--torch was not given"}};
  if (arguments.torch && !interrupted()) {
    line.update(-1, open->task().name + ": PyTorch");
    baselines = measure_task_baselines(open->task(), open->session->target(),
                                       {effort_seconds, arguments.seed, arguments.device.device});
  }
  line.clear();
  TaskRow row = row_of(*open, measured, baselines);
  if (watched) {
    row.json["sanitizer"] = *watched;
    row.json["sanitizer"]["text"] = watched->describe();
  }
  if (!arguments.json) print(*open, measured, row);
  return row;
}

using OnProgress = std::function<void(const task::TaskProgress&)>;

task::ModelSearchOptions model_options(const TaskArguments& arguments, LlmSearch& llm, double budget_seconds) {
  task::ModelSearchOptions options;
  options.models = llm.models();
  options.temperature = arguments.llm->temperature;
  options.max_tokens = arguments.llm->max_tokens;
  options.limits = arguments.llm->limits;
  options.exemplars = static_cast<std::size_t>(arguments.llm->exemplars);
  options.first = arguments.llm->first_recipes;
  options.seed = arguments.seed;
  options.budget_seconds = budget_seconds;
  options.max_candidates = arguments.max_candidates;
  options.index = llm.index();
  options.passages = static_cast<std::size_t>(arguments.llm->passages);
  options.retrieve = arguments.llm->retrieve;
  options.checker = llm.checker();
  options.checker_model = llm.checker_model();
  return options;
}

// Candidates and the values of their macros, or what language models write.
Result<Searched> search_task(const OpenTask& open, const TaskArguments& arguments, LlmSearch* llm,
                             const std::optional<task::TaskPrompts>& prompts, double budget_seconds, Archive& archive,
                             const OnProgress& show) {
  Searched result;
  if (llm == nullptr) {
    task::OptimizeTaskOptions options;
    options.seed = arguments.seed;
    options.budget_seconds = budget_seconds;
    options.max_candidates = arguments.max_candidates;
    auto search = task::optimize_task(*open.session, open.candidates, archive, options, show, interrupted());
    if (!search) return search.error();
    result.search = std::move(*search);
    return result;
  }
  const task::ModelSearchOptions options = model_options(arguments, *llm, budget_seconds);
  auto search = task::search_with_models(*open.session, open.candidates, options, *prompts, llm->client(), archive,
                                         show, interrupted());
  if (!search) return search.error();
  result.search = std::move(search->search);
  result.models = std::move(search->report);
  return result;
}

// Finalists again, the sanitizer, the winner's files.
Status finish_task(const OpenTask& open, const TaskArguments& arguments, Archive& archive, ProgressLine& line,
                   Searched& result) {
  task::FinishOptions options;
  options.seconds = kFinalSeconds;
  options.seed = arguments.seed;
  options.sanitize = [&](const TaskCandidate& candidate) {
    return arguments.sanitize ? open.session->sanitize(candidate, kSanitizer) : sanitizer_not_run("not asked for");
  };
  auto conclusion = task::finish(*open.session, archive, open.candidates, options,
                                 [&](const std::string& step) { line.update(-1, step); });
  if (!conclusion && conclusion.error().kind != ErrorKind::failed) return conclusion.error();
  if (!conclusion) {
    result.why_none = conclusion.error().message;
    return ok_status();
  }
  result.conclusion = std::move(*conclusion);
  const fs::path kernels = arguments.kernels.empty() ? data_dir() / "kernels" : fs::path(arguments.kernels);
  const auto source = write_winner(open, result.conclusion->winner, kernels);
  if (!source) return source.error();
  result.source = source->string();
  return ok_status();
}

}  // namespace

Result<int> optimize_task_command(const TaskArguments& arguments) {
  const auto budget = parse_duration(arguments.budget);
  if (!budget) return budget.error();
  auto device = open_device(arguments.device, arguments.seed);
  if (!device) return device.error();
  device->evaluator.reset();  // tasks have workers of their own
  std::unique_ptr<LlmSearch> llm;
  std::optional<task::TaskPrompts> prompts;
  if (arguments.llm) {
    auto prepared = LlmSearch::prepare(*arguments.llm);
    if (!prepared) return prepared.error();
    llm = std::move(*prepared);
    auto found = task::TaskPrompts::find(arguments.llm->prompts);
    if (!found) return found.error();
    prompts = std::move(*found);
  }
  auto archive = Archive::open(arguments.archive.empty() ? data_dir() / "archive.sqlite" : fs::path(arguments.archive));
  if (!archive) return archive.error();
  auto report = nlohmann::json::array();
  int exit_code = kExitOk;
  for (const std::string& path : arguments.tasks) {
    auto open = open_task(path, *device, arguments);
    if (!open) return open.error();
    if (llm && arguments.llm->dry_run) {
      const auto messages = task::first_prompt(*open->session, model_options(arguments, *llm, *budget), *prompts);
      if (!messages) return messages.error();
      for (const llm::Message& message : *messages) {
        fmt::print("--- {}\n{}", message.role, message.content);
      }
      continue;
    }
    ProgressLine line(arguments.quiet);
    const auto show = [&](const task::TaskProgress& progress) {
      line.update(
          progress.elapsed_seconds / progress.budget_seconds,
          fmt::format("{} tried  {}", progress.tried,
                      progress.best_us ? fmt::format("best {} us  {}", significant(*progress.best_us), progress.best)
                                       : std::string("none accepted yet")));
    };
    auto searched = search_task(*open, arguments, llm.get(), prompts,
                                *budget / static_cast<double>(arguments.tasks.size()), **archive, show);
    if (!searched) return searched.error();
    Searched result = std::move(*searched);
    if (result.search.winner && !interrupted()) {
      if (const Status finished = finish_task(*open, arguments, **archive, line, result); !finished) {
        return finished.error();
      }
    }
    line.clear();
    if (arguments.json) {
      report.push_back(to_json(*open, result));
    } else {
      print(*open, result);
    }
    if (!result.conclusion) exit_code = kExitFailed;
    if (interrupted()) {
      exit_code = kExitInterrupted;
      break;
    }
  }
  const bool dry_run = arguments.llm && arguments.llm->dry_run;
  if (arguments.json && !dry_run) {
    fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return exit_code;
}

Result<int> bench_task_command(const TaskArguments& arguments) {
  const auto effort = parse_duration(arguments.effort);
  if (!effort) return effort.error();
  auto device = open_device(arguments.device, arguments.seed);
  if (!device) return device.error();
  Provenance provenance =
      provenance_of(*device, Compiler({.cache = cache_dir()}).versions(), "offline", arguments.seed);
  provenance.date = utc_now();
  device->evaluator.reset();
  std::vector<TaskRow> rows;
  for (const std::string& path : arguments.tasks) {
    auto row = bench_one(path, *device, arguments, *effort);
    if (!row) return row.error();
    rows.push_back(std::move(*row));
    if (interrupted()) break;
  }
  const auto summary = summary_of(rows);
  if (!summary) return summary.error();
  if (arguments.json) {
    nlohmann::json json = {
        {"provenance", provenance}, {"tasks", nlohmann::json::array()}, {"summary", summary->json()}};
    if (interrupted()) json["interrupted"] = true;
    for (TaskRow& row : rows) json["tasks"].push_back(std::move(row.json));
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (summary->size() > 0) {
    fmt::print("{}", summary->text());
  }
  if (interrupted()) return kExitInterrupted;
  const bool all = std::all_of(rows.begin(), rows.end(), [](const TaskRow& row) { return row.accepted; });
  return all ? kExitOk : kExitFailed;
}

}  // namespace warpsmith::cli
