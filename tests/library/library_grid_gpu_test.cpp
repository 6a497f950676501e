// The library over a grid of shapes through its public interface: every result right, and never slower than auto-tuned
// cuBLASLt beyond noise. Both are replayed from graphs in turns, on operands that rotate through more memory than the
// L2 cache holds. A sample of the papers' grid by default.
//   WARPSMITH_GRID_STEP=1           every so many-th shape; 1: all 1,000 (about half an hour)
//   WARPSMITH_GRID_SHARD=i WARPSMITH_GRID_SHARDS=n   every n-th of those, beginning with the i-th, on device i
//   WARPSMITH_GRID_LIMIT=0.99       the smallest ratio that passes; without wisdom for the shapes it cannot hold
//   WARPSMITH_LIBRARY_EVIDENCE=FILE figures as JSON
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "gpu_support.h"
#include "library/runtime/cublaslt.h"
#include "problem/grids.h"

namespace warpsmith::library::testing {
namespace {

constexpr std::size_t kFinalists = 8;
constexpr int kRounds = 15, kRoundsAgain = 45;
constexpr double kNoise = 0.99;
constexpr double kRotateBytes = 256e6, kMostRotateBytes = 16e9;
constexpr std::int64_t kMostSets = 32;
constexpr double kShortestReplayUs = 300;

// A graph of launches on all operand sets, one after another.
class Replay {
 public:
  Replay(cudaStream_t stream, std::size_t launches, const std::function<bool(std::size_t)>& launch) : stream_(stream) {
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    bool good = true;
    for (std::size_t i = 0; i < launches; ++i) good = launch(i) && good;
    cudaGraph_t graph = nullptr;
    const cudaError_t captured = cudaStreamEndCapture(stream, &graph);
    if (captured == cudaSuccess) {
      std::size_t nodes = 0;
      cuda(cudaGraphGetNodes(graph, nullptr, &nodes));
      if (good && nodes >= launches) cuda(cudaGraphInstantiate(&executable_, graph, 0));
      cuda(cudaGraphDestroy(graph));
    } else {
      static_cast<void>(cudaGetLastError());  // an algorithm that cannot be captured is one that does not take part
    }
    launches_ = launches;
    cuda(cudaEventCreate(&start_));
    cuda(cudaEventCreate(&stop_));
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  bool good() const { return executable_ != nullptr; }

  // Microseconds of one launch.
  double time_us() const {
    cuda(cudaEventRecord(start_, stream_));
    cuda(cudaGraphLaunch(executable_, stream_));
    cuda(cudaEventRecord(stop_, stream_));
    cuda(cudaEventSynchronize(stop_));
    float ms = 0;
    cuda(cudaEventElapsedTime(&ms, start_, stop_));
    return 1000.0 * ms / static_cast<double>(launches_);
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  std::size_t launches_ = 0;
};

// One shape: operand sets, and everything that runs on them.
class Contest {
 public:
  Contest(const Shape& shape, const Handle& handle, const CublasLt& cublaslt, const DeviceMemory& workspace)
      : handle_(handle), cublaslt_(cublaslt), workspace_(workspace) {
    TestCall::Shape made;
    made.product = packed(shape.m, shape.n, shape.k, false, true);
    const double bytes = 2.0 * static_cast<double>(shape.m * shape.k + shape.n * shape.k + shape.m * shape.n);
    const double wanted =
        std::min(std::ceil(kRotateBytes / bytes), std::max(1.0, std::floor(kMostRotateBytes / bytes)));
    const auto sets = std::clamp(static_cast<std::int64_t>(wanted), std::int64_t{1}, kMostSets);
    for (std::int64_t i = 0; i < sets; ++i) {
      sets_.push_back(std::make_unique<TestCall>(made));
      sets_.back()->fill(stream_.get());
    }
    EXPECT_FALSE(key_of(sets_.front()->problem(), key_));
    key_.flags |= kCallAligned;
    stream_.wait();
  }

  bool right() {
    const TestCall& call = *sets_.front();
    if (call.run(handle_.get(), stream_.get()) != WARPSMITH_STATUS_SUCCESS) return false;
    const Judged judged = call.judged(stream_.get());
    return judged.elements > 0 && judged.wrong == 0 && judged.touched == 0;
  }
  bool own() const { return sets_.front()->takes_kernel(handle_); }

  // cuBLASLt's time over the library's: the median of paired replays. 0: the library cannot be captured.
  double ratio() {
    std::unique_ptr<LtMatmul> best = auto_tuned();
    if (!best) return 0;
    Replay probe(stream_.get(), sets_.size(), ours());
    if (!probe.good()) return 0;
    probe.time_us();
    const double estimate_us = std::max(0.5, probe.time_us());
    const auto repeats = std::max<std::size_t>(
        1, static_cast<std::size_t>(kShortestReplayUs / estimate_us / static_cast<double>(sets_.size())));
    const std::size_t launches = sets_.size() * repeats;
    const Replay library(stream_.get(), launches, ours()), baseline(stream_.get(), launches, theirs(*best));
    double ratio = paired(library, baseline, kRounds);
    if (ratio < kNoise) ratio = paired(library, baseline, kRoundsAgain);
    return ratio;
  }

 private:
  std::function<bool(std::size_t)> ours() const {
    return [this](std::size_t i) {
      return sets_[i % sets_.size()]->run(handle_.get(), stream_.get()) == WARPSMITH_STATUS_SUCCESS;
    };
  }
  std::function<bool(std::size_t)> theirs(const LtMatmul& matmul) const {
    return [this, &matmul](std::size_t i) {
      const TestCall& set = *sets_[i % sets_.size()];
      const CallArguments arguments = {{set.a(), set.b(), set.c()}, 1, 0, workspace_.as<std::byte>()};
      return matmul.run(arguments, stream_.get()) == CUBLAS_STATUS_SUCCESS;
    };
  }

  static double paired(const Replay& library, const Replay& baseline, int rounds) {
    library.time_us();
    baseline.time_us();
    std::vector<double> ratios;
    for (int i = 0; i < rounds; ++i) {
      // Who goes first changes.
      const double first = (i % 2 == 0 ? library : baseline).time_us();
      const double second = (i % 2 == 0 ? baseline : library).time_us();
      ratios.push_back(i % 2 == 0 ? second / first : first / second);
    }
    return median(ratios);
  }

  // The fastest of all that the heuristic offers; those near it are timed again.
  std::unique_ptr<LtMatmul> auto_tuned() const {
    std::vector<std::pair<double, std::unique_ptr<LtMatmul>>> timed;
    for (const std::string& setting : LtMatmul::settings(cublaslt_, key_)) {
      auto matmul = LtMatmul::prepare(cublaslt_, key_, setting);
      if (!matmul || !(*matmul)->has_setting()) continue;
      const Replay replay(stream_.get(), sets_.size(), theirs(**matmul));
      if (!replay.good()) continue;
      replay.time_us();
      timed.emplace_back(replay.time_us(), std::move(*matmul));
    }
    std::sort(timed.begin(), timed.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    if (timed.size() > kFinalists) timed.resize(kFinalists);
    for (auto& [time_us, matmul] : timed) {
      const Replay replay(stream_.get(), sets_.size(), theirs(*matmul));
      std::vector<double> times;
      for (int i = 0; i < 7; ++i) times.push_back(replay.time_us());
      time_us = median(times);
    }
    const auto best =
        std::min_element(timed.begin(), timed.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    return best == timed.end() ? nullptr : std::move(best->second);
  }

  const Handle& handle_;
  const CublasLt& cublaslt_;
  const DeviceMemory& workspace_;
  TestStream stream_;
  std::vector<std::unique_ptr<TestCall>> sets_;
  CallKey key_;
};

TEST(LibraryGrid, IsRightAndNeverSlowerThanAutoTunedCublasLt) {
  WARPSMITH_NEEDS_GPU();
  const auto step = static_cast<std::size_t>(setting("WARPSMITH_GRID_STEP", 97));
  const auto shard = static_cast<std::size_t>(setting("WARPSMITH_GRID_SHARD", 0));
  const auto shards = static_cast<std::size_t>(setting("WARPSMITH_GRID_SHARDS", 1));
  const double limit = setting("WARPSMITH_GRID_LIMIT", 0);
  cuda(cudaSetDevice(static_cast<int>(shard) % device_count()));
  const Handle handle;
  const auto cublaslt = CublasLt::open();
  ASSERT_TRUE(cublaslt) << cublaslt.error().message;
  const DeviceMemory workspace(kLtWorkspaceBytes);
  const auto shapes = named_grid("cuda-l2").value();
  std::size_t count = 0, right = 0, own = 0;
  double worst = 1e9, logs = 0;
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t at = shard * step; at < shapes.size(); at += step * shards) {
    Contest contest(shapes[at], handle, **cublaslt, workspace);
    const bool good = contest.right();
    const double ratio = contest.ratio();
    const Shape& shape = shapes[at];
    ++count;
    right += good ? 1 : 0;
    own += contest.own() ? 1 : 0;
    worst = std::min(worst, ratio);
    logs += std::log(std::max(ratio, 1e-9));
    rows.push_back({shape.m, shape.n, shape.k, ratio, contest.own(), good});
    EXPECT_TRUE(good) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_GE(ratio, limit) << shape.m << "x" << shape.n << "x" << shape.k;
  }
  const std::string name = shards > 1 ? "grid_" + std::to_string(shard) : "grid";
  record(name, {{"shapes", count},
                {"right", right},
                {"worst_ratio", worst},
                {"geomean", std::exp(logs / static_cast<double>(count))},
                {"own_share", static_cast<double>(own) / static_cast<double>(count)},
                {"rows", rows}});
  EXPECT_EQ(right, count);
}

}  // namespace
}  // namespace warpsmith::library::testing
