// Runs a CUDA kernel's C++ on the host: every thread of the grid is a fiber of one host thread, asynchronous copies
// land in a random order, and a grid in which nothing moves any more is reported. It shows wrong indices, wrong
// hand-overs and deadlocks; it knows nothing of time, nor of the order in which a GPU's memory shows writes.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace emulation {

inline constexpr std::uint32_t kSharedBytes = 232448;  // of a block, at most
inline constexpr std::uint32_t kRankShift = 24;        // a shared address: block's rank in the cluster, offset

// mbarrier: a phase ends when all arrivals and all bytes are there.
struct AsyncBarrier {
  int expected = 0, pending = 0;
  std::int64_t bytes = 0;
  std::uint32_t phase = 0;
};

// Threads that meet. Arriving and waiting are apart, as in `bar.arrive` and `bar.sync`.
struct Meeting {
  int here = 0;
  unsigned generation = 0;
};

struct Warp {
  std::uint32_t words[32] = {}, addresses[32] = {};  // what lanes show one another
  Meeting meeting;
};

struct Cluster;

struct Block {
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;
  unsigned index = 0;
  std::vector<unsigned char> memory = std::vector<unsigned char>(kSharedBytes, 0xcd);
  std::map<std::uint32_t, AsyncBarrier> barriers;  // by offset
  Meeting named[16], warpgroups[4];
  std::vector<Warp> warps;
};

struct Cluster {
  std::vector<Block*> blocks;
  int alive = 0;  // threads that have not ended
  Meeting meeting;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Block* block = nullptr;
  unsigned thread = 0;
  bool done = false;
  bool arrived = false;  // at the cluster's barrier, and has not waited yet
  unsigned cluster_generation = 0;
  // Bulk stores read shared memory only when they are waited for: the latest that is allowed.
  std::vector<std::function<void()>> open_group;
  std::deque<std::vector<std::function<void()>>> groups;
};

class Grid {
 public:
  Grid(unsigned blocks, unsigned threads, unsigned cluster_size, unsigned seed);

  // Runs `kernel` to its end in every thread; the first thing that went wrong, or nothing.
  std::string run(const std::function<void()>& kernel);

  // For the instructions, called from within a fiber.
  static Grid& current() { return *current_; }
  Fiber& fiber() { return *running_; }
  Block& block() { return *running_->block; }
  unsigned blocks() const { return static_cast<unsigned>(blocks_.size()); }
  void yield() { swapcontext(&running_->context, &scheduler_); }
  void moved() { progress_ = true; }
  template <class Condition>
  void wait_until(Condition condition) {
    while (!condition()) yield();
    moved();
  }
  // Counts this thread; with `wait`, until `threads` are there.
  void meet(Meeting& meeting, int threads, bool wait);
  void land_later(std::function<void()> copy) { in_flight_.push_back(std::move(copy)); }
  bool coin() { return random_() % 2 == 0; }
  [[noreturn]] void fail(const std::string& what);

 private:
  static void enter();
  static void start(Fiber& fiber);
  void land_some();

  inline static Grid* current_ = nullptr;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::function<void()>> in_flight_;
  std::function<void()> kernel_;
  std::mt19937 random_;
  ucontext_t scheduler_;
  Fiber* running_ = nullptr;
  bool progress_ = false;
  std::string failure_;
};

// A shared address as memory, and the barrier there; `cluster` is that of the address.
unsigned char* shared_memory(Cluster& cluster, std::uint32_t address, std::uint32_t alignment);
AsyncBarrier& async_barrier(Cluster& cluster, std::uint32_t address);
void arrive(AsyncBarrier& barrier, int arrivals, std::int64_t bytes);

// 16-bit floats, exactly.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
float bfloat_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat(float value);

}  // namespace emulation
