// Capture, L2 flush and replay.
#include "evaluate/cuda/graph_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "evaluate/gates.h"

namespace warpsmith::cuda {

namespace {

constexpr double kReplayUs = 500;         // wanted length of a replay: event and graph start-up vanish in it
constexpr double kLongestReplayUs = 5e4;  // a replay of more than one launch is no longer than this
constexpr double kSlowReplays = 20;       // wanted lengths; a replay longer than this is cut
constexpr int kFewestLaunches = 4, kMostLaunches = 256;
constexpr std::int64_t kFlushFactor = 3;  // of the L2 cache's size

// What is timed is what was launched: so many kernels and nothing beside them.
void demand_kernels_alone(const Graph& graph, std::size_t kernels) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph.get(), nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(graph.get(), nodes.data(), &count), "cudaGraphGetNodes");
  std::size_t found = 0;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeKernel) ++found;
  }
  if (found == kernels && count == kernels) return;
  throw CudaError(fmt::format("the captured graph has {} nodes, {} of them kernels; {} kernels were launched", count,
                              found, kernels),
                  false);
}

}  // namespace

GraphTimer::GraphTimer(cudaStream_t stream, std::int64_t l2_bytes)
    : stream_(stream),
      flush_(static_cast<std::size_t>(std::max<std::int64_t>(kFlushFactor * l2_bytes, 1 << 20)) / 16 * 16,
             Contents::fixed),
      sink_(sizeof(unsigned), Contents::changing),
      start_(make_event()),
      stop_(make_event()) {
  check(cudaMemsetAsync(flush_.data(), 0x5a, flush_.bytes(), stream_), "cudaMemsetAsync");
}

int GraphTimer::launches_for(double us_per_launch, double batch_us) {
  const double wanted = std::ceil((batch_us > 0 ? batch_us : kReplayUs) / std::max(us_per_launch, 1e-3));
  const double limit = std::max(1.0, std::floor(kLongestReplayUs / std::max(us_per_launch, 1e-3)));
  return static_cast<int>(std::min(std::clamp<double>(wanted, kFewestLaunches, kMostLaunches), limit));
}

// Lines that a kernel asked to keep (evict-last, persisting windows) are made ordinary first. The flush reads, so that
// no dirty lines of its own are written back while the next launches are timed.
void GraphTimer::flush_l2() {
  check(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
  read_through(flush_.data(), static_cast<std::int64_t>(flush_.bytes()), sink_.as<unsigned>(), stream_);
}

// Queueing a graph of many launches takes the host about as long as the device takes for a flush, in one process longer
// than in another. The device starts when all is queued, or it would wait between the two events.
double GraphTimer::timed(const std::function<void()>& queue_work) {
  {
    const StreamGate::Hold hold = gate_.close(stream_);
    check(cudaEventRecord(start_.get(), stream_), "cudaEventRecord");
    queue_work();
    check(cudaEventRecord(stop_.get(), stream_), "cudaEventRecord");
  }
  check(cudaEventSynchronize(stop_.get()), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start_.get(), stop_.get()), "cudaEventElapsedTime");
  return 1e3 * static_cast<double>(ms);
}

ArmedGraph GraphTimer::arm(LaunchOnSet launch, int launches, bool cold, std::size_t kernels) {
  ArmedGraph graph;
  graph.launch = std::move(launch);
  graph.cold = cold;
  graph.launch(0, 0, stream_);
  const double estimate_us = timed([&] { graph.launch(0, 0, stream_); });
  // All subjects of a problem get the same number, so that start-up weighs alike; only one far too slow gets fewer.
  const double limit_us = launches <= kFewestLaunches ? 2 * kLongestReplayUs : kSlowReplays * kReplayUs;
  graph.launches = launches * estimate_us <= limit_us ? launches : std::min(launches, launches_for(estimate_us));
  graph.order.resize(static_cast<std::size_t>(graph.launches));
  std::iota(graph.order.begin(), graph.order.end(), 0);
  std::shuffle(graph.order.begin(), graph.order.end(), std::mt19937_64(draw_seed()));
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    for (int i = 0; i < graph.launches; ++i) graph.launch(graph.inputs_of(i), i, stream_);
  } catch (...) {
    cudaGraph_t unfinished = nullptr;
    cudaStreamEndCapture(stream_, &unfinished);
    if (unfinished != nullptr) cudaGraphDestroy(unfinished);
    throw;
  }
  const Graph captured = end_capture(stream_);
  if (kernels > 0) demand_kernels_alone(captured, kernels * static_cast<std::size_t>(graph.launches));
  graph.exec = instantiate(captured, stream_);
  const double replay_us = timed([&] { check(cudaGraphLaunch(graph.exec.get(), stream_), "cudaGraphLaunch"); });
  graph.estimate_us = replay_us / graph.launches;
  return graph;
}

double GraphTimer::replay(const ArmedGraph& graph, TimingOperands& operands, std::uint16_t poison,
                          const Cleaning& cleaning) {
  operands.poison_all(graph.launches, poison);
  if (cleaning.wipe) cleaning.wipe();
  if (!graph.cold) {
    graph.launch(0, 0, stream_);  // fetches A and B again
    operands.poison(0, 1, poison);
  }
  return replay(graph, cleaning.restore);
}

double GraphTimer::replay(const ArmedGraph& graph, const std::function<void()>& restore) {
  if (restore) restore();
  if (graph.cold) flush_l2();
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
