// Capture, L2 flush and replay.
#include "evaluate/cuda/graph_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace warpsmith::cuda {

namespace {

constexpr double kReplayUs = 500;         // wanted length of a replay: event and graph start-up vanish in it
constexpr double kLongestReplayUs = 5e4;  // a replay of more than one launch is no longer than this
constexpr double kHostLaunchUs = 10;      // what a launch outside a graph may take beyond the kernel's time
constexpr double kSlowReplays = 20;       // wanted lengths; a replay longer than this is cut
constexpr int kFewestLaunches = 4, kMostLaunches = 256;
constexpr std::int64_t kFlushFactor = 3;  // of the L2 cache's size

}  // namespace

GraphTimer::GraphTimer(cudaStream_t stream, std::int64_t l2_bytes)
    : stream_(stream),
      flush_(static_cast<std::size_t>(std::max<std::int64_t>(kFlushFactor * l2_bytes, 1 << 20)) / 16 * 16),
      sink_(sizeof(unsigned)),
      start_(make_event()),
      stop_(make_event()) {
  check(cudaMemsetAsync(flush_.data(), 0x5a, flush_.bytes(), stream_), "cudaMemsetAsync");
}

int GraphTimer::launches_for(double us_per_launch) {
  const double wanted = std::ceil(kReplayUs / std::max(us_per_launch, 1e-3));
  const double limit = std::max(1.0, std::floor(kLongestReplayUs / std::max(us_per_launch, 1e-3)));
  return static_cast<int>(std::min(std::clamp<double>(wanted, kFewestLaunches, kMostLaunches), limit));
}

// Lines that a kernel asked to keep (evict-last, persisting windows) are made ordinary first. The flush reads, so that
// no dirty lines of its own are written back while the next launches are timed.
void GraphTimer::flush_l2() {
  check(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
  read_through(flush_.data(), static_cast<std::int64_t>(flush_.bytes()), sink_.as<unsigned>(), stream_);
}

double GraphTimer::timed(const std::function<void()>& queue_work) {
  check(cudaEventRecord(start_.get(), stream_), "cudaEventRecord");
  queue_work();
  check(cudaEventRecord(stop_.get(), stream_), "cudaEventRecord");
  check(cudaEventSynchronize(stop_.get()), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start_.get(), stop_.get()), "cudaEventElapsedTime");
  return 1e3 * static_cast<double>(ms);
}

ArmedGraph GraphTimer::arm(LaunchOnSet launch, int launches, bool cold, const TimingOperands& operands) {
  ArmedGraph graph;
  graph.launch = std::move(launch);
  graph.cold = cold;
  graph.launch(0, stream_);
  const double first_us = timed([&] { graph.launch(0, stream_); });
  // All subjects of a problem get the same number, so that start-up weighs alike; only one far too slow gets fewer.
  const double estimate_us = std::max(first_us - kHostLaunchUs, 0.0);
  const double limit_us = launches <= kFewestLaunches ? 2 * kLongestReplayUs : kSlowReplays * kReplayUs;
  graph.launches = launches * estimate_us <= limit_us ? launches : std::min(launches, launches_for(estimate_us));
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    for (int i = 0; i < graph.launches; ++i) graph.launch(cold ? i % operands.count() : 0, stream_);
  } catch (...) {
    cudaGraph_t unfinished = nullptr;
    cudaStreamEndCapture(stream_, &unfinished);
    if (unfinished != nullptr) cudaGraphDestroy(unfinished);
    throw;
  }
  graph.exec = end_capture(stream_);
  check(cudaGraphLaunch(graph.exec.get(), stream_), "cudaGraphLaunch");
  check(cudaStreamSynchronize(stream_), "the first replay");
  return graph;
}

double GraphTimer::replay(const ArmedGraph& graph, TimingOperands& operands, std::uint16_t poison) {
  operands.poison(graph.sets_written(operands.count()), poison);
  if (graph.cold) {
    flush_l2();
  } else {
    graph.launch(0, stream_);
    operands.poison(1, poison);
  }
  return timed([&] { check(cudaGraphLaunch(graph.exec.get(), stream_), "cudaGraphLaunch"); }) / graph.launches;
}

void GraphTimer::preheat(const ArmedGraph& graph, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    check(cudaGraphLaunch(graph.exec.get(), stream_), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream_), "preheating");
  }
}

}  // namespace warpsmith::cuda
