// Spin-then-park worker threads.
#include "evaluate/cpu/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "evaluate/cpu/affinity.h"

namespace warpsmith {

namespace {

constexpr int kSpins = 4000;             // idle spinning before a thread parks: some tens of microseconds
constexpr int kSpinsBeforeYield = 1000;  // of a barrier: others may need this core

}  // namespace

void SpinBarrier::wait() {
  const unsigned phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins < kSpinsBeforeYield) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

ThreadPool::ThreadPool(int threads) : ids_(static_cast<std::size_t>(std::max(0, threads - 1))) {
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] {
      ids_[static_cast<std::size_t>(thread) - 1] = this_thread_id();
      pin_this_thread(thread);
      serve(thread);
    });
  }
  park();  // so that the ids are there
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::serve(int thread) {
  unsigned seen = 0;
  for (;;) {
    const int spins = linger_.load(std::memory_order_relaxed) ? kSpins : 0;
    for (int i = 0; i < spins && generation_.load(std::memory_order_acquire) == seen; ++i) _mm_pause();
    if (generation_.load(std::memory_order_acquire) == seen) {
      parked_.fetch_add(1);
      generation_.wait(seen, std::memory_order_acquire);
      parked_.fetch_sub(1);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_) return;
    if (thread < count_) (*work_)(thread);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::run(int count, const std::function<void(int)>& work, bool linger) {
  if (count <= 1 || workers_.empty()) {
    work(0);
    return;
  }
  count_ = count;
  work_ = &work;
  linger_.store(linger, std::memory_order_relaxed);
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  work(0);
  for (int spins = 0; running_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::park() const {
  while (parked_.load() != static_cast<int>(workers_.size())) std::this_thread::yield();
}

void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work) {
  const std::int64_t chunks = (count + grain - 1) / grain;
  const auto threads = std::min<std::int64_t>(chunks, std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<std::int64_t> next{0};
  const auto take = [&] {
    for (std::int64_t chunk = next++; chunk < chunks; chunk = next++) {
      work(chunk * grain, std::min(count, (chunk + 1) * grain));
    }
  };
  std::vector<std::thread> helpers;
  for (std::int64_t i = 1; i < threads; ++i) helpers.emplace_back(take);
  take();
  for (auto& helper : helpers) helper.join();
}

}  // namespace warpsmith
