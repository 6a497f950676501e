// Timing on a real device: modes beside one another, state put back before every replay, the exhaustive search, a
// baseline against itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "evaluate/cuda/device_work.h"
#include "evaluate/cuda/memory_watch.h"
#include "evaluate/cuda/stream_gate.h"
#include "evaluate/timing.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

class CudaTiming : public testing::Test {
 protected:
  void SetUp() override { WARPSMITH_NEED_GPU(backend_); }
  Backend& backend() { return **backend_; }

  void prepare(const std::string& text) { ASSERT_TRUE(backend().prepare(test_problem(text), 1).ok()); }
  void load(const Candidate& candidate) {
    const Result<Artifact> artifact = test_compiler().compile(candidate);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const Status loaded = backend().load(*artifact, std::get<CudaLaunch>(candidate.launch));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }
  std::vector<std::string> open_baselines() {
    const auto names = backend().open_baselines();
    EXPECT_TRUE(names.ok()) << (names.ok() ? "" : names.error().message);
    return names.ok() ? *names : std::vector<std::string>{};
  }
  TimingReport timed(TimingPlan plan) {
    auto report = time_subjects(backend(), plan);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    return report.ok() ? std::move(*report) : TimingReport{};
  }

  Result<std::unique_ptr<Backend>> backend_ = make_cuda_backend(0);
};

TEST_F(CudaTiming, HeldWorkDoesNotWaitForTheHost) {
  const cuda::Stream stream = cuda::make_stream();
  const cuda::Event start = cuda::make_event(), stop = cuda::make_event();
  cuda::StreamGate gate;
  const auto milliseconds = [&](bool held) {
    std::unique_ptr<cuda::StreamGate::Hold> hold;
    if (held) hold.reset(new cuda::StreamGate::Hold(gate.close(stream.get())));
    cuda::check(cudaEventRecord(start.get(), stream.get()), "cudaEventRecord");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cuda::check(cudaEventRecord(stop.get(), stream.get()), "cudaEventRecord");
    hold.reset();
    cuda::check(cudaEventSynchronize(stop.get()), "cudaEventSynchronize");
    float elapsed = 0;
    cuda::check(cudaEventElapsedTime(&elapsed, start.get(), stop.get()), "cudaEventElapsedTime");
    return elapsed;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(milliseconds(false), 4.5F);
    EXPECT_LT(milliseconds(true), 0.5F);
  }
}

TEST_F(CudaTiming, TheWatchSeesWritesBesideWhatMayChange) {
  using cuda::Contents;
  constexpr std::size_t kPage = 2 << 20;
  const cuda::Stream stream = cuda::make_stream();
  const cuda::DeviceBuffer lasting(1000), changing(1000, Contents::changing), unwatched(1000, Contents::unwatched);
  cuda::MemoryWatch watch(stream.get(), std::size_t{1} << 40);  // no sample: all of it
  const auto set = [&](const cuda::DeviceBuffer& buffer, std::size_t at, std::uint16_t value) {
    cuda::set_pattern(buffer.as<std::uint16_t>(at), 1, value, stream.get());
  };
  const auto changed_by = [&](const cuda::DeviceBuffer& buffer, std::size_t at) {
    set(buffer, at, 1);
    watch.forget();
    EXPECT_EQ(watch.look(), 0u);
    EXPECT_EQ(watch.changed_bytes(), 0u);
    set(buffer, at, 2);
    return watch.changed_bytes();
  };
  for (const std::size_t at : {std::size_t{0}, std::size_t{998}, std::size_t{1000}, kPage - 2}) {
    EXPECT_EQ(changed_by(lasting, at), kPage) << at;
    EXPECT_EQ(changed_by(changing, at), at < 1000 ? 0 : kPage - 1000) << at;
  }
  EXPECT_EQ(changed_by(unwatched, 0), 0u);
  EXPECT_EQ(changed_by(lasting, 0), kPage);
  {
    const cuda::DeviceBuffer late(3 * kPage);
    set(late, 2 * kPage, 1);
    EXPECT_EQ(watch.look(), 0u);  // takes the new one as it is; what was known stays known
    set(late, 2 * kPage, 2);
    EXPECT_EQ(watch.changed_bytes(), 4 * kPage);
  }
  EXPECT_EQ(watch.changed_bytes(), kPage) << "freed memory is nobody's";
  watch.accept();
  EXPECT_EQ(watch.changed_bytes(), 0u);
  // What is fixed stays known whoever else may have written.
  const cuda::DeviceBuffer fixed(1000, Contents::fixed);
  set(fixed, 0, 1);
  set(lasting, 0, 1);
  watch.look();
  watch.forget();
  set(fixed, 0, 2);
  set(lasting, 0, 2);
  EXPECT_EQ(watch.look(), kPage);
  EXPECT_EQ(watch.look(), kPage) << "nobody is blamed for what was there before";
  EXPECT_EQ(watch.changed_bytes(), kPage);
}

// More buffers than one launch hashes, half of them with parts that end inside a block; a sample of them, too.
TEST_F(CudaTiming, TheWatchSeesTheOneOfManyBuffersThatChanged) {
  const cuda::Stream stream = cuda::make_stream();
  const auto contents = [](std::size_t i) { return i % 2 == 0 ? cuda::Contents::fixed : cuda::Contents::changing; };
  std::vector<cuda::DeviceBuffer> buffers;
  for (std::size_t i = 0; i < 300; ++i) buffers.emplace_back(2000 + 4096 * (i % 3), contents(i));
  for (const std::size_t most : {std::size_t{1} << 40, std::size_t{64} << 20}) {
    cuda::MemoryWatch watch(stream.get(), most);
    watch.look();
    for (const std::size_t changed : {0, 1, 119, 120, 121, 240, 299}) {
      const cuda::DeviceBuffer& buffer = buffers[changed];
      const std::size_t whole = cuda::DeviceBuffer::mapped_bytes(buffer.bytes());
      EXPECT_EQ(watch.changed_bytes(), 0u) << changed;
      cuda::set_pattern(buffer.as<std::uint16_t>(), static_cast<std::int64_t>(whole / 2),
                        static_cast<std::uint16_t>(changed + most % 1000 + 1), stream.get());
      EXPECT_EQ(watch.changed_bytes(), changed % 2 == 0 ? whole : whole - buffer.bytes()) << changed;
      watch.accept();
    }
  }
}

// Wrong where a block finds in its shared memory what an earlier launch on these operands left; the blocks of one
// launch all run at once.
TEST_F(CudaTiming, SharedMemoryIsClearBeforeEveryCall) {
  const Problem problem = test_problem("256x256x256 nn");
  prepare("256x256x256 nn");
  const Misdeed keeping{
      "", "__shared__ const unsigned short* volatile kept[3000]; const bool found = kept[2999] == a; __syncthreads();",
      "", "c[i * n + j] = found ? 0x7e00 : to_half(sum); if (threadIdx.x == 0) kept[2999] = a;"};
  load(elementwise_candidate(problem, backend().machine(), naive_source(keeping)));
  TimingPlan plan;
  plan.subjects = {{0, "candidate", false}};
  plan.mode = TimingMode::call;
  plan.min_samples = plan.most_samples = 50;
  plan.seconds = 0;
  timed(plan);
  const CheckReport outputs = backend().check_timed_outputs(0).value();
  EXPECT_TRUE(outputs.passed) << outputs.detail;
}

// A call pays for the launch and the wait: microseconds on top of what a launch costs back to back.
TEST_F(CudaTiming, CallsCostALaunchAndAWaitMore) {
  prepare("1024x1024x1024 nn");
  load(elementwise_candidate(test_problem("1024x1024x1024 nn"), backend().machine(), naive_source()));
  const auto names = open_baselines();
  ASSERT_FALSE(names.empty());
  TimingPlan plan;
  plan.subjects = {{0, "candidate", false}, {1, names[0], false}};
  plan.seconds = 0.1;
  const TimingReport offline = timed(plan);
  plan.mode = TimingMode::call;
  const TimingReport calls = timed(plan);
  plan.mode = TimingMode::server;
  plan.server = {1000, 30};
  const TimingReport server = timed(plan);
  ASSERT_EQ(server.measurements.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const double own_us = offline.measurements[i].cold.median_us;
    EXPECT_GT(calls.measurements[i].cold.median_us, own_us + 1) << i;
    EXPECT_LT(calls.measurements[i].cold.median_us, own_us * 1.2 + 100) << i;
    EXPECT_GT(server.measurements[i].cold.median_us, own_us + 1) << i;
    EXPECT_EQ(server.measurements[i].cold.samples, 30) << i;
    EXPECT_TRUE(backend().check_timed_outputs(static_cast<int>(i)).value().passed) << i;
    EXPECT_GT(offline.measurements[i].clock_mhz, 100) << i;
    EXPECT_LE(offline.measurements[i].clock_min_mhz, offline.measurements[i].clock_mhz) << i;
  }
}

// Right as long as a replay's launches are counted from the image after loading; without that the counter runs over.
TEST_F(CudaTiming, GlobalsAreRestoredBeforeEveryReplay) {
  const Problem problem = test_problem("64x64x64 nn");
  prepare("64x64x64 nn");
  const Misdeed counting{"__device__ unsigned launches;", "if (i == 0 && j == 0) atomicAdd(&launches, 1u);", "",
                         "c[i * n + j] = launches > 600 && i == 7 && j == 9 ? 0x7e00 : to_half(sum);"};
  load(elementwise_candidate(problem, backend().machine(), naive_source(counting)));
  TimingPlan plan;
  plan.subjects = {{0, "candidate", false}};
  plan.min_samples = 20;
  plan.seconds = 0;
  const TimingReport report = timed(plan);
  ASSERT_EQ(report.measurements.size(), 1u);
  ASSERT_GT(report.measurements[0].cold.launches_per_sample * 20, 1200) << "the counter would have run over";
  ASSERT_LT(report.measurements[0].cold.launches_per_sample, 600);
  const CheckReport outputs = backend().check_timed_outputs(0).value();
  EXPECT_TRUE(outputs.passed) << outputs.detail;
  plan.mode = TimingMode::call;
  plan.min_samples = 800;
  plan.most_samples = 800;
  timed(plan);
  EXPECT_TRUE(backend().check_timed_outputs(0).value().passed);
}

// A result that is there already is of no use, cold or warm: nobody finds its own output in place.
TEST_F(CudaTiming, SkippingWhatIsAlreadyThereGainsNothing) {
  const Problem problem = test_problem("256x256x4096 nn");
  prepare("256x256x4096 nn");
  TimingPlan plan;
  plan.subjects = {{0, "candidate", false}};
  plan.seconds = 0.1;
  load(elementwise_candidate(problem, backend().machine(), naive_source()));
  const TimingReport honest = timed(plan);
  const Misdeed lazy{"", "if (((c[i * n + j] >> 10) & 31) != 31) return;", ""};  // neither NaN nor poison: done before
  load(elementwise_candidate(problem, backend().machine(), naive_source(lazy)));
  const TimingReport skipping = timed(plan);
  ASSERT_TRUE(honest.measurements.size() == 1 && skipping.measurements.size() == 1);
  EXPECT_GT(skipping.measurements[0].cold.median_us, 0.8 * honest.measurements[0].cold.median_us);
  EXPECT_GT(skipping.measurements[0].warm.median_us, 0.8 * honest.measurements[0].warm.median_us);
}

TEST_F(CudaTiming, TheExhaustiveSearchIsNoSlowerThanTheHeuristic) {
  prepare("512x512x2048 nn");
  auto names = open_baselines();
  double last_share = 0;
  const auto added = backend().open_exhaustive(8, [&](double share, const std::string&) {
    EXPECT_GE(share, last_share);
    last_share = share;
  });
  ASSERT_TRUE(added.ok()) << added.error().message;
  ASSERT_EQ(*added, (std::vector<std::string>{"cublaslt-exhaustive-nn", "cublaslt-exhaustive-tn"}));
  EXPECT_GT(last_share, 0);
  names.insert(names.end(), added->begin(), added->end());
  TimingPlan plan;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool wanted = names[i] == "cublaslt-auto-nn" || names[i] == "cublaslt-exhaustive-nn";
    if (wanted) plan.subjects.push_back({static_cast<int>(i) + 1, names[i], false});
  }
  ASSERT_EQ(plan.subjects.size(), 2u);
  const TimingReport report = timed(plan);
  ASSERT_EQ(report.measurements.size(), 2u);
  EXPECT_LT(report.measurements[1].cold.median_us, 1.05 * report.measurements[0].cold.median_us);
  EXPECT_NE(report.measurements[1].detail.find("possible ones timed"), std::string::npos)
      << report.measurements[1].detail;
  RecordProperty("auto", report.measurements[0].detail);
  RecordProperty("exhaustive", report.measurements[1].detail);
}

// With few free bytes a problem has fewer sets, and a replay as many launches as sets.
TEST_F(CudaTiming, EveryLaunchHasItsOwnOperands) {
  prepare("64x64x64 nn");
  ASSERT_FALSE(open_baselines().empty());
  ASSERT_TRUE(backend().arm(1, true, false).ok());
  EXPECT_EQ(backend().launches_per_batch(1, true, false), 256);
  backend().set_batch(60, 0);
  ASSERT_TRUE(backend().arm(1, true, false).ok());
  EXPECT_LE(backend().launches_per_batch(1, true, false), 200);
  EXPECT_GE(backend().launches_per_batch(1, true, false), 4);
}

TEST(CudaEvaluator, ABaselineAgainstItselfIsOne) {
  EvaluatorOptions options;
  options.target = Target::sm80;
  const auto evaluator = Evaluator::start(options);
  WARPSMITH_NEED_GPU(evaluator);
  for (const char* text : {"64x64x64 nn", "512x512x512 tn", "2048x2048x2048 nn", "4096x4096x4096 tn"}) {
    TimingEffort effort;
    effort.seconds = 0.25;
    effort.min_samples = 25;
    effort.baselines = {"cublaslt-auto-"};
    const auto subjects = (*evaluator)->against_itself(test_problem(text), effort);
    ASSERT_TRUE(subjects.ok()) << subjects.error().message;
    ASSERT_EQ(subjects->size(), 4u) << text;
    for (std::size_t i = 0; i < 4; i += 2) {
      const double ratio = (*subjects)[i].cold.median_us / (*subjects)[i + 1].cold.median_us;
      EXPECT_NEAR(ratio, 1, 0.01) << text << " " << (*subjects)[i].subject;
    }
  }
}

TEST(CudaEvaluator, ModesReachTheDevice) {
  EvaluatorOptions options;
  options.target = Target::sm80;
  const auto evaluator = Evaluator::start(options);
  WARPSMITH_NEED_GPU(evaluator);
  const Problem problem = test_problem("100x88x512 nn");
  const Candidate candidate = elementwise_candidate(problem, (*evaluator)->machine(), naive_source());
  const Result<Artifact> artifact = test_compiler().compile(candidate);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  for (const TimingMode mode : {TimingMode::offline, TimingMode::call, TimingMode::server, TimingMode::cuda_l2}) {
    TimingEffort effort;
    effort.seconds = 0.05;
    effort.mode = mode;
    effort.server = {500, 20};
    const auto comparison = (*evaluator)->compare(problem, candidate, *artifact, effort);
    ASSERT_TRUE(comparison.ok()) << to_string(mode) << ": " << comparison.error().message;
    EXPECT_EQ(comparison->subjects.size(), 7u);
    for (const Measurement& subject : comparison->subjects) EXPECT_EQ(subject.mode, to_string(mode));
    ASSERT_TRUE(comparison->score.has_value()) << to_string(mode);
    EXPECT_NE(comparison->score->baseline.find("-nn"), std::string::npos);
  }
}

}  // namespace
}  // namespace warpsmith
