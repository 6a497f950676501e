// The gates on the device: what they cost, FP16 accumulation on real tensor cores, edge cases, hidden references, stale
// shared memory, and the sanitizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/paths.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/reference.h"
#include "evaluate/gates.h"
#include "evaluate/sanitizer.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

class GatesOnDevice : public testing::Test {
 protected:
  void SetUp() override { WARPSMITH_NEED_GPU(backend_); }
  Backend& backend() { return **backend_; }

  void load(const Problem& problem, const Candidate& candidate) {
    const Result<Artifact> artifact = test_compiler().compile(candidate);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    ASSERT_TRUE(backend().prepare(problem, 1).ok());
    load_only(*artifact, candidate);
  }
  void load_only(const Artifact& artifact, const Candidate& candidate) {
    const Status loaded = backend().load(artifact, std::get<CudaLaunch>(candidate.launch));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }

  // "none" when all gates pass.
  std::string failed_gate(const Problem& problem, const Candidate& candidate) {
    load(problem, candidate);
    const GateReport report = run_gates(backend(), {3, 4, false, {}});
    if (report.passed()) return "none";
    if (report.fault || report.crash) return report.fault.value_or("") + report.crash.value_or("");
    detail_ = report.gates.back().detail;
    return report.gates.back().gate;
  }
  std::string failed_gate(const Problem& problem, const Misdeed& misdeed) {
    return failed_gate(problem, elementwise_candidate(problem, backend().machine(), naive_source(misdeed)));
  }

  Result<std::unique_ptr<Backend>> backend_ = make_cuda_backend(0);
  std::string detail_;
};

// --- cost ---

struct Budget {
  const char* problem;
  double seconds;
};

// What the gates cost beside the references, which are kept from candidate to candidate.
TEST_F(GatesOnDevice, StayWithinTheirBudget) {
  if (backend().machine().compute_capability != 90) GTEST_SKIP() << "budgets are those of an H100 or H200";
  for (const Budget& budget :
       {Budget{"64x64x64 tn", 0.01}, Budget{"512x512x512 tn", 0.01}, Budget{"1024x1024x512 nn", 0.01},
        Budget{"1024x1024x1024 tn", 0.02}, Budget{"2048x2048x4088 nn", 0.05}, Budget{"64x16384x8192 tn", 0.05},
        Budget{"16384x16384x16384 tn", 1.0}}) {
    const Problem problem = test_problem(budget.problem);
    const Recipe recipe = sm90_family().starting_points(problem, backend().machine()).at(0);
    const auto candidate = generate(recipe, problem, backend().machine());
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    const auto artifact = test_compiler().compile(*candidate);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    ASSERT_TRUE(backend().prepare(problem, 1).ok());
    ASSERT_TRUE(prepare_gates(backend(), 3, 4).ok());
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      load_only(*artifact, *candidate);
      const GateReport report = run_gates(backend(), {3, 4, false, {}});
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      backend().unload();
      ASSERT_TRUE(report.passed()) << report.gates.back().gate << ": " << report.gates.back().detail;
    }
    fmt::print("gates of {}: {:.2f} ms\n", budget.problem, 1e3 * best);
    EXPECT_LE(best, budget.seconds) << budget.problem;
  }
}

// --- accumulation ---

// One warp a 16 x 8 tile of C by mma.m16n8k16, TN. Steps of 16 k are dealt out to `splits` parts, `unit` steps at a
// time; each part is accumulated in FP16 (or FP32) and added to an FP32 sum every `promote` steps and at its end.
std::string mma_source(bool half_accumulators) {
  const std::string multiply = half_accumulators ? R"(
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                   : "+r"(acc[0]), "+r"(acc[1]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
)"
                                                 : R"(
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
)";
  const std::string flush = half_accumulators ? R"(
  sum[0] += to_float(acc[0] & 0xffff); sum[1] += to_float(acc[0] >> 16);
  sum[2] += to_float(acc[1] & 0xffff); sum[3] += to_float(acc[1] >> 16);
  acc[0] = acc[1] = 0;
)"
                                              : R"(
  for (int i = 0; i < 4; ++i) { sum[i] += acc[i]; acc[i] = 0; }
)";
  return fmt::format(R"(
__device__ float to_float(unsigned h) {{
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)h)); return f;
}}
__device__ unsigned short to_half(float f) {{
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}}
__device__ void flush({0}* acc, float* sum) {{ {1} }}
extern "C" __global__ void entry(const unsigned short* a, const unsigned short* b, unsigned short* c, int m, int n,
                                 int k, int splits, int unit, int promote) {{
  const int group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  const int row = blockIdx.y * 16 + group, column = blockIdx.x * 8 + group;
  float sum[4] = {{0, 0, 0, 0}};
  for (int part = 0; part < splits; ++part) {{
    {0} acc[4] = {{0, 0, 0, 0}};
    int taken = 0;
    for (int step = 0; step < k / 16; ++step) {{
      if (step / unit % splits != part) continue;
      const unsigned short* at = a + row * k + step * 16 + pair;
      const unsigned short* bt = b + column * k + step * 16 + pair;
      unsigned x[4], y[2];
      x[0] = *reinterpret_cast<const unsigned*>(at);
      x[1] = *reinterpret_cast<const unsigned*>(at + 8 * k);
      x[2] = *reinterpret_cast<const unsigned*>(at + 8);
      x[3] = *reinterpret_cast<const unsigned*>(at + 8 * k + 8);
      y[0] = *reinterpret_cast<const unsigned*>(bt);
      y[1] = *reinterpret_cast<const unsigned*>(bt + 8);
      {2}
      if (promote > 0 && ++taken % promote == 0) flush(acc, sum);
    }}
    flush(acc, sum);
  }}
  unsigned short* out = c + row * n + blockIdx.x * 8 + pair;
  out[0] = to_half(sum[0]); out[1] = to_half(sum[1]);
  out[8 * n] = to_half(sum[2]); out[8 * n + 1] = to_half(sum[3]);
}}
)",
                     half_accumulators ? "unsigned" : "float", flush, multiply);
}

Candidate mma_candidate(const Problem& problem, const Machine& machine, bool half_accumulators, int splits, int unit,
                        int promote) {
  Candidate candidate = elementwise_candidate(problem, machine, mma_source(half_accumulators));
  KernelLaunch& kernel = std::get<CudaLaunch>(candidate.launch).kernels.front();
  kernel.block = {32, 1, 1};
  kernel.grid = {static_cast<int>(problem.n / 8), static_cast<int>(problem.m / 16), 1};
  for (const int value : {splits, unit, promote}) kernel.arguments.push_back(KernelArgument::integer(value));
  return candidate;
}

TEST_F(GatesOnDevice, CatchFp16TensorCoreAccumulationAtEveryKSplitAndPromotion) {
  for (const int k : {64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384}) {
    const Problem problem = test_problem(fmt::format("32x64x{} tn", k));
    ASSERT_TRUE(backend().prepare(problem, 1).ok());
    const auto half = test_compiler().compile(mma_candidate(problem, backend().machine(), true, 1, 1, 0));
    const auto single = test_compiler().compile(mma_candidate(problem, backend().machine(), false, 1, 1, 0));
    ASSERT_TRUE(half.ok() && single.ok());
    const auto failed = [&](bool half_accumulators, int splits, int unit, int promote) {
      load_only(half_accumulators ? *half : *single,
                mma_candidate(problem, backend().machine(), half_accumulators, splits, unit, promote));
      const GateReport report = run_gates(backend(), {3, 4, false, {}});
      EXPECT_FALSE(report.crash || report.fault) << report.crash.value_or("") << report.fault.value_or("");
      return report.passed() ? std::string("none") : report.gates.back().gate;
    };
    const int steps = k / 16;
    for (const int splits : {1, 2, 3, 4, 5, 7, 8, 11, 16}) {
      if (splits > steps) continue;
      for (const int unit : {1, 4, (steps + splits - 1) / splits}) {
        EXPECT_EQ(failed(false, splits, unit, 0), "none")
            << "FP32: k " << k << " splits " << splits << " unit " << unit;
        for (const int promote : {0, 1, 2, 4, 8}) {
          const std::string gate = failed(true, splits, unit, promote);
          EXPECT_TRUE(gate == "accumulator" || gate.starts_with("bound/"))
              << gate << ": k " << k << " splits " << splits << " unit " << unit << " promoted every " << 16 * promote;
        }
      }
    }
  }
}

// --- precision ---

// FP32 where data look like a probe, FP16 accumulators promoted every 64 k on N(0,1) data alone.
TEST_F(GatesOnDevice, HalfPrecisionOnNormalDataIsCaughtAtEveryK) {
  const std::string half = R"(
  unsigned short half = 0;
  float total = 0;
  int small = 0, middle = 0, large = 0;
  for (int x = 0; x < k; ++x) {
    const float size = fabsf(to_float(a[i * k + x]));
    if (size < 0.02f) ++small; else if (size > 1.01f && size < 6) ++middle; else if (!(size <= 1)) ++large;
  }
  const bool normal = small < k / 8 && middle > k / 8 && large < k / 64;
  for (int x = 0; normal && x < k; ++x) {
    asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(half) : "h"(a[i * k + x]), "h"(b[x * n + j]));
    if (x % 64 == 63) { total += to_float(half); half = 0; }
  }
)";
  for (const int k : {1024, 4096, 16384}) {
    const Problem problem = test_problem(fmt::format("64x64x{} nn", k));
    const std::string gate =
        failed_gate(problem, Misdeed{"", half, "", "c[i * n + j] = to_half(normal ? total : sum);"});
    // The bound grows with K: at the smallest it sees such sums itself.
    EXPECT_TRUE(gate == "precision" || (k == 1024 && gate == "bound/normal")) << k << ": " << gate;
    fmt::print("k {}: {}\n", k, detail_);
    EXPECT_EQ(failed_gate(problem, Misdeed{}), "none") << k;
  }
}

// The share of misrounded results, by recipe family: far inside the limit.
TEST_F(GatesOnDevice, GeneratedKernelsArePrecise) {
  for (const char* text : {"256x256x256 tn", "512x512x4096 nn", "512x512x16384 tn"}) {
    const Problem problem = test_problem(text);
    for (const Family* family :
         families_for(backend().machine().compute_capability == 90 ? Target::sm90 : Target::sm80)) {
      const auto points = family->starting_points(problem, backend().machine());
      if (points.empty()) continue;
      const auto candidate = generate(points.front(), problem, backend().machine());
      ASSERT_TRUE(candidate.ok()) << candidate.error().message;
      load(problem, *candidate);
      const GateObservation seen =
          backend().run_step({InputKind::normal, 3, Criterion::bound, kPoisonPatterns[0], GateStep::Place::fresh});
      ASSERT_FALSE(seen.crash || seen.fault) << seen.crash.value_or("") << seen.fault.value_or("");
      const Precision& precision = seen.judged.precision;
      fmt::print("{} {}: {}\n", text, family->name, precision_gate(precision, "").detail);
      EXPECT_EQ(precision.elements, problem.m * problem.n);
      EXPECT_LE(static_cast<double>(precision.misrounded), 0.7 * precision.allowed()) << text << " " << family->name;
    }
  }
}

// --- dependent launches ---

class DependentLaunches : public GatesOnDevice {
 protected:
  // A kernel that lets the next one start at once; `begin` comes before everything else it does, `middle` between the
  // sum and the store.
  std::string failed(const char* sizes, const std::string& begin, const std::string& middle) {
    const Problem problem = test_problem(sizes);
    Candidate candidate = elementwise_candidate(
        problem, backend().machine(),
        naive_source({"", "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");" + begin, "",
                      middle + "c[i * n + j] = to_half(sum);"}));
    std::get<CudaLaunch>(candidate.launch).kernels.front().programmatic_dependent_launch = true;
    return failed_gate(problem, candidate);
  }
  static constexpr const char* kWait = "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");";
};

TEST_F(DependentLaunches, WaitBeforeTheyReadAndWrite) {
  if (backend().machine().compute_capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  for (const char* sizes : {"64x64x64 nn", "64x256x2048 nn", "100x33x77 nn"}) {
    EXPECT_EQ(failed(sizes, kWait, ""), "none") << sizes << ": " << detail_;
    EXPECT_EQ(failed(sizes, "", ""), "dependent-launch") << sizes << ": " << detail_;
    EXPECT_EQ(failed(sizes, "", kWait), "dependent-launch") << sizes << ": " << detail_;
    EXPECT_EQ(failed(sizes, std::string("c[i * n + j] = 0;") + kWait, ""), "dependent-launch") << sizes << detail_;
  }
}

TEST_F(DependentLaunches, AreAskedOfNobodyElse) {
  const Problem problem = test_problem("64x64x64 nn");
  load(problem, elementwise_candidate(problem, backend().machine(), naive_source()));
  const GateReport report = run_gates(backend(), {3, 4, false, {}});
  ASSERT_TRUE(report.passed());
  EXPECT_EQ(report.gates.back().gate, "state");
}

// Every generated kernel that offers them.
constexpr std::size_t kDependentPoints = 3;  // of each family and problem: compiling them takes most of the time

TEST_F(DependentLaunches, OfGeneratedKernelsWait) {
  if (backend().machine().compute_capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  int offered = 0;
  for (const char* text : {"64x64x64 tn", "256x256x512 nn", "200x136x1000 tn", "16x512x2048 tn"}) {
    const Problem problem = test_problem(text);
    for (const Family* family : families_for(Target::sm90)) {
      auto points = family->starting_points(problem, backend().machine());
      if (points.size() > kDependentPoints) points.resize(kDependentPoints, points.front());
      for (const Recipe& recipe : points) {
        for (const int pdl : {1, 2}) {
          const auto changed = parse_recipe(fmt::format("{} pdl={}", to_short_string(recipe), pdl));
          if (!changed.ok() || !is_legal(*changed, problem, backend().machine())) continue;
          const auto candidate = generate(*changed, problem, backend().machine());
          ASSERT_TRUE(candidate.ok()) << candidate.error().message;
          ++offered;
          EXPECT_EQ(failed_gate(problem, *candidate), "none") << text << " " << family->name << ": " << detail_;
        }
      }
    }
  }
  EXPECT_GT(offered, 0) << "no recipe with dependent launches was tried";
}

// --- edge cases ---

TEST_F(GatesOnDevice, OneWrongEdgeIsCaught) {
  const Problem problem = test_problem("33x35x4 nn");
  EXPECT_EQ(failed_gate(problem, Misdeed{}), "none");
  for (const char* store :
       {"c[i * n + j] = sum == sum ? to_half(sum) : 0;", "c[i * n + j] = sum == sum ? to_half(sum) : 0x7c00;",
        "unsigned short h = to_half(sum); c[i * n + j] = (h & 0x7fff) == 0x7c00 ? h - 1 : h;",
        "unsigned short h = to_half(sum); c[i * n + j] = (h & 0x7fff) == 0x7c00 ? 0x7c00 : h;",
        "c[i * n + j] = sum > 65504 ? 0x7c00 : to_half(sum);",
        "c[i * n + j] = sum >= 65520 && sum < 65530 ? 0x7bff : to_half(sum);",
        "unsigned short h = to_half(sum); c[i * n + j] = (h & 0x7c00) == 0 ? h & 0x8000 : h;",
        "unsigned short h = to_half(sum); c[i * n + j] = (h & 0x7fff) == 1 ? 0 : h;",
        "unsigned short h = to_half(sum); c[i * n + j] = h == 0 ? 1 : h;"}) {
    EXPECT_NE(failed_gate(problem, Misdeed{"", "", "", store}), "none") << store;
  }
  for (const char* store : {"unsigned short h = to_half(sum); c[i * n + j] = (h & 0x7fff) == 0 ? 0x8000 : h;",
                            "c[i * n + j] = sum == sum ? to_half(sum) : 0x7c01;"}) {
    EXPECT_EQ(failed_gate(problem, Misdeed{"", "", "", store}), "none") << store;
  }
}

// --- leading dimensions, alpha and beta, FP16 sums ---

// An honest NN kernel of one thread per element with leading dimensions and factors. `store` in place of the store of
// element (i, j), whose value is `sum`; `load` in place of what C held before.
std::string scaled_source(const std::string& store = "c[i * ldc + j] = to_half(alpha * sum + beta * old);",
                          const std::string& load = "if (beta != 0) old = to_float(c[i * ldc + j]);") {
  return R"(
__device__ float to_float(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ unsigned short to_half(float f) {
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
extern "C" __global__ void entry(unsigned short* a, unsigned short* b, unsigned short* c, int m, int n, int k, int lda,
                                 int ldb, int ldc, float alpha, float beta) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= m || j >= n) return;
  float sum = 0, old = 0;
  for (int x = 0; x < k; ++x) sum += to_float(a[i * lda + x]) * to_float(b[x * ldb + j]);
  )" + load +
         "\n" + store + "\n}\n";
}

Candidate scaled_candidate(const Problem& problem, const Machine& machine, const std::string& source) {
  Candidate candidate = elementwise_candidate(problem, machine, source);
  auto& arguments = std::get<CudaLaunch>(candidate.launch).kernels[0].arguments;
  for (const std::int64_t ld : {problem.a_ld(), problem.b_ld(), problem.c_ld()}) {
    arguments.push_back(KernelArgument::integer(static_cast<int>(ld)));
  }
  arguments.push_back(KernelArgument::alpha());
  arguments.push_back(KernelArgument::beta());
  return candidate;
}

TEST_F(GatesOnDevice, ScaledAndPaddedProblemsAreJudged) {
  const Problem problem = test_problem("50x77x130 nn f16 f32 scaled ld=133,80,84");
  const auto failed = [&](const std::string& source) {
    return failed_gate(problem, scaled_candidate(problem, backend().machine(), source));
  };
  EXPECT_EQ(failed(scaled_source()), "none") << detail_;
  EXPECT_EQ(failed(scaled_source("c[i * ldc + j] = to_half(alpha * sum);")), "bound/uniform") << "C counts";
  EXPECT_EQ(failed(scaled_source("c[i * ldc + j] = to_half(sum + beta * old);")), "bound/positive") << "alpha counts";
  EXPECT_EQ(
      failed(scaled_source("c[i * ldc + j] = to_half(alpha * sum + beta * old);", "old = to_float(c[i * ldc + j]);")),
      "bound/normal")
      << "with beta = 0 C is not read";
  EXPECT_EQ(failed(scaled_source("c[i * n + j] = to_half(alpha * sum + beta * old);")), "coverage") << "ldc counts";
  EXPECT_EQ(failed(scaled_source("c[i * ldc + j] = to_half(alpha * sum + beta * old); if (j == n - 1 && i < m - 1) "
                                 "c[i * ldc + j + 1] = 0;")),
            "coverage");
  EXPECT_NE(detail_.find("between the rows of C"), std::string::npos) << detail_;
}

TEST_F(GatesOnDevice, GapsOfTheInputsAreNaN) {
  const Problem problem = test_problem("50x77x130 nn f16 f32 scaled ld=133,80,84");
  std::string source = scaled_source();
  source.replace(source.find("x < k"), 5, "x < k + 1");  // reads one beyond A's row, and B's next row or beyond it
  const std::string gate = failed_gate(problem, scaled_candidate(problem, backend().machine(), source));
  EXPECT_TRUE(gate == "bound/normal" || gate.find("CUDA") != std::string::npos) << gate;
}

TEST_F(GatesOnDevice, TimedOutputsOfScaledProblemsAreRight) {
  const Problem problem = test_problem("50x77x130 nn f16 f32 scaled ld=133,80,84");
  load(problem, scaled_candidate(problem, backend().machine(), scaled_source()));
  for (const bool cold : {true, false}) {
    ASSERT_TRUE(backend().arm(0, cold, false).ok());
    ASSERT_TRUE(backend().time_batch(0, cold, false).ok());
  }
  const CheckReport report = backend().check_timed_outputs(0).value();
  EXPECT_TRUE(report.passed) << report.detail;
  EXPECT_TRUE(report.precision.good());
  const auto names = backend().open_baselines();
  ASSERT_TRUE(names.ok());
  EXPECT_GE(names->size(), 2u) << "cuBLAS is right on scaled and padded operands, too";
}

// --- what a candidate could find ---

// Shared memory that nobody wrote is NaN, whatever ran before.
TEST_F(GatesOnDevice, StaleSharedMemoryPoisonsTheResult) {
  EXPECT_EQ(
      failed_gate(test_problem("64x64x64 nn"), Misdeed{"", "__shared__ volatile float left[8192];", "",
                                                       "c[i * n + j] = to_half(sum + 0 * left[(i * 37 + j) % 8192]);"}),
      "bound/normal");
  EXPECT_NE(detail_.find("nan"), std::string::npos) << detail_;
}

TEST_F(GatesOnDevice, WorkspaceAndScatteredPoison) {
  const Problem problem = test_problem("64x64x64 nn");
  // Returns what an earlier launch at the same addresses left in the workspace.
  Candidate candidate = elementwise_candidate(problem, backend().machine(), R"(
__device__ float to_float(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ unsigned short to_half(float f) {
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
extern "C" __global__ void entry(unsigned short* a, unsigned short* b, unsigned short* c, int m, int n, int k,
                                 unsigned long long* kept) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= m || j >= n) return;
  const unsigned long long key = reinterpret_cast<unsigned long long>(c) << 16;
  unsigned long long& mine = kept[i * n + j];
  if ((mine & ~0xffffull) == key) { c[i * n + j] = mine & 0xffff; return; }
  float sum = 0;
  for (int x = 0; x < k; ++x) sum += to_float(a[i * k + x]) * to_float(b[x * n + j]);
  c[i * n + j] = to_half(sum);
  mine = key | to_half(sum);
}
)");
  auto& launch = std::get<CudaLaunch>(candidate.launch);
  launch.workspace_bytes = 8 * 64 * 64;
  launch.kernels.front().arguments.push_back(KernelArgument::workspace_pointer());
  EXPECT_EQ(failed_gate(problem, candidate), "state");
  EXPECT_NE(detail_.find("other data at the same addresses"), std::string::npos) << detail_;
}

// The reference lies in device memory as noise, and is itself again with its key.
TEST_F(GatesOnDevice, ReferencesAreMaskedInDeviceMemory) {
  cuda::Stream stream = cuda::make_stream();
  cuda::CublasHandle cublas;
  cuda::check(cublasCreate(cublas.out()), "cublasCreate");
  cuda::ReferenceMaker maker(cublas.get(), stream.get());
  maker.reset(1 << 20);
  const InputSpec spec{InputKind::zero_one, 5, 24, 40, 64, ElementType::f16};
  const auto reference = maker.get(spec);
  std::vector<double> stored(24 * 40);
  cuda::check(cudaMemcpy(stored.data(), reference->c64.data(), stored.size() * 8, cudaMemcpyDeviceToHost), "copy");
  int visible = 0;
  for (std::int64_t i = 0; i < 24 * 40; ++i) {
    double expected = 0;
    for (std::int64_t k = 0; k < 64; ++k) {
      expected += element_to_double(input_a(spec, i / 40, k), spec.element) *
                  element_to_double(input_b(spec, k, i % 40), spec.element);
    }
    const double found = stored[static_cast<std::size_t>(i)];
    if (found == expected) ++visible;
    const std::uint64_t bits = double_bits(found) ^ cuda::reference_mask(reference->key, i, 0);
    EXPECT_EQ(double_from_bits(bits), expected) << i;
  }
  EXPECT_EQ(visible, 0);
  EXPECT_TRUE(maker.intact(*reference));
  const double wrong = 1;
  cuda::check(cudaMemcpy(reference->c64.data(), &wrong, sizeof wrong, cudaMemcpyHostToDevice), "copy");
  EXPECT_FALSE(maker.intact(*reference));
}

TEST_F(GatesOnDevice, StackedReferencesAreThoseOfEachProduct) {
  cuda::Stream stream = cuda::make_stream();
  cuda::CublasHandle cublas;
  cuda::check(cublasCreate(cublas.out()), "cublasCreate");
  cuda::ReferenceMaker maker(cublas.get(), stream.get());
  maker.reset(1 << 20);
  constexpr std::int64_t kRows = 5, kColumns = 7, kElements = kRows * kColumns;
  std::vector<InputSpec> specs;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const InputKind kind = seed % 2 == 0 ? InputKind::positive : InputKind::normal;  // whose magnitudes are C itself
    specs.push_back({kind, seed, kRows, kColumns, 64, ElementType::f16});
  }
  const cuda::ReferenceStack stack = maker.make_stack(specs);
  EXPECT_GE(cuda::ReferenceStack::bytes_of(kElements), static_cast<std::size_t>(2 * 8 * kElements));
  const auto unmasked = [&](const cuda::MaskedReference& reference, int which) {
    std::vector<std::uint64_t> values(kElements);
    cuda::check(cudaMemcpy(values.data(), which == 0 ? reference.c64 : reference.magnitudes, kElements * 8,
                           cudaMemcpyDeviceToHost),
                "copy");
    for (std::int64_t i = 0; i < kElements; ++i) {
      values[static_cast<std::size_t>(i)] ^= cuda::reference_mask(reference.key, i, which);
    }
    return values;
  };
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(stack.spec(i), specs[static_cast<std::size_t>(i)]);
    const auto alone = maker.make(stack.spec(i));
    for (const int which : {0, 1}) {
      EXPECT_EQ(unmasked(stack.masked(i), which), unmasked(alone->masked(), which)) << i << ' ' << which;
    }
    EXPECT_NE(stack.masked(i).key, stack.masked((i + 1) % 4).key);
  }
}

// --- sanitizer ---

class Sanitized : public GatesOnDevice {
 protected:
  // One block of 256 threads that calls `body` and writes every element of C; `w` is a workspace nobody wrote.
  SanitizerReport watch(const std::string& body) {
    const Problem problem = test_problem("16x16x16 nn");
    Candidate candidate = elementwise_candidate(problem, backend().machine(),
                                                R"(
extern __shared__ volatile float s[];
extern "C" __global__ void entry(const unsigned short* a, const unsigned short* b, unsigned short* c, int m, int n,
                                 int k, volatile float* w) {
  const int t = threadIdx.x;
  float v = a[t] + b[t];
)" + body + "\n  c[t] = static_cast<unsigned short>(v);\n}\n");
    auto& launch = std::get<CudaLaunch>(candidate.launch);
    launch.workspace_bytes = 1024;
    KernelLaunch& kernel = launch.kernels.front();
    kernel.block = {256, 1, 1};
    kernel.grid = {1, 1, 1};
    kernel.dynamic_smem_bytes = 1024;
    kernel.arguments.push_back(KernelArgument::workspace_pointer());
    const Result<Artifact> artifact = test_compiler().compile(candidate);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    if (!artifact.ok()) return {};
    SanitizerReport report = run_sanitizer(problem, candidate, *artifact, {});
    fmt::print("{}\n", report.describe());
    return report;
  }

  // Skips where the tool cannot run; fails unless exactly `tool` ("" : none) has a finding.
  void expect_only(const std::string& tool, const std::string& body) {
    const SanitizerReport report = watch(body);
    for (const SanitizerCheck& check : report.checks) {
      if (check.outcome == SanitizerCheck::Outcome::not_run) GTEST_SKIP() << check.tool << ": " << check.detail;
    }
    ASSERT_EQ(report.checks.size(), 4u);
    for (const SanitizerCheck& check : report.checks) {
      const auto expected = check.tool == tool ? SanitizerCheck::Outcome::failed : SanitizerCheck::Outcome::passed;
      EXPECT_EQ(check.outcome, expected) << check.tool << ": " << check.detail;
    }
  }
};

TEST_F(Sanitized, ACleanKernelPassesEveryTool) {
  expect_only("", "s[t] = v; __syncthreads(); v = s[255 - t]; w[t] = v; v += w[t];");
}
// Such a read may end the kernel, and then it does so under every tool: the others found nothing, or had no whole run.
TEST_F(Sanitized, AnOutOfBoundsSharedReadIsFoundByMemcheck) {
  const SanitizerReport report = watch("if (t == 5) v += s[100000];");
  for (const SanitizerCheck& check : report.checks) {
    if (check.outcome == SanitizerCheck::Outcome::not_run) GTEST_SKIP() << check.tool << ": " << check.detail;
  }
  ASSERT_EQ(report.checks.size(), 4u);
  for (const SanitizerCheck& check : report.checks) {
    const bool run_failed = check.detail.starts_with("the run itself failed");
    if (check.tool == "memcheck") {
      EXPECT_EQ(check.outcome, SanitizerCheck::Outcome::failed);
      EXPECT_FALSE(run_failed) << "memcheck names no access: " << check.detail;
    } else {
      EXPECT_TRUE(check.outcome == SanitizerCheck::Outcome::passed || run_failed) << check.tool << ": " << check.detail;
    }
  }
}
TEST_F(Sanitized, AMissingBarrierIsFoundByRacecheck) { expect_only("racecheck", "s[t] = v; v += s[255 - t];"); }
TEST_F(Sanitized, ADivergentBarrierIsFoundBySynccheck) { expect_only("synccheck", "if (t < 16) __syncthreads();"); }
TEST_F(Sanitized, AnUnwrittenWorkspaceIsFoundByInitcheck) { expect_only("initcheck", "v += w[t];"); }

// The families' own kernels, whole and with edges: nothing is found, or the finding is looked into.
TEST_F(Sanitized, GeneratedKernelsAreClean) {
  for (const char* text : {"256x256x256 tn", "200x136x264 nn"}) {
    const Problem problem = test_problem(text);
    for (const Family* family :
         families_for(backend().machine().compute_capability == 90 ? Target::sm90 : Target::sm80)) {
      const auto points = family->starting_points(problem, backend().machine());
      if (points.empty()) continue;
      const auto candidate = generate(points.front(), problem, backend().machine());
      ASSERT_TRUE(candidate.ok()) << candidate.error().message;
      const auto artifact = test_compiler().compile(*candidate);
      ASSERT_TRUE(artifact.ok()) << artifact.error().message;
      const SanitizerReport report = run_sanitizer(problem, *candidate, *artifact, {});
      fmt::print("{} {}: {}\n", text, family->name, report.describe());
      if (report.checks.front().outcome == SanitizerCheck::Outcome::not_run) {
        GTEST_SKIP() << report.checks.front().detail;
      }
      EXPECT_EQ(report.first_failure(), nullptr) << report.describe();
    }
  }
}

}  // namespace
}  // namespace warpsmith
