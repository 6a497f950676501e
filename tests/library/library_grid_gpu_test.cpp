// The library over a grid of shapes through its public interface: every result right, and never slower than auto-tuned
// cuBLASLt beyond noise. Both are replayed from graphs in turns, with operands of their own for each launch and an L2
// cache that holds none of them. A sample of the papers' grid by default; about 0.15 s a shape once kernels are there.
//   WARPSMITH_GRID_STEP=1           every so many-th shape; 1: all 1,000
//   WARPSMITH_GRID_SHARD=i WARPSMITH_GRID_SHARDS=n   every n-th of those, beginning with the i-th
//   WARPSMITH_GRID_ROWS=FILE        where rows go as they are made (grid_rows.h); shapes that are there are not run
//   again WARPSMITH_GRID_SECONDS=240      begins no shape after that; fails, saying how many are left
//   WARPSMITH_GRID_LIMIT=0.99       the smallest ratio that passes; 0.5 by default, which holds without wisdom too
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "gpu_support.h"
#include "grid_rows.h"
#include "library/runtime/cublaslt.h"
#include "problem/grids.h"

namespace warpsmith::library::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFinalists = 8;
constexpr int kRounds = 15, kRoundsAgain = 45, kFinalRounds = 7, kFinalRoundsOfLong = 3;
constexpr double kNoise = 0.99;
constexpr double kLooseLimit = 0.5;
constexpr double kReplayUs = 200;  // launches of at least about as long, or as many as memory holds operands for
constexpr std::int64_t kMostLaunches = 128, kMemoryBytes = std::int64_t{4} << 30, kFlushBytes = 128 << 20;
constexpr int kHeuristicResults = 100, kHeuristicResultsOfLong = 30;
constexpr double kLongUs = 1000;  // kernels of which few are tried, and once

// What one launch takes at the least on a large GPU: for how many launches make a replay.
double estimate_us(const Shape& shape) {
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  return std::max({2.0, 2 * m * n * k / 600e6, 2 * (m * k + n * k + m * n) / 4e6});
}

// What all shapes share.
struct Bench {
  explicit Bench(const CublasLt& opened) : cublaslt(opened) {}
  void flush() const { read_through(flushed.as<void>(), kFlushBytes, sink.as<unsigned>(), stream.get()); }

  const CublasLt& cublaslt;
  Handle handle;
  TestStream stream;
  DeviceMemory memory{static_cast<std::size_t>(kMemoryBytes)}, flushed{static_cast<std::size_t>(kFlushBytes)};
  DeviceMemory workspace{kLtWorkspaceBytes}, sink{sizeof(unsigned)};
};

// A graph of launches, each on operands of its own.
class Replay {
 public:
  Replay(const Bench& bench, std::size_t launches, const std::function<bool(std::size_t)>& launch) : bench_(bench) {
    const cudaStream_t stream = bench.stream.get();
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
    const cudaStream_t stream = bench_.stream.get();
    bench_.flush();
    cuda(cudaEventRecord(start_, stream));
    cuda(cudaGraphLaunch(executable_, stream));
    cuda(cudaEventRecord(stop_, stream));
    cuda(cudaEventSynchronize(stop_));
    float ms = 0;
    cuda(cudaEventElapsedTime(&ms, start_, stop_));
    return 1000.0 * ms / static_cast<double>(launches_);
  }

 private:
  const Bench& bench_;
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  std::size_t launches_ = 0;
};

// One shape: operand sets, and everything that runs on them.
class Contest {
 public:
  Contest(const Shape& shape, const Bench& bench)
      : bench_(bench), product_(packed(shape.m, shape.n, shape.k, false, true)), estimate_us_(estimate_us(shape)) {
    const auto aligned = [](std::int64_t elements) { return (elements + 127) / 128 * 128; };
    const std::int64_t a = aligned(shape.m * shape.k), b = aligned(shape.n * shape.k), c = aligned(shape.m * shape.n);
    const auto wanted = static_cast<std::int64_t>(std::ceil(kReplayUs / estimate_us_));
    const std::int64_t fit = kMemoryBytes / 2 / (a + b + c);
    const std::int64_t sets = std::clamp(std::min(wanted, fit), std::int64_t{1}, kMostLaunches);
    std::uint16_t* at = bench.memory.as();
    for (std::int64_t i = 0; i < sets; ++i, at += a + b + c) {
      sets_.push_back({at, at + a, at + a + b});
      const auto seed = static_cast<std::uint64_t>(1000 * i);
      fill_matrix(at, shape.m, shape.k, shape.k, false, seed + 1, stream());
      fill_matrix(at + a, shape.n, shape.k, shape.k, false, seed + 2, stream());
      fill_bits(at + a + b, c, 0x7e00, stream());  // NaN
    }
    problem_.op_b = WARPSMITH_OP_T;
    problem_.m = shape.m;
    problem_.n = shape.n;
    problem_.k = shape.k;
    problem_.lda = product_.lda;
    problem_.ldb = product_.ldb;
    problem_.ldc = product_.ldc;
    problem_.batch_count = 1;
    EXPECT_FALSE(key_of(problem_, key_));
    key_.flags |= kCallAligned;
    bench_.stream.wait();
  }

  bool right() const {
    if (!run(0)) return false;
    constexpr double kWhole = 4e9;  // products up to this size are judged whole, larger ones by a sample of rows
    const auto size =
        static_cast<double>(product_.m) * static_cast<double>(product_.n) * static_cast<double>(product_.k);
    const DeviceMemory total(sizeof(Judged));
    cuda(cudaMemsetAsync(total.as<void>(), 0, sizeof(Judged), stream()));
    judge(product_, sets_[0].a, sets_[0].b, nullptr, sets_[0].c, static_cast<std::int64_t>(size / kWhole) + 1,
          total.as<Judged>(), stream());
    Judged judged{};
    cuda(cudaMemcpyAsync(&judged, total.as<void>(), sizeof judged, cudaMemcpyDeviceToHost, stream()));
    bench_.stream.wait();
    return judged.elements > 0 && judged.wrong == 0;
  }
  bool own() const { return nlohmann::json::parse(bench_.handle.explain(problem_))["runs"] == "kernel"; }

  // cuBLASLt's time over the library's, the median of paired replays, and the library's. 0: one cannot be captured.
  std::pair<double, double> ratio() const {
    const std::unique_ptr<LtMatmul> best = auto_tuned();
    if (!best) return {};
    const Replay library(bench_, sets_.size(), ours()), baseline(bench_, sets_.size(), theirs(*best));
    if (!library.good() || !baseline.good()) return {};
    auto measured = paired(library, baseline, kRounds);
    if (measured.first < kNoise) measured = paired(library, baseline, kRoundsAgain);
    return measured;
  }

 private:
  struct Set {
    std::uint16_t *a, *b, *c;
  };
  cudaStream_t stream() const { return bench_.stream.get(); }

  bool run(std::size_t i) const {
    const Product& p = product_;
    return warpsmith_gemm(bench_.handle.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, p.m, p.n, p.k, 1, sets_[i].a, p.lda,
                          sets_[i].b, p.ldb, 0, sets_[i].c, p.ldc, WARPSMITH_F16, WARPSMITH_COMPUTE_32F,
                          stream()) == WARPSMITH_STATUS_SUCCESS;
  }
  std::function<bool(std::size_t)> ours() const {
    return [this](std::size_t i) { return run(i); };
  }
  std::function<bool(std::size_t)> theirs(const LtMatmul& matmul) const {
    return [this, &matmul](std::size_t i) {
      const CallArguments arguments = {{sets_[i].a, sets_[i].b, sets_[i].c}, 1, 0, bench_.workspace.as<std::byte>()};
      return matmul.run(arguments, stream()) == CUBLAS_STATUS_SUCCESS;
    };
  }

  static std::pair<double, double> paired(const Replay& library, const Replay& baseline, int rounds) {
    library.time_us();
    baseline.time_us();
    std::vector<double> ratios, times;
    for (int i = 0; i < rounds; ++i) {
      // Who goes first changes.
      const double first = (i % 2 == 0 ? library : baseline).time_us();
      const double second = (i % 2 == 0 ? baseline : library).time_us();
      times.push_back(i % 2 == 0 ? first : second);
      ratios.push_back(i % 2 == 0 ? second / first : first / second);
    }
    return {median(ratios), median(times)};
  }

  // The fastest of what the heuristic offers: all are timed once, those in front again.
  std::unique_ptr<LtMatmul> auto_tuned() const {
    struct Timed {
      double us;
      std::unique_ptr<LtMatmul> matmul;
    };
    std::vector<Timed> timed;
    const bool is_long = estimate_us_ > kLongUs;
    for (auto& matmul :
         LtMatmul::prepare_all(bench_.cublaslt, key_, is_long ? kHeuristicResultsOfLong : kHeuristicResults)) {
      const Replay replay(bench_, sets_.size(), theirs(*matmul));
      if (!replay.good()) continue;
      if (!is_long) replay.time_us();
      timed.push_back({replay.time_us(), std::move(matmul)});
    }
    const auto faster = [](const Timed& x, const Timed& y) { return x.us < y.us; };
    std::sort(timed.begin(), timed.end(), faster);
    if (timed.size() > kFinalists) timed.resize(kFinalists);
    for (Timed& finalist : timed) {
      const Replay replay(bench_, sets_.size(), theirs(*finalist.matmul));
      std::vector<double> times;
      for (int i = 0; i < (is_long ? kFinalRoundsOfLong : kFinalRounds); ++i) times.push_back(replay.time_us());
      finalist.us = median(times);
    }
    const auto best = std::min_element(timed.begin(), timed.end(), faster);
    return best == timed.end() ? nullptr : std::move(best->matmul);
  }

  const Bench& bench_;
  Product product_;
  double estimate_us_;
  std::vector<Set> sets_;
  warpsmith_problem_t problem_{};
  CallKey key_;
};

void summarize(const std::vector<GridRow>& rows) {
  double worst = 1e9, logs = 0;
  std::size_t right = 0, own = 0;
  for (const GridRow& row : rows) {
    worst = std::min(worst, row.ratio);
    logs += std::log(std::max(row.ratio, 1e-9));
    right += row.right ? 1 : 0;
    own += row.own ? 1 : 0;
  }
  const auto count = static_cast<double>(rows.size());
  std::printf("grid: %zu shapes, %zu right, worst ratio %.4f, geometric mean %.4f, own share %.3f\n", rows.size(),
              right, worst, std::exp(logs / count), static_cast<double>(own) / count);
}

TEST(LibraryGrid, IsRightAndNeverSlowerThanAutoTunedCublasLt) {
  WARPSMITH_NEEDS_GPU();
  const auto start = Clock::now();
  const auto number = [](const char* name, double otherwise) {
    return static_cast<std::size_t>(setting(name, otherwise));
  };
  const double limit = setting("WARPSMITH_GRID_LIMIT", kLooseLimit), seconds = setting("WARPSMITH_GRID_SECONDS", 1e9);
  const char* file = std::getenv("WARPSMITH_GRID_ROWS");
  GridRows known(file == nullptr ? "" : file);
  const auto shapes = shard_of(named_grid("cuda-l2").value(), number("WARPSMITH_GRID_STEP", 97),
                               number("WARPSMITH_GRID_SHARD", 0), number("WARPSMITH_GRID_SHARDS", 1));
  ASSERT_FALSE(shapes.empty());
  const auto cublaslt = CublasLt::open();
  ASSERT_TRUE(cublaslt) << cublaslt.error().message;
  const Bench bench(**cublaslt);
  std::vector<GridRow> rows;
  std::size_t measured = 0;
  for (const Shape& shape : shapes) {
    if (known.find(shape) == nullptr) {
      if (std::chrono::duration<double>(Clock::now() - start).count() >= seconds) continue;
      GridRow row;
      row.shape = shape;
      const Contest contest(shape, bench);
      row.right = contest.right();
      std::tie(row.ratio, row.us) = contest.ratio();
      row.own = contest.own();
      known.add(row);
      ++measured;
    }
    const GridRow& row = *known.find(shape);
    rows.push_back(row);
    EXPECT_TRUE(row.right) << shape_name(shape);
    EXPECT_TRUE(passes(row, limit)) << shape_name(shape) << ": ratio " << row.ratio << ", limit " << limit;
  }
  ASSERT_FALSE(rows.empty());
  summarize(rows);
  std::printf("grid: %zu measured in %.0f s, %zu known before\n", measured,
              std::chrono::duration<double>(Clock::now() - start).count(), rows.size() - measured);
  EXPECT_EQ(rows.size(), shapes.size()) << shapes.size() - rows.size() << " shapes are left: run it again";
}

}  // namespace
}  // namespace warpsmith::library::testing
