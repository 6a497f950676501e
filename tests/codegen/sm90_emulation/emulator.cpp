// Fibers, meetings and shared memory of the emulated grid.
#include "emulator.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace emulation {

namespace {

constexpr std::size_t kStackBytes = 96 << 10;
constexpr int kIdleRounds = 50;  // of all fibers, with nothing moved: a deadlock

}  // namespace

Grid::Grid(unsigned blocks, unsigned threads, unsigned cluster_size, unsigned seed) : random_(seed) {
  for (unsigned index = 0; index < blocks; ++index) {
    if (index % cluster_size == 0) clusters_.push_back(std::make_unique<Cluster>());
    Cluster& cluster = *clusters_.back();
    blocks_.push_back(std::make_unique<Block>());
    Block& block = *blocks_.back();
    block.cluster = &cluster;
    block.rank = index % cluster_size;
    block.index = index;
    block.warps.resize(threads / 32);
    cluster.blocks.push_back(&block);
    cluster.alive += static_cast<int>(threads);
    for (unsigned thread = 0; thread < threads; ++thread) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_.back()->block = &block;
      fibers_.back()->thread = thread;
    }
  }
}

void Grid::enter() {
  Grid& grid = current();
  grid.kernel_();
  Fiber& fiber = grid.fiber();
  if (!fiber.open_group.empty() || !fiber.groups.empty()) grid.fail("a thread ends before its bulk stores");
  fiber.done = true;
  --fiber.block->cluster->alive;
  grid.moved();
  for (;;) grid.yield();
}

void Grid::start(Fiber& fiber) {
  fiber.stack.reset(new char[kStackBytes]);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &Grid::enter, 0);
}

std::string Grid::run(const std::function<void()>& kernel) {
  current_ = this;
  kernel_ = kernel;
  for (const auto& fiber : fibers_) start(*fiber);
  int idle = 0;
  for (bool alive = true; alive && failure_.empty();) {
    alive = progress_ = false;
    const std::size_t first = random_() % fibers_.size();
    for (std::size_t i = 0; i < fibers_.size() && failure_.empty(); ++i) {
      running_ = fibers_[(first + i) % fibers_.size()].get();
      if (running_->done) continue;
      alive = true;
      swapcontext(&scheduler_, &running_->context);
    }
    land_some();
    idle = progress_ ? 0 : idle + 1;
    if (idle == kIdleRounds) return "deadlock";
  }
  if (failure_.empty() && !in_flight_.empty()) failure_ = "copies are in flight when the grid ends";
  return failure_;
}

void Grid::land_some() {
  for (std::size_t left = 8 + in_flight_.size() / 4; left > 0 && !in_flight_.empty() && failure_.empty(); --left) {
    std::swap(in_flight_[random_() % in_flight_.size()], in_flight_.back());
    const std::function<void()> copy = std::move(in_flight_.back());
    in_flight_.pop_back();
    copy();
    moved();
  }
}

void Grid::meet(Meeting& meeting, int threads, bool wait) {
  const unsigned generation = meeting.generation;
  if (++meeting.here > threads) fail("more threads at a barrier than it counts");
  if (meeting.here == threads) {
    meeting.here = 0;
    ++meeting.generation;
    moved();
  } else if (wait) {
    wait_until([&] { return meeting.generation != generation; });
  }
}

void Grid::fail(const std::string& what) {
  failure_ = what + " (block " + std::to_string(block().index) + ", thread " + std::to_string(fiber().thread) + ")";
  for (;;) yield();
}

unsigned char* shared_memory(Cluster& cluster, std::uint32_t address, std::uint32_t alignment) {
  const std::uint32_t rank = address >> kRankShift, offset = address & ((1u << kRankShift) - 1);
  if (rank >= cluster.blocks.size() || offset >= kSharedBytes || offset % alignment != 0) {
    Grid::current().fail("no such shared address: " + std::to_string(offset) + " of rank " + std::to_string(rank));
  }
  return cluster.blocks[rank]->memory.data() + offset;
}

AsyncBarrier& async_barrier(Cluster& cluster, std::uint32_t address) {
  shared_memory(cluster, address, 8);
  auto& barriers = cluster.blocks[address >> kRankShift]->barriers;
  const auto found = barriers.find(address & ((1u << kRankShift) - 1));
  if (found == barriers.end()) Grid::current().fail("a barrier is used before it is made");
  return found->second;
}

void arrive(AsyncBarrier& barrier, int arrivals, std::int64_t bytes) {
  barrier.pending -= arrivals;
  barrier.bytes += bytes;
  if (barrier.pending < 0) Grid::current().fail("more arrivals than a barrier counts");
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.expected;
  Grid::current().moved();
}

float half_to_float(std::uint16_t bits) {
  static const std::vector<float> kValues = [] {
    std::vector<float> values(1 << 16);
    for (int i = 0; i < 1 << 16; ++i) {
      const int exponent = i >> 10 & 31, fraction = i & 1023;
      const float magnitude = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                              : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                              : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
      values[static_cast<std::size_t>(i)] = i >> 15 != 0 ? -magnitude : magnitude;
    }
    return values;
  }();
  return kValues[bits];
}

std::uint16_t float_to_half(float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7fff;
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent, -13);
  // Eleven bits, to nearest even; one more than they hold carries into the exponent by itself.
  const int significand = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));
  const int bits = significand < 1024 ? significand : (exponent + 14) * 1024 + significand - 1024;
  return static_cast<std::uint16_t>(sign | bits);
}

float bfloat_to_float(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

std::uint16_t float_to_bfloat(float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  return static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

}  // namespace emulation
