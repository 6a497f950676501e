// `warpsmith survey`: the best known kernels of many shapes beside every baseline, both layouts of a shape in one run.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "archive/archive.h"
#include "base/file.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli.h"
#include "compile/compile.h"
#include "devices.h"
#include "evaluate/survey.h"
#include "problem/grids.h"
#include "progress.h"
#include "report/csv.h"
#include "report/grid_summary.h"
#include "row_file.h"
#include "survey_kernels.h"
#include "survey_recipes.h"
#include "survey_tables.h"
#include "wisdom/wisdom.h"

namespace warpsmith::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostTries = 4;          // of a shape, each with another kernel or a new worker
constexpr int kQuietCpus = 2;          // of each device's host thread and worker; compilers stay off them
constexpr int kFewestCpusToShare = 8;  // with fewer, nothing is set aside
constexpr const char* kRowsSuffix = ".rows";

struct SurveyArguments {
  ProblemOptions problem;
  DeviceOptions device;
  std::string shapes_file, grid, gpus;
  std::string modes = "offline", effort = "10ms", limit;
  double precision = 0.5;  // percent
  double qps = 100;
  int arrivals = 100, jobs = 0;
  std::uint64_t seed = 1;
  std::string wisdom, write_wisdom, archive, choices, output;
  bool summarize = false, unmeasured = false, shuffle = false, resume = false, json = false, quiet = false;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string shape_text(const Problem& problem) { return fmt::format("{}x{}x{}", problem.m, problem.n, problem.k); }
std::string row_key(const nlohmann::json& row) {
  return fmt::format("{}x{}x{} {}", row.at("m").get<std::int64_t>(), row.at("n").get<std::int64_t>(),
                     row.at("k").get<std::int64_t>(), row.value("mode", std::string()));
}

// Nothing was measured.
bool is_empty(const SurveyReport& report) { return report.modes.empty() && report.accuracy.is_null(); }

// One shape: what is to be measured of it, with which kernels.
struct Job {
  Problem shape;
  std::vector<std::string> modes;  // those that are missing; empty once prepared: nothing to do
  std::vector<SurveyKernel> entrants;
  std::vector<std::string> call_subjects;
  nlohmann::json lost = nlohmann::json::object();  // of contests, by the winner's name
  std::string failed;                              // no kernel could be built
  bool prepared = false;
};

// A thread's work; a broken environment is an error like others.
template <class Body>
Status guarded(const Body& body) {
  try {
    return body();
  } catch (const EnvironmentError& error) {
    return environment_error(error.what());
  }
}

// PREFIX-summary.json, of the CSV files that are there; llm-shapes.csv stands beside them.
Status summarize(const std::string& prefix) {
  SurveyFiles files;
  const auto read = [](const std::filesystem::path& path, std::optional<CsvTable>& table) -> Status {
    if (!std::filesystem::exists(path)) return ok_status();
    const auto text = read_file(path);
    if (!text) return text.error();
    auto parsed = parse_csv(*text, path.string());
    if (!parsed) return parsed.error();
    table = std::move(*parsed);
    return ok_status();
  };
  const std::pair<std::filesystem::path, std::optional<CsvTable>*> parts[] = {
      {prefix + "-offline.csv", &files.offline},
      {prefix + "-call.csv", &files.call},
      {prefix + "-server.csv", &files.server},
      {prefix + "-accuracy.csv", &files.accuracy},
      {std::filesystem::path(prefix).parent_path() / "llm-shapes.csv", &files.llm}};
  for (const auto& [path, table] : parts) {
    if (const Status done = read(path, *table); !done) return done;
  }
  const auto summary = grid_summary(files);
  if (!summary) return summary.error();
  if (summary->empty()) return bad_input(fmt::format("there is no {}-offline.csv or other file of a survey", prefix));
  return write_file_atomic(prefix + "-summary.json", summary->dump(1) + "\n");
}

class SurveyCommand {
 public:
  explicit SurveyCommand(const SurveyArguments& arguments) : arguments_(arguments) {}
  Result<int> run();

 private:
  Status read_options();
  Result<std::vector<Problem>> shapes() const;
  Status open_files();
  void order_jobs(std::vector<Problem> list);

  Status prepare(Job& job);
  Status enter_chosen(Job& job, Layout layout);
  void use_rows(std::vector<ChosenRecipe>& chosen, const Problem& problem);
  void index_row(const nlohmann::json& row);
  bool is_current(const Job& job) const;
  const nlohmann::json* known_row(const Problem& shape, const std::string& mode) const;

  void build_loop();
  void device_loop(int device);
  Job* next_job();
  Status measure(Job& job, int device);
  SurveyRequest request_for(const Job& job) const;
  bool replace(Job& job, const SurveyReport& report);
  Status keep(const Job& job, const SurveyReport& report, int device);
  Status add(nlohmann::json row);
  Status write_files();
  void stop(const Error& error);
  bool over() const {
    return interrupted() || error_ || (limit_seconds_ > 0 && seconds_since(start_) > limit_seconds_);
  }

  const SurveyArguments& arguments_;
  const Clock::time_point start_ = Clock::now();
  double effort_seconds_ = 0, limit_seconds_ = 0;
  std::vector<std::string> modes_;
  std::vector<OpenDevice> devices_;
  Machine machine_;  // a copy: evaluators update theirs
  std::optional<Compiler> compiler_;
  std::optional<KernelBuilder> builder_;
  std::unique_ptr<Archive> archive_;
  std::optional<RecipeSource> source_;
  std::optional<BaselineChoiceFile> choices_;
  std::optional<RowFile> file_;

  std::vector<Job> jobs_;
  std::mutex mutex_;  // of all below, and of `prepared`
  std::condition_variable changed_;
  std::size_t next_build_ = 0, next_measure_ = 0, prepared_ = 0;
  std::size_t measured_ = 0, failed_ = 0, skipped_ = 0;
  std::optional<Error> error_;
  SurveyRows rows_;
  std::map<std::string, std::size_t> known_;  // row_key to the index of the latest row that did not fail
  std::map<std::string, std::vector<std::size_t>> offline_rows_;  // of those all of mode offline, by shape
  std::vector<WisdomEntry> wisdom_;
  std::map<std::string, double> seconds_;  // where devices' time went
  std::optional<ProgressLine> line_;
};

Status SurveyCommand::read_options() {
  const auto effort = parse_duration(arguments_.effort);
  if (!effort) return effort.error();
  effort_seconds_ = *effort;
  if (!arguments_.limit.empty()) {
    const auto limit = parse_duration(arguments_.limit);
    if (!limit) return limit.error();
    limit_seconds_ = *limit;
  }
  for (std::size_t start = 0; start <= arguments_.modes.size();) {
    const std::size_t end = std::min(arguments_.modes.find(',', start), arguments_.modes.size());
    const std::string mode = arguments_.modes.substr(start, end - start);
    start = end + 1;
    if (mode != kAccuracyMode && !parse_timing_mode(mode)) {
      return bad_input(fmt::format("unknown mode '{}'; accepted: offline, call, server, accuracy, with commas between",
                                   printable(mode)));
    }
    if (std::find(modes_.begin(), modes_.end(), mode) == modes_.end()) modes_.push_back(mode);
  }
  if (arguments_.output.empty())
    return bad_input("--output PREFIX is missing: PREFIX-offline.csv and so on are written");
  if (arguments_.summarize) return ok_status();
  if (arguments_.device.target.rfind("replay:", 0) == 0) return bad_input("recorded measurements hold no baselines");
  const auto rows = arguments_.output + kRowsSuffix;
  if (!arguments_.resume && std::filesystem::exists(rows)) {
    return bad_input(fmt::format("{} holds rows of an earlier run; --resume goes on with it, or remove it", rows));
  }
  return ok_status();
}

Result<std::vector<Problem>> SurveyCommand::shapes() const {
  const bool given = !arguments_.problem.shape_words.empty() || !arguments_.problem.mnk.empty();
  if (!arguments_.shapes_file.empty() + !arguments_.grid.empty() + given != 1) {
    return bad_input("give the shapes once: M N K, --shapes FILE or --grid cuda-l2");
  }
  ProblemOptions options = arguments_.problem;
  options.layout = "nn";
  if (options.scaled || !options.leading_dimensions.empty()) {
    return bad_input("a survey is of packed problems without scaling; --scaled and --ld go with bench");
  }
  auto list = [&]() -> Result<std::vector<Problem>> {
    if (given) return options.problems();
    const auto found = arguments_.grid.empty() ? load_shapes(arguments_.shapes_file) : named_grid(arguments_.grid);
    if (!found) return found.error();
    return options.problems_of(*found);
  }();
  if (!list) return list;
  std::set<std::string> seen;
  std::erase_if(*list, [&](const Problem& problem) { return !seen.insert(to_string(problem)).second; });
  if (list->empty()) return bad_input(fmt::format("{} holds no shape", arguments_.shapes_file));
  return list;
}

Status SurveyCommand::open_files() {
  const Target target = devices_.front().target;
  const int threads = devices_.front().threads;
  std::optional<Wisdom> wisdom;
  const auto load = [&](const std::string& path) -> Status {
    auto loaded = Wisdom::load(path);
    if (!loaded) return loaded.error();
    if (!loaded->header().same_machine(wisdom_header(machine_, target, threads))) {
      return bad_input(fmt::format("{} is of {} (target {}), and this is {} (target {})", path,
                                   loaded->header().machine, to_string(loaded->header().target), machine_.name,
                                   to_string(target)));
    }
    wisdom = std::move(*loaded);
    return ok_status();
  };
  if (!arguments_.wisdom.empty()) {
    if (const Status loaded = load(arguments_.wisdom); !loaded) return loaded;
  } else {
    const auto usual =
        std::filesystem::path("wisdom") / (wisdom_name(wisdom_header(machine_, target, threads)) + ".jsonl");
    if (std::filesystem::exists(usual)) {
      if (const Status loaded = load(usual.string()); !loaded) return loaded;
    }
  }
  const std::filesystem::path path =
      arguments_.archive.empty() ? data_dir() / "archive.sqlite" : std::filesystem::path(arguments_.archive);
  if (!arguments_.archive.empty() || std::filesystem::exists(path)) {
    if (!std::filesystem::exists(path)) return bad_input(fmt::format("there is no archive {}", path.string()));
    auto archive = Archive::open(path);
    if (!archive) return archive.error();
    archive_ = std::move(*archive);
  }
  source_.emplace(machine_, target, threads, std::move(wisdom), archive_.get(), arguments_.unmeasured);
  auto choices = BaselineChoiceFile::open(arguments_.choices, machine_);
  if (!choices) return choices.error();
  choices_ = std::move(*choices);
  const nlohmann::json identity = {{"warpsmith_survey", 1},
                                   {"device", machine_.name},
                                   {"target", to_string(target)},
                                   {"threads", threads},
                                   {"type", arguments_.problem.element},
                                   {"accumulator", arguments_.problem.accumulator},
                                   {"layout", arguments_.problem.layout},
                                   {"unmeasured", arguments_.unmeasured},
                                   {"effort", arguments_.effort},
                                   {"qps", arguments_.qps},
                                   {"arrivals", arguments_.arrivals}};
  auto file = RowFile::open(arguments_.output + kRowsSuffix, identity);
  if (!file) return file.error();
  for (const nlohmann::json& row : file->rows()) {
    index_row(row);
    rows_.push_back(row);
  }
  file_ = std::move(*file);
  return ok_status();
}

// Small ones first, so that those which heat the device follow one another; or shuffled: a run that is cut short is a
// sample then.
void SurveyCommand::order_jobs(std::vector<Problem> list) {
  std::stable_sort(list.begin(), list.end(), [](const Problem& x, const Problem& y) { return x.flops() < y.flops(); });
  if (arguments_.shuffle) std::shuffle(list.begin(), list.end(), std::mt19937_64(arguments_.seed));
  for (const Problem& problem : list) {
    Job job;
    job.shape = problem;
    jobs_.push_back(std::move(job));
  }
}

// Of the row that comes next.
void SurveyCommand::index_row(const nlohmann::json& row) {
  if (row.contains("failed")) return;
  known_[row_key(row)] = rows_.size();
  if (row.value("mode", std::string()) != "offline") return;
  const Problem shape{row.at("m").get<std::int64_t>(), row.at("n").get<std::int64_t>(),
                      row.at("k").get<std::int64_t>()};
  offline_rows_[shape_text(shape)].push_back(rows_.size());
}

const nlohmann::json* SurveyCommand::known_row(const Problem& shape, const std::string& mode) const {
  const auto found = known_.find(shape_text(shape) + " " + mode);
  return found == known_.end() ? nullptr : &rows_[found->second];
}

// The chosen kernel of one layout; the next ones stand by.
Status SurveyCommand::enter_chosen(Job& job, Layout layout) {
  Problem problem = job.shape;
  problem.layout = layout;
  auto found = source_->choose(problem);
  if (!found) return found.error();
  std::vector<ChosenRecipe>& chosen = *found;
  if (!arguments_.unmeasured) use_rows(chosen, problem);
  // A kernel that is to be chosen without measuring must not be chosen by measuring.
  const auto rivals = arguments_.unmeasured ? KernelBuilder::Rivals::none : KernelBuilder::Rivals::allowed;
  auto entrants = builder_->build_contest(problem, chosen, fmt::format("ours-{}", to_string(layout)), rivals);
  if (!entrants && entrants.error().kind == ErrorKind::environment) return entrants.error();
  if (entrants) {
    std::move(entrants->begin(), entrants->end(), std::back_inserter(job.entrants));
  } else {
    job.failed = entrants.error().message;
  }
  return ok_status();
}

// What a survey has measured stands instead of what a search found, which is the luckiest of many times.
void SurveyCommand::use_rows(std::vector<ChosenRecipe>& chosen, const Problem& problem) {
  const std::string name = fmt::format("ours-{}", to_string(problem.layout));
  const std::lock_guard lock(mutex_);
  const auto indices = offline_rows_.find(shape_text(problem));
  if (indices == offline_rows_.end()) return;
  for (const std::size_t index : indices->second) {
    const nlohmann::json& row = rows_[index];
    if (!row.at("ours").contains(name)) continue;
    const auto recipe = row.at("ours").at(name).value("recipe", std::string());
    const double time_us = fastest_us(row, name);
    for (ChosenRecipe& one : chosen) {
      if (time_us > 0 && to_string(one.recipe) == recipe) one.cold_us = time_us;
    }
  }
  const auto last_if_unknown = [](const ChosenRecipe& one) {
    return one.cold_us > 0 ? one.cold_us : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(chosen.begin(), chosen.end(), [&](const ChosenRecipe& x, const ChosenRecipe& y) {
    return last_if_unknown(x) < last_if_unknown(y);
  });
}

// The rows that are there are of the kernels that would be measured now, or of the winner of a contest with them.
bool SurveyCommand::is_current(const Job& job) const {
  const nlohmann::json* row = known_row(job.shape, "offline");
  if (row == nullptr) return false;
  return std::all_of(job.entrants.begin(), job.entrants.end(), [&](const SurveyKernel& one) {
    const auto is_it = [&](const nlohmann::json& known) {
      return known.value("source_hash", std::string()) == one.source_hash &&
             known.value("recipe", std::string()) == one.recipe;
    };
    const auto ours = row->at("ours").find(one.rival_of.empty() ? one.name : one.rival_of);
    if (ours == row->at("ours").end()) return false;
    const nlohmann::json lost = ours->value("lost", nlohmann::json::array());
    return is_it(*ours) || std::any_of(lost.begin(), lost.end(), is_it);
  });
}

Status SurveyCommand::prepare(Job& job) {
  std::vector<Layout> layouts = {Layout::nn, Layout::tn};
  if (arguments_.problem.layout != "both") {
    const auto layout = parse_layout(arguments_.problem.layout);
    if (!layout) return bad_input(layout.error().message + ", both");
    layouts = {*layout};
  }
  for (const Layout layout : layouts) {
    if (const Status entered = enter_chosen(job, layout); !entered) return entered;
  }
  if (!job.entrants.empty()) job.failed.clear();
  bool current = false;
  std::optional<nlohmann::json> offline;
  {
    const std::lock_guard lock(mutex_);
    current = is_current(job);
    if (current) offline = *known_row(job.shape, "offline");
    for (const std::string& mode : modes_) {
      if (!current || known_row(job.shape, mode) == nullptr) job.modes.push_back(mode);
    }
  }
  if (job.modes.empty()) {
    job.entrants.clear();
    return ok_status();
  }
  if (current) {
    job.call_subjects = faster_subjects(*offline);
    auto entrants = entrants_of(*offline, job.call_subjects, job.shape, *builder_);
    if (!entrants) return entrants.error();
    job.entrants = std::move(*entrants);
    return ok_status();
  }
  // Calls are made in the layouts that are faster offline.
  if (std::find(job.modes.begin(), job.modes.end(), "offline") == job.modes.end()) {
    job.modes.insert(job.modes.begin(), "offline");
  }
  if (is_cuda(devices_.front().target)) builder_->add_variants(job.entrants);
  return ok_status();
}

void SurveyCommand::stop(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = error;
  changed_.notify_all();
}

// Compilers keep off the CPUs that launch and time.
void keep_off_the_first(int cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < std::max(kFewestCpusToShare, 2 * cpus)) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE && seen < cpus; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    CPU_CLR(cpu, &set);
    ++seen;
  }
  sched_setaffinity(0, sizeof set, &set);
}

void SurveyCommand::build_loop() {
  keep_off_the_first(kQuietCpus * static_cast<int>(devices_.size()));
  for (;;) {
    Job* job = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (over() || next_build_ == jobs_.size()) return;
      job = &jobs_[next_build_++];
    }
    const Status status = guarded([&] { return prepare(*job); });
    const std::lock_guard lock(mutex_);
    if (!status && status.error().kind != ErrorKind::failed) {
      if (!error_) error_ = status.error();
    } else if (!status) {
      job->failed = status.error().message;
    }
    job->prepared = true;
    ++prepared_;
    changed_.notify_all();
  }
}

// The next one with something to do, once it is built; null: there is none left, or the time is up. Anything on a CPU,
// and calls on an idle device, are not measured while compilers run; other calls have CPUs of their own.
Job* SurveyCommand::next_job() {
  const auto has = [&](const char* mode) { return std::find(modes_.begin(), modes_.end(), mode) != modes_.end(); };
  const bool shared =
      available_threads() < std::max(kFewestCpusToShare, 2 * kQuietCpus * static_cast<int>(devices_.size()));
  const bool quiet = !is_cuda(devices_.front().target) || has("server") || (has("call") && shared);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (over() || next_measure_ == jobs_.size()) return nullptr;
    Job& job = jobs_[next_measure_];
    if (!job.prepared || (quiet && prepared_ < jobs_.size())) {
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      continue;
    }
    ++next_measure_;
    if (!job.modes.empty() || !job.failed.empty()) return &job;
    ++skipped_;
  }
}

SurveyRequest SurveyCommand::request_for(const Job& job) const {
  SurveyRequest request;
  request.problem = job.shape;
  request.server = {arguments_.qps, arguments_.arrivals};
  request.seconds = effort_seconds_;
  request.precision = arguments_.precision / 100;
  request.call_subjects = job.call_subjects;
  request.baseline_choices = choices_->find(job.shape);
  request.seed = arguments_.seed;
  for (const std::string& mode : job.modes) {
    request.accuracy = request.accuracy || mode == kAccuracyMode;
    if (const auto timing = parse_timing_mode(mode)) request.modes.push_back(*timing);
  }
  std::sort(request.modes.begin(), request.modes.end());
  for (const SurveyKernel& one : job.entrants) request.candidates.push_back(survey_candidate(one));
  return request;
}

// Takes out those that did not hold, and puts the next choice in their places. True: another survey is worth while.
bool SurveyCommand::replace(Job& job, const SurveyReport& report) {
  bool again = false;
  std::vector<SurveyKernel> stay;
  for (SurveyKernel& one : job.entrants) {
    const SurveyReport::Proof* proof = report.proof(one.name);
    if (proof == nullptr || proof->holds()) {  // null: an earlier one crashed
      stay.push_back(std::move(one));
      continue;
    }
    again = again || !proof->crash.empty();
    if (one.is_variant()) continue;
    auto next = builder_->build_first(one.problem, one.others, one.name);
    if (!next) continue;
    stay.push_back(std::move(*next));
    again = true;
  }
  job.entrants = std::move(stay);
  return again || is_empty(report);
}

Status SurveyCommand::measure(Job& job, int device) {
  Evaluator& evaluator = *devices_[static_cast<std::size_t>(device)].evaluator;
  std::string reason = job.failed;
  for (int attempt = 0; attempt < kMostTries && !job.entrants.empty() && !interrupted(); ++attempt) {
    auto report = evaluator.survey(request_for(job));
    if (!report) {
      if (report.error().kind == ErrorKind::environment) return report.error();
      reason = report.error().message;
      continue;  // in a new worker
    }
    job.lost.update(settle_contests(job.entrants, *report));
    for (const SurveyReport::Proof& proof : report->proofs) {
      if (proof.holds()) continue;
      const GateResult last = proof.gates.empty() ? GateResult{} : proof.gates.back();
      reason = proof.crash.empty() ? fmt::format("{} fails gate {}: {}", proof.name, last.gate, last.detail)
                                   : fmt::format("{} crashed: {}", proof.name, proof.crash);
      fmt::print(stderr, "warpsmith: {}: {}\n", shape_text(job.shape), reason);
    }
    const std::vector<SurveyKernel> took_part = job.entrants;
    if (replace(job, *report) && attempt + 1 < kMostTries) continue;
    if (is_empty(*report)) break;
    job.entrants = took_part;
    return keep(job, *report, device);
  }
  if (interrupted()) return ok_status();
  const std::lock_guard lock(mutex_);
  ++failed_;
  return add({{"m", job.shape.m},
              {"n", job.shape.n},
              {"k", job.shape.k},
              {"mode", job.modes.empty() ? modes_.front() : job.modes.front()},
              {"failed", reason.empty() ? std::string("no kernel is known for it") : reason}});
}

// With the lock held.
Status SurveyCommand::add(nlohmann::json row) {
  if (line_) line_->clear();
  fmt::print("{}\n", arguments_.json ? row.dump() : survey_line(row));
  std::fflush(stdout);
  index_row(row);
  rows_.push_back(std::move(row));
  return file_->append(rows_.back());
}

Status SurveyCommand::keep(const Job& job, const SurveyReport& report, int device) {
  if (const Status kept = choices_->keep(job.shape, report.baseline_choices); !kept) return kept;
  nlohmann::json ours = nlohmann::json::object();
  for (const SurveyKernel& one : job.entrants) {
    const SurveyReport::Proof* proof = report.proof(one.name);
    if (proof == nullptr || !proof->holds()) continue;
    ours[one.name] = {{"recipe", one.recipe},
                      {"source_hash", one.source_hash},
                      {"origin", one.origin},
                      {"gates", fmt::format("passed {}", proof->gates.size())}};
    if (job.lost.contains(one.name)) ours[one.name]["lost"] = job.lost.at(one.name);
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [what, seconds] : report.seconds) seconds_[what] += seconds;
  Provenance provenance;
  for (const std::string& mode : job.modes) {
    nlohmann::json row = {{"m", job.shape.m}, {"n", job.shape.n}, {"k", job.shape.k},
                          {"mode", mode},     {"ours", ours},     {"seconds", report.seconds}};
    if (mode == kAccuracyMode) {
      row["errors"] = report.accuracy;
    } else {
      const auto found = report.modes.find(mode);
      if (found == report.modes.end()) continue;
      row["subjects"] = found->second;
    }
    provenance =
        provenance_of(devices_[static_cast<std::size_t>(device)], compiler_->versions(), mode, arguments_.seed);
    provenance.date = utc_now();
    row["provenance"] = provenance;
    if (const Status added = add(std::move(row)); !added) return added;
  }
  ++measured_;
  std::vector<WisdomEntry> entries = wisdom_entries(job.entrants, report, provenance);
  if (!arguments_.write_wisdom.empty()) std::move(entries.begin(), entries.end(), std::back_inserter(wisdom_));
  return ok_status();
}

void SurveyCommand::device_loop(int device) {
  while (Job* job = next_job()) {
    {
      const std::lock_guard lock(mutex_);
      const double share = static_cast<double>(next_measure_ - 1) / static_cast<double>(jobs_.size());
      const std::size_t done = measured_ + failed_;
      const double left = static_cast<double>(jobs_.size() - next_measure_ + 1) *
                          (done > 0 ? seconds_since(start_) / static_cast<double>(done) : 0);
      line_->update(share, fmt::format("{} of {}  {}{}", next_measure_, jobs_.size(), shape_text(job->shape),
                                       done > 0 ? fmt::format("  about {:.0f} s left", left) : std::string()));
    }
    const Status status = guarded([&] { return measure(*job, device); });
    if (!status) return stop(status.error());
    const std::lock_guard lock(mutex_);
    job->entrants.clear();  // sources and launches of a thousand shapes are large
  }
}

Status SurveyCommand::write_files() {
  for (const std::string& mode : modes_) {
    const std::string text = survey_csv(rows_, mode, jobs_.size());
    if (text.empty()) continue;
    const std::string path = fmt::format("{}-{}.csv", arguments_.output, mode);
    if (const Status written = write_file_atomic(path, text); !written) return written;
    if (!arguments_.json) fmt::print("{}\n", path);
  }
  if (measured_ > 0) {
    if (const Status summarized = summarize(arguments_.output); !summarized) return summarized;
  }
  if (wisdom_.empty()) return ok_status();
  const WisdomHeader header =
      wisdom_header(devices_.front().evaluator->machine(), devices_.front().target, devices_.front().threads);
  Wisdom wisdom(header);
  if (std::filesystem::exists(arguments_.write_wisdom)) {
    auto known = Wisdom::load(arguments_.write_wisdom);
    if (!known) return known.error();
    wisdom = std::move(*known);
  }
  std::size_t taken = 0;
  for (const WisdomEntry& entry : wisdom_) taken += wisdom.merge(entry) ? 1 : 0;
  wisdom.set_versions(header.versions);
  if (!arguments_.json) {
    fmt::print("{}: {} of {} entries are new or better\n", arguments_.write_wisdom, taken, wisdom_.size());
  }
  return wisdom.save(arguments_.write_wisdom);
}

Result<int> SurveyCommand::run() {
  if (const Status read = read_options(); !read) return read.error();
  if (arguments_.summarize) {
    const Status done = summarize(arguments_.output);
    return done ? Result<int>(kExitOk) : Result<int>(done.error());
  }
  auto list = shapes();
  if (!list) return list.error();
  auto devices = open_devices(arguments_.device, arguments_.gpus, arguments_.seed);
  if (!devices) return devices.error();
  devices_ = std::move(*devices);
  machine_ = devices_.front().evaluator->machine();
  if (!is_cuda(devices_.front().target) && std::find(modes_.begin(), modes_.end(), kAccuracyMode) != modes_.end()) {
    return bad_input("mode accuracy goes with a CUDA target");
  }
  if (const Status opened = open_files(); !opened) return opened.error();
  compiler_.emplace(CompilerOptions{.cache = cache_dir()});
  builder_.emplace(*compiler_, machine_);
  line_.emplace(arguments_.quiet);
  order_jobs(std::move(*list));
  const int cpus = available_threads();
  const int free = cpus >= kFewestCpusToShare ? kQuietCpus * static_cast<int>(devices_.size()) : 0;
  std::vector<std::jthread> builders, measurers;
  for (int i = 0; i < (arguments_.jobs > 0 ? arguments_.jobs : std::max(1, cpus - free)); ++i) {
    builders.emplace_back([this] { build_loop(); });
  }
  for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
    measurers.emplace_back([this, i] { device_loop(i); });
  }
  measurers.clear();
  builders.clear();
  line_->clear();
  const Status written = write_files();
  if (error_) return *error_;
  if (!written) return written.error();
  const std::size_t done = measured_ + skipped_;
  if (!arguments_.json) {
    std::string where;
    for (const auto& [what, seconds] : seconds_)
      where += fmt::format("{}{} {:.1f}", where.empty() ? "" : ", ", what, seconds);
    fmt::print("{} of {} shapes measured in {:.1f} s, {} known before, {} failed{}\n", measured_, jobs_.size(),
               seconds_since(start_), skipped_, failed_, where.empty() ? "" : "; seconds: " + where);
    if (done + failed_ < jobs_.size()) fmt::print("not all is done; the same command with --resume goes on\n");
  }
  if (interrupted()) return kExitInterrupted;
  return done == jobs_.size() ? kExitOk : kExitFailed;
}

}  // namespace

void add_survey_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<SurveyArguments>();
  CLI::App* command =
      app.add_subcommand("survey", "Measure the best known kernels of many shapes beside every baseline");
  command->footer(
      "Takes each shape's kernels from wisdom and archive, proves them, and times NN and TN of ours and of every\n"
      "baseline interleaved in one run. Rows are kept in PREFIX.rows as they come; Ctrl-C loses nothing, and the same\n"
      "command with --resume goes on.");
  arguments->problem.layout = "both";
  arguments->problem.add_to(*command);
  command->add_option("--shapes", arguments->shapes_file, "File with one shape a line");
  command->add_option("--grid", arguments->grid, "Named set of shapes: cuda-l2");
  arguments->device.add_to(*command);
  command->add_option("--gpus", arguments->gpus,
                      "CUDA devices to spread the shapes over: all, or numbers such as 0,1; default: --device");
  command
      ->add_option("--modes", arguments->modes,
                   "What is measured: offline, call, server, accuracy; with commas between")
      ->capture_default_str();
  command->add_option("--output", arguments->output, "Write PREFIX-offline.csv and so on, a row a shape")
      ->type_name("PREFIX");
  command->add_flag("--summarize", arguments->summarize,
                    "Measure nothing: make PREFIX-summary.json of the CSV files that are there");
  command->add_flag("--resume", arguments->resume, "Go on with PREFIX.rows; rows of today's kernels stand");
  command->add_option("--limit", arguments->limit, "Begin no shape after so long: 9m");
  command->add_option("--effort", arguments->effort, "Time to spend on each subject, offline and call")
      ->capture_default_str();
  command
      ->add_option("--precision", arguments->precision,
                   "Offline: measure on, up to four times as long, until the ratio's 95 % interval is this narrow, in "
                   "percent either way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--qps", arguments->qps, "Mode server: calls a second on average")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--arrivals", arguments->arrivals, "Mode server: calls of each subject")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--wisdom", arguments->wisdom, "Wisdom file to take kernels from; default: wisdom/GPU.jsonl");
  command->add_option("--archive", arguments->archive,
                      "Archive to take kernels from; default: archive.sqlite in the data directory");
  command->add_flag("--unmeasured", arguments->unmeasured,
                    "Take what the library would choose for a shape that nobody has measured");
  command->add_option("--write-wisdom", arguments->write_wisdom, "Merge what was measured into this wisdom file")
      ->type_name("FILE");
  command
      ->add_option("--baseline-choices", arguments->choices,
                   "File that keeps which of cuBLASLt's candidates were the fastest; those alone are tried again")
      ->type_name("FILE");
  command->add_flag("--shuffle", arguments->shuffle, "Shapes in random order, so that a part of them is a sample");
  command->add_option("--seed", arguments->seed, "Seed of inputs, orders and waits")->capture_default_str();
  command
      ->add_option("--compile-jobs", arguments->jobs,
                   "Compiles in parallel; 0: as many as CPUs that nothing is timed on")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", arguments->json, "Print one JSON object a row");
  command->add_flag("--quiet", arguments->quiet, "No progress line");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = SurveyCommand(*arguments).run();
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
