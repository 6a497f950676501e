// The backend in this process: references for every kind of input, facts of the machine, baselines on every layout.
#include <gtest/gtest.h>

#include "evaluate/backend.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

constexpr InputKind kKinds[] = {InputKind::normal,     InputKind::uniform,  InputKind::positive,
                                InputKind::wide_range, InputKind::large,    InputKind::subnormal,
                                InputKind::special,    InputKind::zero_one, InputKind::accumulator};

class CudaBackendTest : public testing::Test {
 protected:
  void SetUp() override { WARPSMITH_NEED_GPU(backend_); }
  Backend& backend() { return **backend_; }

  Result<std::unique_ptr<Backend>> backend_ = make_cuda_backend(0);
};

TEST_F(CudaBackendTest, KnowsItsMachine) {
  const Machine& machine = backend().machine();
  EXPECT_EQ(machine.kind, "cuda");
  EXPECT_GE(machine.compute_capability, 80);
  EXPECT_GT(machine.units, 0);
  EXPECT_GT(machine.smem_bytes_per_block, 48 << 10);
  EXPECT_GT(machine.l2_bytes, 1 << 20);
  EXPECT_GT(machine.peak_gflops, 1e4);
  EXPECT_GT(machine.peak_gb_per_s, 100);
  EXPECT_EQ(machine.versions.count("cublaslt"), 1u);
}

// fill() recomputes a sample of every reference by dot products: it fails where cuBLAS is not IEEE about NaN and Inf,
// and where a layout is misunderstood.
TEST_F(CudaBackendTest, ReferencesAgreeWithDotProducts) {
  for (const char* text : {"1x1x1 nn", "64x64x64 tn", "100x333x77 nn", "33x65x1000 tt bf16", "257x129x4096 nt"}) {
    ASSERT_TRUE(backend().prepare(test_problem(text), 1).ok()) << text;
    for (const InputKind kind : kKinds) {
      const Status filled = backend().fill(kind, 7);
      EXPECT_TRUE(filled.ok()) << text << " " << to_string(kind) << ": " << (filled.ok() ? "" : filled.error().message);
    }
  }
}

// The honest kernel is right on every kind of input, twice the same, and leaves its surroundings alone.
TEST_F(CudaBackendTest, AnHonestKernelPassesEveryCheck) {
  const Problem problem = test_problem("65x130x200 nn");
  const Candidate candidate = elementwise_candidate(problem, backend().machine(), naive_source());
  const Result<Artifact> artifact = test_compiler().compile(candidate);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ASSERT_TRUE(backend().prepare(problem, 1).ok());
  const Status loaded = backend().load(*artifact, std::get<CudaLaunch>(candidate.launch));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (const InputKind kind : kKinds) {
    ASSERT_TRUE(backend().fill(kind, 3).ok());
    ASSERT_TRUE(backend().run_once(0x7fab).ok());
    const std::uint64_t hash = backend().output_hash();
    const bool exact = kind == InputKind::zero_one || kind == InputKind::accumulator;
    const CheckReport report = backend().check(exact ? Criterion::exact : Criterion::bound);
    EXPECT_TRUE(report.passed) << to_string(kind) << ": " << report.detail;
    EXPECT_TRUE(backend().check_untouched().passed) << to_string(kind);
    ASSERT_TRUE(backend().run_once(0xffd5).ok());
    EXPECT_EQ(backend().output_hash(), hash) << to_string(kind);
    EXPECT_EQ(backend().count_equal_to(0xffd5), 0) << to_string(kind);
  }
}

TEST_F(CudaBackendTest, BaselinesAreRightForEveryLayout) {
  for (const char* text : {"256x384x512 nn", "256x384x512 tt", "264x136x520 tn bf16", "136x264x72 nt"}) {
    ASSERT_TRUE(backend().prepare(test_problem(text), 1).ok()) << text;
    const auto names = backend().open_baselines();
    ASSERT_TRUE(names.ok()) << names.error().message;
    EXPECT_EQ(names->size(), 6u) << text;
    for (int subject = 1; subject <= static_cast<int>(names->size()); ++subject) {
      for (const bool cold : {true, false}) {
        ASSERT_TRUE(backend().arm(subject, cold, false).ok());
        const auto time_us = backend().time_batch(subject, cold, false);
        ASSERT_TRUE(time_us.ok());
        EXPECT_GT(*time_us, 0.5);
        EXPECT_LT(*time_us, 100);
      }
      const CheckReport report = backend().check_timed_outputs(subject).value();
      EXPECT_TRUE(report.passed) << text << " " << (*names)[static_cast<std::size_t>(subject - 1)] << ": "
                                 << report.detail;
      EXPECT_FALSE(backend().baseline_detail(subject).empty());
    }
  }
}

// Cold operands cost more than warm ones where the operands are what is waited for.
TEST_F(CudaBackendTest, ColdIsSlowerThanWarm) {
  ASSERT_TRUE(backend().prepare(test_problem("16x4096x4096 tn"), 1).ok());
  const auto names = backend().open_baselines();
  ASSERT_TRUE(names.ok() && !names->empty());
  double cold_us = 1e9, warm_us = 1e9;
  ASSERT_TRUE(backend().arm(1, true, false).ok() && backend().arm(1, false, false).ok());
  for (int i = 0; i < 10; ++i) {
    cold_us = std::min(cold_us, backend().time_batch(1, true, false).value());
    warm_us = std::min(warm_us, backend().time_batch(1, false, false).value());
  }
  EXPECT_GT(cold_us, 1.05 * warm_us);
}

// Times are those of a GPU at work: far above the physical floor's impossibilities, and near its peak where the problem
// allows. The largest problem of the usual grids fits, references and all.
TEST_F(CudaBackendTest, LargeProblemsFitAndRunNearThePeak) {
  if (backend().machine().compute_capability != 90) GTEST_SKIP() << "sized for an H100 or H200";
  for (const char* text : {"4096x4096x4096 tn", "16384x16384x16384 nn"}) {
    const Problem problem = test_problem(text);
    ASSERT_TRUE(backend().prepare(problem, 1).ok()) << text;
    ASSERT_TRUE(backend().fill(InputKind::special, 5).ok()) << text;
    const auto names = backend().open_baselines();
    ASSERT_TRUE(names.ok()) << names.error().message;
    double best_us = 1e9;
    for (int subject = 1; subject <= static_cast<int>(names->size()); ++subject) {
      ASSERT_TRUE(backend().arm(subject, true, false).ok());
      best_us = std::min(best_us, backend().time_batch(subject, true, false).value());
    }
    const double share = problem.flops() * 1e-3 / best_us / backend().machine().peak_gflops;
    RecordProperty(std::string(text) + " share of peak", std::to_string(share));
    EXPECT_GT(share, 0.5) << text << " " << best_us << " us";
    EXPECT_LT(share, 1.0) << text << " " << best_us << " us";
    EXPECT_TRUE(backend().check_timed_outputs(1).value().passed) << text;
  }
}

TEST(CudaBackend, AnUnknownDeviceIsAnEnvironmentError) {
  const auto backend = make_cuda_backend(1000);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().kind, ErrorKind::environment);
}

}  // namespace
}  // namespace warpsmith
