// Runs device code on the CPU: every thread of the grid is a fiber, clusters run one after the other,
// and every access to memory is checked for bounds and alignment. run() returns what went wrong first, or "".
#pragma once

#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace emulation {

struct Range {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

struct Launch {
  std::array<int, 3> grid{1, 1, 1}, cluster{1, 1, 1};
  int threads = 32;
  int shared_bytes = 0;
  std::vector<Range> readable, writable;  // global memory
  std::function<void()> body;             // one thread's
};

struct Index {
  int x = 0, y = 0, z = 0;
};

// Threads that wait for one another.
struct Barrier {
  int count = 0, generation = 0;
};

struct Warp {
  Barrier barrier;
  std::uint32_t exchanged[32][8] = {};
};

struct Cluster;

struct Block {
  Cluster* cluster = nullptr;
  Index index;
  int rank = 0;
  std::vector<unsigned char> shared;
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
};

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  Barrier barrier;
  int threads = 0;
};

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Block* block = nullptr;
  Index index;
  int cluster_generation = 0;
  bool done = false;
};

struct Machine {
  const Launch* launch = nullptr;
  Thread* running = nullptr;
  ucontext_t scheduler;
  std::string failure;
  bool progress = false;
};
inline Machine& machine() {
  static Machine machine;
  return machine;
}
inline Thread& current() { return *machine().running; }
inline Warp& warp() { return current().block->warps[static_cast<std::size_t>(current().index.x / 32)]; }

inline void yield() { swapcontext(&current().context, &machine().scheduler); }
[[noreturn]] inline void fail(const std::string& what) {
  if (machine().failure.empty()) machine().failure = what;
  for (;;) yield();
}

inline void arrive(Barrier& barrier, int threads) {
  machine().progress = true;
  if (++barrier.count < threads) return;
  barrier.count = 0;
  ++barrier.generation;
}
inline void wait(const Barrier& barrier, int generation) {
  while (barrier.generation == generation) yield();
}
inline void arrive_and_wait(Barrier& barrier, int threads) {
  const int generation = barrier.generation;
  arrive(barrier, threads);
  wait(barrier, generation);
}

inline void check_access(const std::vector<Range>& ranges, const void* pointer, std::size_t bytes, const char* what) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address % bytes != 0) fail(std::string("misaligned: ") + what);
  for (const Range& range : ranges) {
    const auto first = reinterpret_cast<std::uintptr_t>(range.data);
    if (address >= first && address + bytes <= first + range.bytes) return;
  }
  fail(std::string("out of bounds: ") + what);
}

inline unsigned char* shared_bytes(Block& block, std::uint32_t address, int bytes) {
  const auto size = static_cast<std::uint32_t>(bytes);
  if (address % size != 0) fail("misaligned: shared memory");
  if (address + size > block.shared.size()) fail("out of bounds: shared memory");
  return block.shared.data() + address;
}

namespace details {

inline void thread_main() {
  machine().launch->body();
  current().done = machine().progress = true;
  for (;;) yield();
}

inline void make_fiber(Thread& thread) {
  constexpr std::size_t kStackBytes = 256 << 10;
  thread.stack.reset(new char[kStackBytes]);
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = kStackBytes;
  thread.context.uc_link = nullptr;
  makecontext(&thread.context, thread_main, 0);
}

// Runs the cluster whose first block is `first`.
inline void run_cluster(const Launch& launch, Index first) {
  constexpr int kIdleRounds = 3;
  Cluster cluster;
  std::vector<std::unique_ptr<Thread>> threads;
  for (int z = 0; z < launch.cluster[2]; ++z) {
    for (int y = 0; y < launch.cluster[1]; ++y) {
      for (int x = 0; x < launch.cluster[0]; ++x) {
        auto block = std::make_unique<Block>();
        block->cluster = &cluster;
        block->index = {first.x + x, first.y + y, first.z + z};
        block->rank = static_cast<int>(cluster.blocks.size());
        block->shared.assign(static_cast<std::size_t>(launch.shared_bytes), 0xff);
        block->warps.resize(static_cast<std::size_t>((launch.threads + 31) / 32));
        cluster.threads += launch.threads;
        for (int t = 0; t < launch.threads; ++t) {
          auto thread = std::make_unique<Thread>();
          thread->block = block.get();
          thread->index.x = t;
          make_fiber(*thread);
          threads.push_back(std::move(thread));
        }
        cluster.blocks.push_back(std::move(block));
      }
    }
  }
  int idle = 0;
  for (bool alive = true; alive && machine().failure.empty();) {
    alive = machine().progress = false;
    for (const auto& thread : threads) {
      if (thread->done || !machine().failure.empty()) continue;
      alive = true;
      machine().running = thread.get();
      swapcontext(&machine().scheduler, &thread->context);
    }
    idle = machine().progress ? 0 : idle + 1;
    if (alive && idle == kIdleRounds) machine().failure = "deadlock";
  }
}

}  // namespace details

inline std::string run(const Launch& launch) {
  machine().launch = &launch;
  machine().failure.clear();
  for (int z = 0; z < launch.grid[2]; z += launch.cluster[2]) {
    for (int y = 0; y < launch.grid[1]; y += launch.cluster[1]) {
      for (int x = 0; x < launch.grid[0] && machine().failure.empty(); x += launch.cluster[0]) {
        details::run_cluster(launch, {x, y, z});
      }
    }
  }
  return machine().failure;
}

}  // namespace emulation
