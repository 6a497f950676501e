// Candidates that are honest, wrong, hostile or hung, through the real worker: each gets its verdict, and the next one
// is judged as if nothing had happened.
#include <gtest/gtest.h>

#include "gpu_fixture.h"

namespace warpsmith {
namespace {

class CudaCandidates : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    EvaluatorOptions options;
    options.target = Target::sm80;
    options.limits.gate_seconds = 5;
    options.limits.timing_seconds = 20;
    started_ = std::make_unique<Result<std::unique_ptr<Evaluator>>>(Evaluator::start(options));
  }
  static void TearDownTestSuite() { started_.reset(); }

  void SetUp() override { WARPSMITH_NEED_GPU(*started_); }

  static Evaluator& evaluator() { return ***started_; }

  Verdict judge(const Candidate& candidate) {
    const Result<Artifact> artifact = test_compiler().compile(candidate);
    if (!artifact.ok()) {
      ADD_FAILURE() << artifact.error().message;
      return {};
    }
    return evaluator().evaluate(problem_, candidate, *artifact, 0, {0.05, 5});
  }
  Verdict judge(const Misdeed& misdeed) {
    return judge(elementwise_candidate(problem_, evaluator().machine(), naive_source(misdeed)));
  }

  // The gate that stopped the candidate.
  std::string failed_gate(const Misdeed& misdeed) {
    const Verdict verdict = judge(misdeed);
    const auto* wrong = std::get_if<verdict::Wrong>(&verdict.outcome);
    EXPECT_NE(wrong, nullptr) << verdict.describe();
    if (wrong != nullptr) detail_ = wrong->gate.detail;
    return wrong != nullptr ? wrong->gate.gate : std::string(verdict.kind());
  }

  void expect_honest_accepted() {
    const Verdict verdict = judge(Misdeed{});
    EXPECT_NE(verdict.accepted(), nullptr) << verdict.describe();
  }

  static inline std::unique_ptr<Result<std::unique_ptr<Evaluator>>> started_;
  Problem problem_ = test_problem("100x88x512 nn");
  std::string detail_;  // of the gate that failed last
};

TEST_F(CudaCandidates, AnHonestKernelIsAcceptedWithTimes) {
  const Verdict verdict = judge(Misdeed{});
  ASSERT_NE(verdict.accepted(), nullptr) << verdict.describe();
  const Measurement& measured = verdict.accepted()->measurement;
  EXPECT_GT(measured.cold.median_us, 1);
  EXPECT_GT(measured.warm.median_us, 1);
  EXPECT_GE(measured.cold.samples, 5);
  EXPECT_GT(measured.cold.launches_per_sample, 1);
  EXPECT_GE(verdict.gates.size(), 12u);
}

TEST_F(CudaCandidates, WritesBehindTheOutputAreSeen) {
  EXPECT_EQ(failed_gate({"", "if (i == 0 && j == 0) c[m * n] = 1;", ""}), "coverage");
  EXPECT_EQ(failed_gate({"", "if (i == 0 && j == 0) c[-1] = 1;", ""}), "coverage");
  EXPECT_EQ(failed_gate({"", "if (i == 0 && j == 0) c[m * n + 300000] = 1;", ""}), "coverage");
}

TEST_F(CudaCandidates, ChangedInputsAreSeen) {
  EXPECT_EQ(failed_gate({"", "", "", "c[i * n + j] = to_half(sum); if (i == 5 && j == 5) b[7] ^= 1;"}), "coverage");
}

TEST_F(CudaCandidates, PartialOutputIsSeen) {
  EXPECT_EQ(failed_gate({"", "if (i == m - 1 && j == n - 1) return;", ""}), "coverage");
}

TEST_F(CudaCandidates, WrongValuesAreSeen) {
  EXPECT_EQ(failed_gate({"", "", "", "c[i * n + j] = i == 3 && j == 5 ? 0x7e00 : to_half(sum);"}), "bound/normal");
  EXPECT_EQ(failed_gate({"", "", "", "c[i * n + j] = 0;"}), "bound/normal");
  EXPECT_EQ(failed_gate({"", "", "if (x == 500) break;"}), "bound/normal");
}

TEST_F(CudaCandidates, TheFirstBadElementIsNamed) {
  const Verdict verdict = judge(Misdeed{"", "", "", "c[i * n + j] = i == 3 && j == 5 ? 0x7e00 : to_half(sum);"});
  const auto* wrong = std::get_if<verdict::Wrong>(&verdict.outcome);
  ASSERT_NE(wrong, nullptr) << verdict.describe();
  EXPECT_NE(wrong->gate.detail.find("(3, 5)"), std::string::npos) << wrong->gate.detail;
}

TEST_F(CudaCandidates, NanIsNotSwallowed) {
  EXPECT_EQ(failed_gate({"", "", "", "c[i * n + j] = sum == sum ? to_half(sum) : 0;"}), "bound/special");
}

TEST_F(CudaCandidates, Fp16AccumulationIsSeen) {
  const std::string gate = failed_gate({"", "", "sum = to_float(to_half(sum));"});
  EXPECT_TRUE(gate == "accumulator" || gate.starts_with("bound/")) << gate;
  // Promotion to FP32 every 32 steps of K hides it from the bound on zero-mean data; the probe sees it.
  const std::string promoted =
      failed_gate({"", "float total = 0;", "sum = to_float(to_half(sum)); if (x % 32 == 31) { total += sum; sum = 0; }",
                   "c[i * n + j] = to_half(total + sum);"});
  EXPECT_TRUE(promoted == "accumulator" || promoted.starts_with("bound/")) << promoted;
}

// One bit of one element differs from run to run.
TEST_F(CudaCandidates, UndeclaredNondeterminismIsSeen) {
  const std::string gate = failed_gate({"__device__ unsigned calls;", "", "",
                                        "unsigned flip = 0; if (i == 1 && j == 1) flip = atomicAdd(&calls, 1u) & 1;"
                                        "c[i * n + j] = to_half(sum) ^ flip;"});
  EXPECT_TRUE(gate == "repeatability" || gate.starts_with("bound/")) << gate << ": " << detail_;
}

// Right in every run of the gates, but it counts them: it would be wrong, or idle, once it is timed.
TEST_F(CudaCandidates, LaunchCountersAreSeen) {
  EXPECT_EQ(failed_gate({"__device__ unsigned long long calls;", "if (i == 0 && j == 0) atomicAdd(&calls, 1ull);", "",
                         "c[i * n + j] = calls > 60 && i == 9 && j == 9 ? 0x3c00 : to_half(sum);"}),
            "state");
  EXPECT_NE(detail_.find("calls"), std::string::npos) << detail_;
}

// A process whose memory a candidate may have written to is not used again.
TEST_F(CudaCandidates, AStrayWriteCostsOneCandidate) {
  EXPECT_EQ(failed_gate({"", "if (i == 0 && j == 0) c[m * n] = 1;", ""}), "coverage");
  expect_honest_accepted();
}

TEST_F(CudaCandidates, AnIllegalAddressCostsOneCandidate) {
  const Verdict verdict = judge(Misdeed{"", "if (i == 0) *reinterpret_cast<int*>(16) = 1;", ""});
  const auto* crashed = std::get_if<verdict::Crashed>(&verdict.outcome);
  ASSERT_NE(crashed, nullptr) << verdict.describe();
  EXPECT_NE(crashed->reason.find("IllegalAddress"), std::string::npos) << crashed->reason;
  expect_honest_accepted();
}

TEST_F(CudaCandidates, ATrapCostsOneCandidate) {
  EXPECT_EQ(judge(Misdeed{"", "if (i == 0) __trap();", ""}).kind(), "crashed");
  expect_honest_accepted();
}

TEST_F(CudaCandidates, AnEndlessLoopIsKilled) {
  const Verdict verdict = judge(Misdeed{"__device__ volatile int never;", "while (never == 0) __nanosleep(1000);", ""});
  const auto* timed_out = std::get_if<verdict::TimedOut>(&verdict.outcome);
  ASSERT_NE(timed_out, nullptr) << verdict.describe();
  EXPECT_EQ(timed_out->stage, "gates");
  expect_honest_accepted();
}

TEST_F(CudaCandidates, ALaunchThatDoesNotFitItsKernelIsRefused) {
  Candidate candidate = elementwise_candidate(problem_, evaluator().machine(), naive_source());
  std::get<CudaLaunch>(candidate.launch).kernels[0].arguments.pop_back();
  EXPECT_EQ(judge(candidate).kind(), "crashed");
  Candidate unnamed = elementwise_candidate(problem_, evaluator().machine(), naive_source());
  std::get<CudaLaunch>(unnamed.launch).kernels[0].entry = "missing";
  EXPECT_EQ(judge(unnamed).kind(), "crashed");
  Candidate greedy = elementwise_candidate(problem_, evaluator().machine(), naive_source());
  std::get<CudaLaunch>(greedy.launch).kernels[0].dynamic_smem_bytes = 1 << 24;
  EXPECT_EQ(judge(greedy).kind(), "crashed");
  expect_honest_accepted();
}

TEST_F(CudaCandidates, ASlowKernelIsStoppedEarly) {
  const Candidate candidate =
      elementwise_candidate(problem_, evaluator().machine(), naive_source({"", "__nanosleep(100000);", ""}));
  const Result<Artifact> artifact = test_compiler().compile(candidate);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const Verdict verdict = evaluator().evaluate(problem_, candidate, *artifact, 3.0, {0.05, 5});
  EXPECT_EQ(verdict.kind(), "too-slow") << verdict.describe();
}

TEST_F(CudaCandidates, TheComparisonHasEveryBaseline) {
  const Candidate candidate = elementwise_candidate(problem_, evaluator().machine(), naive_source());
  const Result<Artifact> artifact = test_compiler().compile(candidate);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const Result<Comparison> comparison = evaluator().compare(problem_, candidate, *artifact, {0.05, 5});
  ASSERT_TRUE(comparison.ok()) << comparison.error().message;
  std::vector<std::string> names;
  for (const Measurement& measured : comparison->subjects) {
    names.push_back(measured.subject);
    EXPECT_GT(measured.cold.median_us, 0.3) << measured.subject;
    EXPECT_LT(measured.cold.median_us, 1000) << measured.subject;
  }
  const std::vector<std::string> expected = {"candidate",        "cublas-nn", "cublaslt-heuristic-nn",
                                             "cublaslt-auto-nn", "cublas-tn", "cublaslt-heuristic-tn",
                                             "cublaslt-auto-tn"};
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace warpsmith
