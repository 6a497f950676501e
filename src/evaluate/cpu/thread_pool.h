// A fixed set of threads that call a function together, with little latency between back-to-back calls: idle threads
// spin briefly, then park.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace warpsmith {

// All `threads` parties meet; reusable. Spins, and yields when the machine is oversubscribed.
class SpinBarrier {
 public:
  explicit SpinBarrier(int parties) : parties_(parties) {}
  void wait();

 private:
  const int parties_;
  std::atomic<int> arrived_{0};
  std::atomic<unsigned> phase_{0};
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the caller is thread 0; threads - 1 are started
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Kernel ids of the threads but the caller's. Thread t is bound to the t-th CPU.
  const std::vector<int>& ids() const { return ids_; }

  // Calls work(t) for t in [0, count) on as many threads at once and returns when all have. Precondition: count <=
  // threads(). linger: the threads spin for the next call instead of parking at once.
  void run(int count, const std::function<void(int)>& work, bool linger = true);

  // Returns once every thread but the caller's sleeps, so that it disturbs nobody.
  void park() const;

 private:
  void serve(int thread);

  std::vector<int> ids_;
  std::vector<std::thread> workers_;
  std::atomic<unsigned> generation_{0};
  std::atomic<int> running_{0}, parked_{0};
  std::atomic<bool> linger_{false}, stop_{false};
  int count_ = 0;
  const std::function<void(int)>* work_ = nullptr;
};

// Calls work(begin, end) on ranges that cover [0, count) in steps of `grain`, on all hardware threads, until done.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work);

}  // namespace warpsmith
