// The schedule of builds and measurements.
#include "search/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace warpsmith {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A failed environment says nothing about the recipe, which is tried again; several in a row mean that the device is of
// no use.
constexpr int kMaxFailuresInARow = 5, kTries = 3;
// So many accepted times tell the order of magnitude of a problem's best. Before that, nothing is stopped early by the
// best so far, and a candidate that beats it twofold is no surprise.
constexpr std::size_t kSettled = 4;
// Proposals from neighbours when a device first comes to a problem.
constexpr std::size_t kFirstTransfers = 4;
// With nothing else to do, a device takes a problem of which this much is built.
constexpr std::size_t kWorthAVisit = 4;
// A verdict costs this much beside what the device spends on it.
constexpr double kVerdictSeconds = 0.005;
// Shares of time: of a problem that is so far short of its aim that more would not matter, and of one well beyond it.
constexpr double kLargestShare = 4, kSmallestShare = 0.25;
constexpr double kSharePerShortfall =
    8;  // more for each unit of the shortfall's logarithm: at 12 % short, twice as much
// Of a declared space so much is measured in one visit at least, and so many verdicts are written together.
constexpr std::size_t kDeclaredVisit = 128, kWrittenTogether = 32;
constexpr auto kPoll = std::chrono::milliseconds(50);  // for a stop flag, which signals no one

// Calls body(0) to body(count - 1) on so many threads. What one throws is thrown here.
void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::future<void>> workers;
  for (int i = 1; i < threads; ++i) workers.push_back(std::async(std::launch::async, work));
  work();
  for (auto& worker : workers) worker.get();
}

class Tuner {
 public:
  Tuner(TunePlan& plan, const TuneOptions& options, TuneBench& bench, Archive& archive,
        const std::function<void(const TuneProgress&)>& on_progress, const std::atomic<bool>& stop)
      : plan_(plan), options_(options), bench_(bench), archive_(archive), on_progress_(on_progress), stop_(stop) {}

  Result<TuneResult> run();

 private:
  struct Pair {
    Recipe recipe;
    std::string source;
    const char* proposer;
    int failures = 0;
  };
  struct Source {
    enum class State { wanted, building, built } state = State::wanted;
    std::size_t problem = 0;  // of the pair that stands for it
    Recipe recipe;
    int round = 0;                     // the earliest that needs it
    std::vector<std::size_t> waiters;  // the problem of each pair that waits for it
    std::optional<Verdict> refusal;
  };
  struct Task {
    std::vector<Pair> waiting;
    std::size_t built = 0;               // of those
    int round = 0;                       // that are done
    double spent_seconds = 0;            // of the devices' time, in this run
    std::size_t unmeasured = 0;          // pairs that could not be tried
    std::optional<std::size_t> sibling;  // the same shape in another layout: going on with it prepares less
    bool taken = false, exhausted = false;
  };
  struct Visit {
    std::size_t task = 0;
    std::vector<Pair> pairs;
  };

  void build_loop();
  void device_loop(int device);
  // A thread's body; a broken environment ends the run.
  template <class Body>
  void guard(const Body& body);
  std::map<std::string, Source>::iterator next_source();
  std::optional<std::size_t> next_task(bool all_built) const;
  std::optional<std::size_t> next_declared() const;
  std::pair<std::optional<std::size_t>, bool> choose(std::optional<std::size_t> visited) const;
  std::optional<std::size_t> next_to(std::size_t visited) const;
  double used(std::size_t task) const;  // time spent over the problem's share
  void find_siblings();
  bool is_built(const Pair& pair) const { return sources_.at(pair.source).state == Source::State::built; }
  Visit begin_visit(std::size_t task);
  void measure_visit(int device, const Visit& visit);
  // With the lock held: what a verdict that says nothing of the recipe means for it. True: it is tried again.
  bool try_again(std::size_t task, const Pair& pair, const Verdict& verdict);
  // With the lock held: the device has failed too often in a row. The last one's end is the run's.
  bool of_no_use(int device, const Verdict& verdict);
  void end_visit(std::size_t task);
  void plan_first();
  void plan_next(std::size_t task);
  // A pair that waits for its source; one that has none is passed over.
  void add(std::size_t task, Recipe recipe, const char* proposer);
  void add(std::size_t task, Recipe recipe, const char* proposer, std::string source);
  // With the lock held: records the verdict, or adds it to `unwritten`, and tells the plan. False: the run is over.
  bool absorb(std::size_t problem, const Pair& pair, const Verdict& verdict, std::vector<AttemptRecord>& unwritten);
  bool record(std::size_t problem, const Pair& pair, const Verdict& verdict, std::vector<AttemptRecord>& unwritten);
  // Without the lock. False: the run is over.
  bool write(std::size_t problem, std::vector<AttemptRecord>& unwritten);
  void fail(Error error);
  const char* proposer() const { return plan_.declared() ? "sweep" : "tune"; }
  bool over() const { return error_ || stop_.load() || seconds_since(start_) >= options_.budget_seconds; }
  bool all_exhausted() const;
  TuneProgress progress() const;

  TunePlan& plan_;
  const TuneOptions& options_;
  TuneBench& bench_;
  Archive& archive_;
  const std::function<void(const TuneProgress&)>& on_progress_;
  const std::atomic<bool>& stop_;
  const Clock::time_point start_ = Clock::now();

  // All below is guarded by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  std::map<std::string, Source> sources_;
  std::size_t wanted_ = 0, building_ = 0, built_ = 0;
  int measuring_ = 0;                   // visits going on
  int quiet_wanted_ = 0;                // devices that wait for the builds to pause
  std::vector<int> failures_in_a_row_;  // of each device
  int devices_left_ = 0;
  std::optional<Error> error_;
  TuneResult result_;
  std::int64_t resumed_ = 0;
  bool ended_ = false;  // the device loops are over: builders go
};

void Tuner::fail(Error error) {
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

template <class Body>
void Tuner::guard(const Body& body) {
  try {
    body();
  } catch (const EnvironmentError& error) {
    const std::lock_guard lock(mutex_);
    fail(environment_error(error.what()));
  }
}

bool Tuner::all_exhausted() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.exhausted; });
}

void Tuner::add(std::size_t index, Recipe recipe, const char* proposer) {
  std::string source = bench_.source_of(plan_.problem(index), recipe);
  add(index, std::move(recipe), proposer, std::move(source));
}

void Tuner::add(std::size_t index, Recipe recipe, const char* proposer, std::string key) {
  if (key.empty() && plan_.declared()) {  // that is its verdict
    Verdict verdict;
    verdict.outcome = verdict::Illegal{"legality", "no kernel can be made of it here"};
    std::vector<AttemptRecord> unwritten;
    absorb(index, {recipe, key, proposer}, verdict, unwritten);
    if (const Status status = archive_.record_all(options_.scope(plan_.problem(index)), unwritten); !status) {
      fail(status.error());
    }
  }
  if (key.empty()) return;
  Task& task = tasks_[index];
  const auto [found, is_new] =
      sources_.try_emplace(key, Source{Source::State::wanted, index, recipe, task.round, {}, {}});
  Source& source = found->second;
  wanted_ += is_new ? 1 : 0;
  if (source.state == Source::State::built) {
    ++task.built;
  } else {
    source.round = std::min(source.round, task.round);
    source.waiters.push_back(index);
  }
  task.waiting.push_back({std::move(recipe), std::move(key), proposer});
}

// All problems' first batches. Telling the sources apart takes as long as all else, and needs no lock.
void Tuner::plan_first() {
  std::vector<std::vector<Recipe>> batches(plan_.size());
  std::vector<std::vector<std::string>> sources(plan_.size());
  for (std::size_t i = 0; i < plan_.size() && !over(); ++i) batches[i] = plan_.next(i);
  for_each_index(plan_.size(), options_.build_jobs, [&](std::size_t i) {
    for (const Recipe& recipe : batches[i]) {
      if (!over()) sources[i].push_back(bench_.source_of(plan_.problem(i), recipe));
    }
  });
  for (std::size_t i = 0; i < plan_.size() && !over(); ++i) {
    for (std::size_t j = 0; j < sources[i].size(); ++j) {
      add(i, std::move(batches[i][j]), proposer(), std::move(sources[i][j]));
    }
    tasks_[i].exhausted = tasks_[i].waiting.empty();
  }
}

// The batch of a problem's next round.
void Tuner::plan_next(std::size_t index) {
  Task& task = tasks_[index];
  for (Recipe& recipe : plan_.next(index)) add(index, std::move(recipe), proposer());
  task.exhausted = task.waiting.empty();
  changed_.notify_all();
}

// Earliest round first, then what most pairs wait for, then for the first problem.
std::map<std::string, Tuner::Source>::iterator Tuner::next_source() {
  auto best = sources_.end();
  for (auto source = sources_.begin(); source != sources_.end(); ++source) {
    if (source->second.state != Source::State::wanted) continue;
    const auto key = [](const Source& s) {
      return std::tuple(-s.round, s.waiters.size(), -static_cast<std::ptrdiff_t>(s.problem));
    };
    if (best == sources_.end() || key(source->second) > key(best->second)) best = source;
  }
  return best;
}

void Tuner::build_loop() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const bool paused = options_.quiet_while_measuring && (measuring_ > 0 || quiet_wanted_ > 0);
    if (wanted_ == 0 || paused || over()) {
      changed_.wait_for(lock, kPoll);
      continue;
    }
    const auto source = next_source();
    source->second.state = Source::State::building;
    --wanted_;
    ++building_;
    const Problem problem = plan_.problem(source->second.problem);
    const Recipe recipe = source->second.recipe;
    lock.unlock();
    auto refusal = bench_.build(problem, recipe);
    lock.lock();
    source->second.refusal = std::move(refusal);  // entries of a map stay where they are
    source->second.state = Source::State::built;
    for (const std::size_t waiter : source->second.waiters) ++tasks_[waiter].built;
    source->second.waiters.clear();
    --building_;
    ++built_;
    changed_.notify_all();
  }
}

double Tuner::used(std::size_t index) const {
  const auto best_us = plan_.best_us(index);
  const auto known = [&](const std::vector<double>& list) { return index < list.size() ? list[index] : 0; };
  const double baseline_us = known(options_.baseline_us), aim = known(options_.aims);
  const double share = best_us && baseline_us > 0 && aim > 0 ? time_share(baseline_us / *best_us, aim) : 1;
  return tasks_[index].spent_seconds / share;
}

// all_built: of those of which nothing waits for a compiler, the first that has had the least; else the one with the
// most built.
std::optional<std::size_t> Tuner::next_task(bool all_built) const {
  std::optional<std::size_t> best;
  std::size_t best_built = 0;
  double least = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    if (task.taken || task.exhausted) continue;
    if (all_built ? task.built < task.waiting.size() : task.built < std::max(kWorthAVisit, best_built + 1)) continue;
    if (all_built) {
      const double has_had = used(i);
      if (best && least <= has_had) continue;
      least = has_had;
    }
    best = i;
    best_built = task.built;
  }
  return best;
}

// The first that is worth a visit.
std::optional<std::size_t> Tuner::next_declared() const {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    if (task.taken || task.exhausted || task.waiting.empty()) continue;
    const std::size_t all = task.waiting.size();
    if (task.built >= (options_.quiet_while_measuring ? all : std::min(all, kDeclaredVisit))) return i;
  }
  return std::nullopt;
}

// The other layout, where it has had no more time and much of it is built.
std::optional<std::size_t> Tuner::next_to(std::size_t visited) const {
  const auto other = tasks_[visited].sibling;
  if (!other) return std::nullopt;
  const Task& task = tasks_[*other];
  const bool ready = task.built > 0 && task.built >= std::min(task.waiting.size(), kWorthAVisit);
  if (task.taken || task.exhausted || !ready || used(*other) > used(visited)) return std::nullopt;
  return other;
}

// What a device does next, and whether it is the other layout of what it visited: once, then others have their turn.
std::pair<std::optional<std::size_t>, bool> Tuner::choose(std::optional<std::size_t> visited) const {
  if (plan_.declared()) return {next_declared(), false};
  if (visited && !options_.quiet_while_measuring) {
    if (const auto other = next_to(*visited)) return {other, true};
  }
  auto task = next_task(true);
  // Where builds pause for measuring, a whole round is built before.
  if (!task && !options_.quiet_while_measuring) task = next_task(false);
  return {task, false};
}

void Tuner::find_siblings() {
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    Problem shape = plan_.problem(i);
    shape.layout = Layout::nn;
    const auto [found, is_new] = first.try_emplace(to_string(shape), i);
    if (is_new) continue;
    tasks_[i].sibling = found->second;
    tasks_[found->second].sibling = i;
  }
}

Tuner::Visit Tuner::begin_visit(std::size_t index) {
  Task& task = tasks_[index];
  task.taken = true;
  Visit visit{index, {}};
  // What did best nearby comes first: then the problem's best is known early, and the rest is measured more quickly.
  if (plan_.ranking(index).empty()) {
    const std::size_t planned = task.waiting.size();
    for (Recipe& recipe : plan_.transfers(index, kFirstTransfers)) add(index, std::move(recipe), "transfer");
    std::rotate(task.waiting.begin(), task.waiting.begin() + static_cast<std::ptrdiff_t>(planned), task.waiting.end());
  }
  std::vector<Pair> later;
  for (Pair& pair : task.waiting) (is_built(pair) ? visit.pairs : later).push_back(std::move(pair));
  task.waiting = std::move(later);
  task.built = 0;
  return visit;
}

void Tuner::end_visit(std::size_t index) {
  Task& task = tasks_[index];
  task.taken = false;
  if (!task.waiting.empty() || over()) return;  // the rest of the round is being built
  ++task.round;
  plan_next(index);
}

bool Tuner::record(std::size_t index, const Pair& pair, const Verdict& verdict, std::vector<AttemptRecord>& unwritten) {
  AttemptRecord attempt;
  attempt.recipe = to_string(pair.recipe);
  attempt.source_hash = pair.source;
  attempt.policy = pair.proposer;
  attempt.seed = options_.seed;
  attempt.verdict = verdict;
  if (plan_.declared()) {
    unwritten.push_back(std::move(attempt));
  } else if (const Status status = archive_.record(options_.scope(plan_.problem(index)), attempt); !status) {
    fail(status.error());
    return false;
  }
  ++result_.by_kind[std::string(verdict.kind())];
  result_.preparations += verdict.prepare_seconds > 1e-3 ? 1 : 0;
  result_.prepare_seconds += verdict.prepare_seconds;
  result_.measure_seconds += verdict.gate_seconds + verdict.timing_seconds;
  tasks_[index].spent_seconds +=
      kVerdictSeconds + verdict.prepare_seconds + verdict.gate_seconds + verdict.timing_seconds;
  return true;
}

bool Tuner::absorb(std::size_t index, const Pair& pair, const Verdict& verdict, std::vector<AttemptRecord>& unwritten) {
  if (!record(index, pair, verdict, unwritten)) return false;
  if (!try_again(index, pair, verdict)) {
    const auto* accepted = verdict.accepted();
    const auto time_us = accepted ? std::optional(accepted->measurement.cold.median_us) : std::nullopt;
    ++result_.progress.tried;
    plan_.tell(index, pair.recipe, {time_us, std::string(verdict.kind())});
  }
  on_progress_(progress());
  return !over();
}

bool Tuner::try_again(std::size_t index, const Pair& pair, const Verdict& verdict) {
  if (!std::holds_alternative<verdict::Failed>(verdict.outcome)) return false;
  Task& task = tasks_[index];
  if (pair.failures + 1 >= kTries) {
    ++task.unmeasured;
    return false;
  }
  Pair again = pair;
  ++again.failures;
  task.waiting.push_back(std::move(again));
  ++task.built;
  return true;
}

bool Tuner::of_no_use(int device, const Verdict& verdict) {
  int& failures = failures_in_a_row_[static_cast<std::size_t>(device)];
  const auto* failed = std::get_if<verdict::Failed>(&verdict.outcome);
  failures = failed == nullptr ? 0 : failures + 1;
  if (failures < kMaxFailuresInARow) return false;
  if (--devices_left_ == 0) {
    fail(environment_error(fmt::format("{} candidates in a row could not be tried: {}", failures, failed->reason)));
  }
  return true;
}

bool Tuner::write(std::size_t index, std::vector<AttemptRecord>& unwritten) {
  const Status status = archive_.record_all(options_.scope(plan_.problem(index)), unwritten);
  unwritten.clear();
  if (status) return true;
  const std::lock_guard lock(mutex_);
  fail(status.error());
  return false;
}

void Tuner::measure_visit(int device, const Visit& visit) {
  const Problem problem = plan_.problem(visit.task);
  std::vector<AttemptRecord> unwritten;
  for (std::size_t i = 0; i < visit.pairs.size(); ++i) {
    const Pair& pair = visit.pairs[i];
    Verdict verdict;
    bool refused = false, settled = false;
    double best_us = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto& refusal = sources_.at(pair.source).refusal;
      refused = refusal.has_value();
      if (refused) verdict = *refusal;
      settled = plan_.ranking(visit.task).size() >= kSettled;
      if (settled) best_us = *plan_.best_us(visit.task);
    }
    if (!refused) {
      TimingEffort effort = settled ? options_.effort : options_.first_effort;
      if (physical_floor_us(problem, options_.machine, true) < options_.full_from_us) {
        effort.screening = true;
        effort.seconds = 0;
      }
      verdict = bench_.measure(device, problem, pair.recipe, best_us, effort);
    }
    bool more = true;
    {
      const std::lock_guard lock(mutex_);
      more = absorb(visit.task, pair, verdict, unwritten);
      if (more && of_no_use(device, verdict)) {  // the others take what is left
        Task& task = tasks_[visit.task];
        task.waiting.insert(task.waiting.end(), visit.pairs.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                            visit.pairs.end());
        task.built += visit.pairs.size() - i - 1;
        more = false;
      }
    }
    if (unwritten.size() >= kWrittenTogether || !more) more = write(visit.task, unwritten) && more;
    if (!more) return;
  }
  write(visit.task, unwritten);
}

void Tuner::device_loop(int device) {
  std::unique_lock lock(mutex_);
  Clock::time_point idle_since = Clock::now();
  std::optional<std::size_t> visited;
  while (!over() && !all_exhausted() && failures_in_a_row_[static_cast<std::size_t>(device)] < kMaxFailuresInARow) {
    const auto [task, beside] = choose(visited);
    if (!task) {
      changed_.wait_for(lock, kPoll);
      continue;
    }
    visited = beside ? std::nullopt : task;
    const Visit visit = begin_visit(*task);
    if (options_.quiet_while_measuring) {
      ++quiet_wanted_;
      while (building_ > 0 && !over()) changed_.wait_for(lock, kPoll);
      --quiet_wanted_;
    }
    ++measuring_;
    result_.idle_seconds += seconds_since(idle_since);
    lock.unlock();
    measure_visit(device, visit);
    lock.lock();
    idle_since = Clock::now();
    --measuring_;
    end_visit(*task);
  }
}

TuneProgress Tuner::progress() const {
  TuneProgress progress = result_.progress;
  progress.elapsed_seconds = seconds_since(start_);
  progress.budget_seconds = options_.budget_seconds;
  progress.problems = tasks_.size();
  progress.resumed = resumed_;
  progress.sources = sources_.size();
  progress.built = built_;
  progress.rounds = tasks_.empty() ? 0 : tasks_.front().round;
  double logarithms = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    progress.rounds = std::min(progress.rounds, tasks_[i].round);
    progress.exhausted += tasks_[i].exhausted && tasks_[i].unmeasured == 0 ? 1 : 0;
    progress.unmeasured += static_cast<std::int64_t>(tasks_[i].unmeasured);
    const auto best_us = plan_.best_us(i);
    if (!best_us) continue;
    ++progress.covered;
    if (i >= options_.baseline_us.size() || !(options_.baseline_us[i] > 0)) continue;
    ++progress.compared;
    logarithms += std::log(options_.baseline_us[i] / *best_us);
  }
  if (progress.compared > 0) progress.geometric_mean = std::exp(logarithms / static_cast<double>(progress.compared));
  return progress;
}

Result<TuneResult> Tuner::run() {
  {
    const std::lock_guard lock(mutex_);
    tasks_.resize(plan_.size());
    devices_left_ = bench_.devices();
    failures_in_a_row_.resize(static_cast<std::size_t>(devices_left_));
    find_siblings();
    for (std::size_t i = 0; i < plan_.size(); ++i) resumed_ += plan_.told(i);
    plan_first();
  }
  std::vector<std::jthread> builders, devices;
  for (int i = 0; i < std::max(1, options_.build_jobs); ++i) {
    builders.emplace_back([this] { guard([this] { build_loop(); }); });
  }
  for (int i = 0; i < bench_.devices(); ++i) {
    devices.emplace_back([this, i] { guard([this, i] { device_loop(i); }); });
  }
  devices.clear();  // joins
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  builders.clear();
  if (error_) return *error_;
  result_.progress = progress();
  result_.interrupted = stop_.load();
  result_.exhausted = all_exhausted() && result_.progress.unmeasured == 0;
  return std::move(result_);
}

}  // namespace

double time_share(double ratio, double aim) {
  return std::clamp(1 + kSharePerShortfall * std::log(aim / ratio), kSmallestShare, kLargestShare);
}

Result<std::int64_t> resume(TunePlan& plan, const TuneOptions& options, const TuneBench& bench, Archive& archive) {
  std::atomic<std::int64_t> known{0};
  std::mutex mutex;
  std::optional<Error> error;
  for_each_index(plan.size(), options.build_jobs, [&](std::size_t i) {
    const auto history = archive.summaries(options.scope(plan.problem(i)));
    if (!history) {
      const std::lock_guard lock(mutex);
      error = history.error();
      return;
    }
    for (const AttemptSummary& attempt : *history) {
      // A recipe of a knob table that has changed since is history only for the reader.
      const auto recipe = parse_recipe(attempt.recipe);
      if (!recipe || attempt.kind == "failed") continue;
      const std::string source = bench.source_of(plan.problem(i), *recipe);
      plan.remember(i, *recipe, {attempt.cold_us, attempt.kind}, source == attempt.source_hash);
      known += source == attempt.source_hash ? 1 : 0;
    }
  });
  if (error) return *error;
  return known.load();
}

Result<TuneResult> tune(TunePlan& plan, const TuneOptions& options, TuneBench& bench, Archive& archive,
                        const std::function<void(const TuneProgress&)>& on_progress, const std::atomic<bool>& stop) {
  return Tuner(plan, options, bench, archive, on_progress, stop).run();
}

}  // namespace warpsmith
