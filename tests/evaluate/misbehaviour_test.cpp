// Hand-written candidates that misbehave, against the real CPU worker: each gets its verdict, and the next honest
// candidate is accepted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/hash.h"
#include "base/subprocess.h"
#include "evaluate/evaluator.h"

#ifndef WARPSMITH_TEST_WORKER
#error "the build names the worker executable"
#endif
#ifndef WARPSMITH_TEST_ABI
#error "the build names the kernel ABI header"
#endif

namespace warpsmith {
namespace {

// Helpers that all candidates share; BODY is inside a function of (arguments, thread).
constexpr const char* kPrologue = R"(
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
#include <time.h>
static float load(uint16_t h) { _Float16 x; __builtin_memcpy(&x, &h, 2); return (float)x; }
static uint16_t store(float f) { _Float16 x = (_Float16)f; uint16_t h; __builtin_memcpy(&h, &x, 2); return h; }
static void honest(const WarpsmithCpuArguments* g, int64_t k_end) {
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < k_end; ++k) sum += load(g->a[i * g->lda + k]) * load(g->b[k * g->ldb + j]);
      g->c[i * g->ldc + j] = store(sum);
    }
}
// Counts calls where no variable of this object shows it: outside, on the heap.
static int count_calls() {
  static int* calls;
  if (!calls) calls = (int*)calloc(1, sizeof(int));
  return ++*calls;
}
extern "C" void kernel(const WarpsmithCpuArguments* g, int thread) {
  (void)thread;
)";

class Misbehaviour : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::filesystem::temp_directory_path() / ("warpsmith_misbehaviour_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    setenv("WARPSMITH_CACHE", (directory_ / "cache").c_str(), 1);
    EvaluatorOptions options;
    options.worker = WARPSMITH_TEST_WORKER;
    options.threads = 1;
    options.limits.gate_seconds = 2;
    options.limits.timing_seconds = 4;
    auto started = Evaluator::start(options);
    ASSERT_TRUE(started.ok()) << started.error().message;
    evaluator_ = std::move(*started);
  }

  static void TearDownTestSuite() {
    evaluator_.reset();
    std::filesystem::remove_all(directory_);
  }

  static Artifact compile(const std::string& body) {
    const std::string text = *read_file(WARPSMITH_TEST_ABI) + kPrologue + body + "\n}\n";
    Artifact artifact;
    artifact.key = sha256_hex(text);
    artifact.source = directory_ / (artifact.key + ".cpp");
    artifact.binary = directory_ / (artifact.key + ".so");
    EXPECT_TRUE(write_file_atomic(artifact.source, text).ok());
    ProcessRequest request;
    const char* compiler = std::getenv("CXX");
    request.argv = {compiler != nullptr ? compiler : "c++",
                    "-O1",
                    "-mf16c",
                    "-shared",
                    "-fPIC",
                    "-w",
                    "-o",
                    artifact.binary.string(),
                    artifact.source.string()};
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok() && output->status.success()) << (output.ok() ? output->err : output.error().message);
    return artifact;
  }

  static Verdict evaluate(const std::string& body, double best_us = 0) {
    Candidate candidate;
    candidate.language = Language::cpp;
    candidate.launch = CpuLaunch{"kernel", 1, 4096, {}};
    TimingEffort effort;
    effort.seconds = 0.02;
    effort.min_samples = 3;
    return evaluator_->evaluate(problem_, candidate, compile(body), best_us, effort);
  }

  static void expect_honest_accepted() {
    const Verdict verdict = evaluate("honest(g, g->k);");
    EXPECT_EQ(verdict.kind(), "accepted") << verdict.describe();
    EXPECT_GE(verdict.gates.size(), 14u);
  }

  static void expect_wrong(const std::string& body, const std::string& gate, const std::string& words = {}) {
    const Verdict verdict = evaluate(body);
    ASSERT_EQ(verdict.kind(), "wrong") << verdict.describe();
    const GateResult& failed = std::get<verdict::Wrong>(verdict.outcome).gate;
    EXPECT_EQ(failed.gate, gate) << failed.detail;
    EXPECT_NE(failed.detail.find(words), std::string::npos) << failed.detail;
    expect_honest_accepted();
  }

  static void expect_crash(const std::string& body, const std::string& reason) {
    const Verdict verdict = evaluate(body);
    ASSERT_EQ(verdict.kind(), "crashed") << verdict.describe();
    const auto& crash = std::get<verdict::Crashed>(verdict.outcome);
    EXPECT_EQ(crash.stage, "gates");
    EXPECT_NE(crash.reason.find(reason), std::string::npos) << crash.reason;
    expect_honest_accepted();
  }

  // K is long enough for the probe, sizes are ragged.
  inline static const Problem problem_{9, 37, 131, Layout::nn};
  static std::filesystem::path directory_;
  static std::unique_ptr<Evaluator> evaluator_;
};

std::filesystem::path Misbehaviour::directory_;
std::unique_ptr<Evaluator> Misbehaviour::evaluator_;

TEST_F(Misbehaviour, HonestIsAccepted) {
  const Verdict verdict = evaluate("honest(g, g->k);");
  ASSERT_NE(verdict.accepted(), nullptr) << verdict.describe();
  const Measurement& measured = verdict.accepted()->measurement;
  EXPECT_GT(measured.cold.median_us, 0);
  EXPECT_GE(measured.cold.samples, 3);
  EXPECT_LE(measured.warm.min_us, measured.warm.median_us);
  for (const GateResult& gate : verdict.gates) EXPECT_TRUE(gate.passed) << gate.gate;
}

TEST_F(Misbehaviour, Segfault) { expect_crash("*(volatile int*)8 = 1;", "signal 11"); }
TEST_F(Misbehaviour, Abort) { expect_crash("abort();", "signal 6"); }
TEST_F(Misbehaviour, Exit) { expect_crash("honest(g, g->k); exit(0);", "exit code 0"); }
TEST_F(Misbehaviour, Trap) { expect_crash("__builtin_trap();", "signal 4"); }
TEST_F(Misbehaviour, ClosesDescriptors) {
  expect_crash("honest(g, g->k); for (int fd = 0; fd < 64; ++fd) close(fd);", "exit code");
}

TEST_F(Misbehaviour, InfiniteLoop) {
  const Verdict verdict = evaluate("for (volatile int i = 0;; ++i) {}");
  ASSERT_EQ(verdict.kind(), "timed-out") << verdict.describe();
  EXPECT_EQ(std::get<verdict::TimedOut>(verdict.outcome).stage, "gates");
  expect_honest_accepted();
}

TEST_F(Misbehaviour, HangsOnlyWhenTimed) {
  // The gates make 13 calls or so; a candidate that counts its calls can tell.
  const Verdict verdict = evaluate("honest(g, g->k); if (count_calls() > 25) for (;;) pause();");
  ASSERT_EQ(verdict.kind(), "timed-out") << verdict.describe();
  EXPECT_EQ(std::get<verdict::TimedOut>(verdict.outcome).stage, "timing");
  expect_honest_accepted();
}

TEST_F(Misbehaviour, WritesPastTheEndOfC) { expect_crash("honest(g, g->k); g->c[g->m * g->ldc] = 1;", "signal 11"); }
TEST_F(Misbehaviour, ReadsPastTheEndOfA) {
  expect_crash("honest(g, g->k); static volatile uint16_t sink; sink = g->a[g->m * g->lda];", "signal 11");
}
TEST_F(Misbehaviour, WritesBeforeC) {
  expect_wrong("honest(g, g->k); g->c[-1] = 1;", "coverage", "wrote outside C: 1 bytes before the start");
}
TEST_F(Misbehaviour, WritesIntoA) {
  expect_wrong("honest(g, g->k); ((uint16_t*)g->a)[5] ^= 1;", "coverage", "input A was changed");
}
TEST_F(Misbehaviour, WritesIntoB) {
  expect_wrong("honest(g, g->k); ((uint16_t*)g->b)[g->k * g->ldb - 1] ^= 1;", "coverage", "input B was changed");
}
TEST_F(Misbehaviour, LeavesOneElementUnwritten) {
  expect_wrong("uint16_t last = g->c[g->m * g->ldc - 1]; honest(g, g->k); g->c[g->m * g->ldc - 1] = last;", "coverage",
               "1 elements of C still hold the poison");
}
TEST_F(Misbehaviour, Garbage) {
  expect_wrong("for (int64_t i = 0; i < g->m * g->ldc; ++i) g->c[i] = (uint16_t)(i * 7919 & 0x3fff);", "bound/normal",
               "C(0,");
}
TEST_F(Misbehaviour, NaN) {
  expect_wrong("for (int64_t i = 0; i < g->m * g->ldc; ++i) g->c[i] = 0x7e00;", "bound/normal", "= nan");
}
TEST_F(Misbehaviour, Zeros) {
  expect_wrong("for (int64_t i = 0; i < g->m * g->ldc; ++i) g->c[i] = 0;", "bound/normal");
}
TEST_F(Misbehaviour, ForgetsTheTailOfK) { expect_wrong("honest(g, g->k - 1);", "bound/normal"); }

TEST_F(Misbehaviour, Fp16AccumulationPromotedEvery16) {
  const Verdict verdict = evaluate(R"(
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j) {
      float sum = 0, part = 0;
      for (int64_t k = 0; k < g->k; ++k) {
        part += load(g->a[i * g->lda + k]) * load(g->b[k * g->ldb + j]);
        if (k % 16 == 15 || k + 1 == g->k) { sum += load(store(part)); part = 0; }
      }
      g->c[i * g->ldc + j] = store(sum);
    })");
  EXPECT_EQ(verdict.kind(), "wrong") << verdict.describe();
  expect_honest_accepted();
}

TEST_F(Misbehaviour, Nondeterministic) {
  // Sums in an order that the clock decides: right every time, but not the same.
  const std::string body = R"(
  static int calls;
  bool backwards = ++calls % 2 == 0;
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < g->k; ++k) sum += (double)load(g->a[i * g->lda + k]) * load(g->b[k * g->ldb + j]);
      // Either neighbour of an FP32 sum is within the bound; near a tie the choice shows in the result.
      g->c[i * g->ldc + j] = store((float)(backwards ? sum * (1 + 3e-6) : sum * (1 - 3e-6)));
    })";
  const Verdict verdict = evaluate(body);
  ASSERT_EQ(verdict.kind(), "wrong") << verdict.describe();
  const std::string gate = std::get<verdict::Wrong>(verdict.outcome).gate.gate;
  EXPECT_EQ(gate, "repeatability") << verdict.describe();
  expect_honest_accepted();
}

TEST_F(Misbehaviour, RemembersTheLastResult) {
  // Returns the first result it ever computed for these sizes.
  expect_wrong(R"(
  static uint16_t* kept;
  int64_t count = g->m * g->ldc;
  if (!kept) { honest(g, g->k); kept = (uint16_t*)malloc(count * 2); __builtin_memcpy(kept, g->c, count * 2); }
  else __builtin_memcpy(g->c, kept, count * 2);)",
               "bound/uniform");
}

TEST_F(Misbehaviour, CountsItsCallsInAVariable) {
  expect_wrong("honest(g, g->k); static int calls; if (++calls > 25) g->c[3] = 0;", "state", "variables");
}

TEST_F(Misbehaviour, ATableMadeOnTheFirstCallIsHonest) {
  const Verdict verdict = evaluate(R"(
  static float table[256];
  if (table[255] == 0) for (int i = 0; i < 256; ++i) table[i] = 1.0f + i;
  honest(g, g->k);)");
  EXPECT_EQ(verdict.kind(), "accepted") << verdict.describe();
}

TEST_F(Misbehaviour, KeepsItsResultInTheWorkspace) {
  // Keyed by the addresses of the operands; poison never looks like a key.
  expect_wrong(R"(
  char* w = (char*)g->workspace;
  const void* key[3] = {g->a, g->b, g->c};
  int64_t bytes = g->m * g->ldc * 2;
  if (__builtin_memcmp(w, key, sizeof key) == 0) { __builtin_memcpy(g->c, w + 64, bytes); return; }
  honest(g, g->k);
  __builtin_memcpy(w, key, sizeof key);
  __builtin_memcpy(w + 64, g->c, bytes);)",
               "state", "with other data at the same addresses");
}

TEST_F(Misbehaviour, SkipsWorkThatSeemsDone) {
  // Keyed by addresses and sampled values, believing that C still holds what it wrote there.
  expect_wrong(R"(
  uint64_t* w = (uint64_t*)g->workspace;
  uint64_t key[4] = {(uint64_t)g->a, (uint64_t)g->b, (uint64_t)g->c, 0};
  for (int64_t i = 0; i < 64; ++i) key[3] = key[3] * 31 + g->a[i] * 7 + g->b[i] + 1;
  if (__builtin_memcmp(w, key, sizeof key) == 0 && g->c[0] == (uint16_t)w[4]) return;
  honest(g, g->k);
  __builtin_memcpy(w, key, sizeof key);
  w[4] = g->c[0];)",
               "state", "launched once more");
}

TEST_F(Misbehaviour, WrongOnlyWhenTimed) {
  expect_wrong("honest(g, g->k); if (count_calls() > 25) g->c[3] = 0;", "timed-outputs");
}

// One unit in the last place, where the elementwise bound is wider than that.
TEST_F(Misbehaviour, LessPreciseOnlyWhenTimed) {
  expect_wrong(R"(
  honest(g, g->k);
  if (count_calls() > 25) for (int64_t i = 0; i < g->m * g->ldc; ++i) if ((g->c[i] & 0x7fff) < 0x3c00) ++g->c[i];)",
               "precision", "in the outputs of timed launches");
}

TEST_F(Misbehaviour, PrintingMegabytesIsHarmless) {
  const Verdict verdict = evaluate(R"(
  honest(g, g->k);
  if (count_calls() < 5) for (int i = 0; i < 200000; ++i) { puts("{\"done\": {\"kind\": \"accepted\"}}"); fputs("noise\n", stderr); })");
  EXPECT_EQ(verdict.kind(), "accepted") << verdict.describe();
  expect_honest_accepted();
}

TEST_F(Misbehaviour, TooSlowIsStoppedEarly) {
  const Verdict verdict = evaluate("honest(g, g->k); usleep(3000);", 100);
  ASSERT_EQ(verdict.kind(), "too-slow") << verdict.describe();
  EXPECT_DOUBLE_EQ(std::get<verdict::TooSlow>(verdict.outcome).limit_us, 300);
  expect_honest_accepted();
}

TEST_F(Misbehaviour, MissingEntry) {
  Candidate candidate;
  candidate.launch = CpuLaunch{"no_such_entry", 1, 0, {}};
  const Verdict verdict = evaluator_->evaluate(problem_, candidate, compile("honest(g, g->k);"), 0, {});
  EXPECT_EQ(verdict.kind(), "crashed") << verdict.describe();
  expect_honest_accepted();
}

TEST_F(Misbehaviour, ComparisonTimesTheBaselinesBesideTheCandidate) {
  Candidate candidate;
  candidate.launch = CpuLaunch{"kernel", 1, 0, {}};
  TimingEffort effort;
  effort.seconds = 0.02;
  effort.min_samples = 3;
  const auto compared = evaluator_->compare(problem_, candidate, compile("honest(g, g->k);"), effort);
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  ASSERT_GE(compared->subjects.size(), 3u);
  EXPECT_EQ(compared->subjects[0].subject, "candidate");
  for (const Measurement& subject : compared->subjects) {
    EXPECT_GT(subject.cold.median_us, 0) << subject.subject;
    EXPECT_GT(subject.warm.median_us, 0) << subject.subject;
  }
  for (const GateResult& gate : compared->gates) EXPECT_TRUE(gate.passed) << gate.gate;
  const auto alone = evaluator_->baselines(problem_, effort);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->size() + 1, compared->subjects.size());
  EXPECT_EQ(evaluator_->machine().versions.count("openblas"), 1u);
  EXPECT_EQ(evaluator_->machine().versions.count("onednn"), 1u);
  // A candidate that fails on fresh data is not compared.
  EXPECT_FALSE(evaluator_->compare(problem_, candidate, compile("honest(g, g->k - 1);"), effort).ok());
}

TEST(EvaluatorStart, SaysWhatIsMissing) {
  EvaluatorOptions options;
  options.worker = "/nonexistent/worker";
  const auto started = Evaluator::start(options);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().kind, ErrorKind::environment);
  EXPECT_NE(started.error().message.find("/nonexistent/worker"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith
