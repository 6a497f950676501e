// One thread a device, and one that watches the clock.
#include "serve/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "archive/record_text.h"

namespace warpsmith::serve {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kTick{0.5};  // how often deadlines are looked at

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

// Somebody who waits for several jobs.
struct Waiter {
  std::set<std::string> left;
  Clock::time_point until;
  Dispatcher::Ready ready;
};

class Waiters {
 public:
  // Those that are final already are not in `left`; empty: nothing is added.
  void add(std::shared_ptr<Waiter> waiter) {
    for (const std::string& id : waiter->left) by_id_.emplace(id, waiter);
    all_.insert(std::move(waiter));
  }
  // The waiters for whom this was the last one.
  std::vector<std::shared_ptr<Waiter>> finished(const std::string& id) {
    std::vector<std::shared_ptr<Waiter>> done;
    const auto [begin, end] = by_id_.equal_range(id);
    for (auto each = begin; each != end; ++each) {
      each->second->left.erase(id);
      if (each->second->left.empty()) done.push_back(each->second);
    }
    by_id_.erase(begin, end);
    for (const auto& waiter : done) all_.erase(waiter);
    return done;
  }
  // Those whose time is up, or all.
  std::vector<std::shared_ptr<Waiter>> late(Clock::time_point now) {
    std::vector<std::shared_ptr<Waiter>> done;
    for (const auto& waiter : all_) {
      if (waiter->until <= now) done.push_back(waiter);
    }
    for (const auto& waiter : done) {
      for (const std::string& id : waiter->left) forget(id, waiter);
      all_.erase(waiter);
    }
    return done;
  }
  bool empty() const { return all_.empty(); }
  Clock::time_point next() const {
    Clock::time_point first = Clock::time_point::max();
    for (const auto& waiter : all_) first = std::min(first, waiter->until);
    return first;
  }

 private:
  void forget(const std::string& id, const std::shared_ptr<Waiter>& waiter) {
    const auto [begin, end] = by_id_.equal_range(id);
    const auto found = std::find_if(begin, end, [&](const auto& pair) { return pair.second == waiter; });
    if (found != end) by_id_.erase(found);
  }

  std::set<std::shared_ptr<Waiter>> all_;
  std::unordered_multimap<std::string, std::shared_ptr<Waiter>> by_id_;
};

class ThreadDispatcher final : public Dispatcher {
 public:
  ThreadDispatcher(DispatchOptions options, std::vector<ServedDevice> devices, Store& store, Metrics& metrics)
      : options_(options), devices_(std::move(devices)), store_(store), metrics_(metrics) {
    for (ServedDevice& device : devices_) threads_.emplace_back([this, &device] { serve(device); });
    clock_ = std::thread([this] { watch_the_clock(); });
  }

  ~ThreadDispatcher() override { drain(0); }

  Result<Acceptance> submit(const std::vector<Submission>& submissions) override {
    auto accepted = store_.accept(submissions, options_.most_queued);
    if (accepted && !accepted->receipts.empty()) {
      const std::lock_guard lock(mutex_);
      ++arrivals_;
      work_.notify_all();
    }
    return accepted;
  }

  void wait_for(std::vector<std::string> ids, double seconds, Ready ready) override {
    auto waiter = std::make_shared<Waiter>();
    waiter->until = after(seconds);
    bool stopped = false;
    {
      // A job that ends between the look at the store and the entry in the list would never be told: both under the
      // lock under which ends are told.
      const std::lock_guard lock(mutex_);
      stopped = stopped_;
      for (std::string& id : ids) {
        const auto state = store_.state(id);
        if (!state || !*state || !is_final(**state)) waiter->left.insert(std::move(id));
      }
      if (!stopped && !waiter->left.empty()) {
        waiter->ready = std::move(ready);
        waiters_.add(waiter);
        tick_.notify_all();
        return;
      }
    }
    ready(waiter->left.empty());
  }

  void drain(double seconds) override {
    {
      std::unique_lock lock(mutex_);
      draining_ = true;
      work_.notify_all();
      idle_.wait_until(lock, after(seconds), [this] { return waiters_.empty() || ended_ == devices_.size(); });
      stopped_ = true;
      work_.notify_all();
      tick_.notify_all();
    }
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
    if (clock_.joinable()) clock_.join();
    tell(late_waiters(Clock::time_point::max()), false);
  }

 private:
  struct InWork {
    Job job;
    std::future<CompiledCandidate> compiled;
  };
  // What became of a job, until the store has it: a disk that is full for a while must cost no measurement.
  struct Ending {
    Job job;
    std::optional<Outcome> outcome;  // nothing: the environment failed
    std::string reason;
  };

  // --- devices ---
  void serve(ServedDevice& device) {
    std::deque<InWork> ahead;
    std::optional<Ending> ending;
    for (;;) {
      const std::uint64_t seen = arrivals();
      if (ending) {
        if (stopped()) break;
        if (!keep(*ending)) {
          pause();
          continue;
        }
        ending.reset();
      }
      const bool failed = !take_jobs(device, ahead);
      if (ahead.empty()) {
        if (!wait_for_work(seen, failed)) break;
        continue;
      }
      if (options_.quiet_while_measuring) {
        for (const InWork& each : ahead) each.compiled.wait();
      }
      if (stopped()) break;
      InWork next = std::move(ahead.front());
      ahead.pop_front();
      ending = measure(device, next.job, next.compiled);
      if (!keep(*ending)) {
        pause();
        continue;
      }
      const bool again = !ending->outcome;
      ending.reset();
      if (again) pause();
    }
    // The last try; without it the job is queued again when the next server starts.
    if (ending) keep(*ending);
    for (InWork& each : ahead) {
      each.compiled.wait();
      complain(store_.release(each.job.id));
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    idle_.notify_all();
  }

  // As the search does: whole rounds where measuring must be quiet, else as many as keep the compilers busy.
  int wanted(std::size_t ahead) const {
    const int jobs = std::max(1, options_.compile_jobs);
    if (options_.quiet_while_measuring) return ahead == 0 ? jobs : 0;
    return std::max(0, 2 * jobs - static_cast<int>(ahead));
  }

  // False: the store failed.
  bool take_jobs(ServedDevice& device, std::deque<InWork>& ahead) {
    for (int count = wanted(ahead.size()); count > 0 && may_begin(); --count) {
      auto job = store_.claim(device.name);
      if (!job) {
        complain(job.error());
        return false;
      }
      if (!*job) return true;
      ahead.push_back({**job, std::async(std::launch::async,
                                         [judge = device.judge.get(), job = **job] { return judge->compile(job); })});
    }
    return true;
  }

  // Whatever is thrown here concerns one job only.
  static Result<Outcome> judge(ServedDevice& device, const Job& job, std::future<CompiledCandidate>& compiled) {
    try {
      return device.judge->judge(job, compiled.get());
    } catch (const std::exception& error) {
      return environment_error(error.what());
    }
  }

  Ending measure(ServedDevice& device, const Job& job, std::future<CompiledCandidate>& compiled) {
    const auto begin = Clock::now();
    auto outcome = judge(device, job, compiled);
    metrics_.measured(device.name, Seconds(Clock::now() - begin).count());
    if (outcome) return {job, std::move(*outcome), {}};
    return {job, std::nullopt, outcome.error().message};
  }

  // False: the store failed; nothing is lost as long as it is tried again.
  bool keep(const Ending& ending) {
    const Job& job = ending.job;
    if (ending.outcome) {
      const Status kept = store_.finish(job.id, record_text(*ending.outcome));
      complain(kept);
      if (kept) ended(job, std::string(ending.outcome->verdict.kind()));
      return kept.ok();
    }
    const auto state = store_.give_up(job.id, ending.reason);
    complain(state);
    if (!state) return false;
    const bool failed = *state == JobState::failed;
    fmt::print(stderr, "warpsmith serve: {}: {} ({})\n", job.id.substr(0, 12), ending.reason,
               failed ? "given up" : "tried again");
    if (failed) ended(job, "failed");
    return true;
  }

  void ended(const Job& job, const std::string& kind) {
    metrics_.ended(kind, unix_now() - job.accepted);
    std::vector<std::shared_ptr<Waiter>> done;
    {
      const std::lock_guard lock(mutex_);
      done = waiters_.finished(job.id);
      if (waiters_.empty()) idle_.notify_all();
    }
    tell(done, true);
  }

  // --- waiting ---
  std::uint64_t arrivals() {
    const std::lock_guard lock(mutex_);
    return arrivals_;
  }
  bool stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  // While draining nothing is begun for which nobody waits.
  bool may_begin() {
    const std::lock_guard lock(mutex_);
    return !stopped_ && (!draining_ || !waiters_.empty());
  }
  // False: the thread ends.
  bool wait_for_work(std::uint64_t seen, bool failed) {
    std::unique_lock lock(mutex_);
    const Seconds pause(failed ? options_.pause_seconds : 60.0);
    const auto changed = [&] { return stopped_ || (draining_ && waiters_.empty()) || (!failed && arrivals_ != seen); };
    work_.wait_for(lock, pause, changed);
    return !stopped_ && !(draining_ && waiters_.empty());
  }
  void pause() {
    std::unique_lock lock(mutex_);
    work_.wait_for(lock, Seconds(options_.pause_seconds), [this] { return stopped_; });
  }

  void watch_the_clock() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      tick_.wait_until(lock, std::min(after(kTick.count()), waiters_.next()));
      if (stopped_) break;
      lock.unlock();
      tell(late_waiters(Clock::now()), false);
      if (const auto ids = store_.expire()) {
        for (const std::string& id : *ids) expired(id);
      }
      lock.lock();
    }
  }

  void expired(const std::string& id) {
    if (const auto job = store_.find(id); job && *job) ended(**job, "expired");
  }

  std::vector<std::shared_ptr<Waiter>> late_waiters(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    auto late = waiters_.late(now);
    if (waiters_.empty()) {
      idle_.notify_all();
      if (draining_) work_.notify_all();
    }
    return late;
  }

  static void tell(const std::vector<std::shared_ptr<Waiter>>& waiters, bool all) {
    for (const auto& waiter : waiters) waiter->ready(all);
  }

  static void complain(const Error& error) { fmt::print(stderr, "warpsmith serve: {}\n", error.message); }
  template <class T>
  static void complain(const Result<T>& result) {
    if (!result) complain(result.error());
  }

  const DispatchOptions options_;
  std::vector<ServedDevice> devices_;
  Store& store_;
  Metrics& metrics_;

  std::mutex mutex_;  // of what follows
  std::condition_variable work_, tick_, idle_;
  Waiters waiters_;
  std::uint64_t arrivals_ = 0;
  std::size_t ended_ = 0;  // devices' threads
  bool draining_ = false, stopped_ = false;

  std::vector<std::thread> threads_;
  std::thread clock_;
};

}  // namespace

std::unique_ptr<Dispatcher> Dispatcher::start(DispatchOptions options, std::vector<ServedDevice> devices, Store& store,
                                              Metrics& metrics) {
  return std::make_unique<ThreadDispatcher>(options, std::move(devices), store, metrics);
}

}  // namespace warpsmith::serve
