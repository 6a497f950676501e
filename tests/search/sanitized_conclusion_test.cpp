// The conclusion with the sanitizer gate: a finalist with a finding is passed over, and a tool that did not run is
// never taken for one that passed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "search/conclude.h"

namespace warpsmith {
namespace {

Measurement measurement(const char* subject, double cold_us) {
  Measurement one;
  one.subject = subject;
  one.cold.median_us = cold_us;
  return one;
}

// Accepts everything, at a time that falls with every evaluation: the finalist measured last is the fastest.
class AcceptingEvaluator final : public Evaluator {
 public:
  explicit AcceptingEvaluator(Machine machine) : machine_(std::move(machine)) {}
  const Machine& machine() const override { return machine_; }
  Verdict evaluate(const Problem&, const Candidate&, const Artifact&, double, const TimingEffort&) override {
    Verdict verdict;
    verdict.outcome = verdict::Accepted{measurement("candidate", time_us_ -= 1)};
    return verdict;
  }
  Result<Comparison> compare(const Problem&, const Candidate&, const Artifact&, const TimingEffort&,
                             std::optional<Verdict>*) override {
    ++comparisons;
    Comparison comparison;
    comparison.subjects = {measurement("candidate", 1), measurement("cublaslt-auto-tn", 2)};
    return comparison;
  }
  Result<std::vector<Measurement>> baselines(const Problem&, const TimingEffort&) override {
    return std::vector<Measurement>{};
  }
  int comparisons = 0;

 private:
  Machine machine_;
  double time_us_ = 100;
};

// Real kernels, compiled; the device and the sanitizer are stand-ins.
class SanitizedConclusion : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "warpsmith-conclude-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    auto archive = Archive::open(directory_ / "archive.sqlite");
    ASSERT_TRUE(archive.ok()) << archive.error().message;
    archive_ = std::move(*archive);
    machine_.name = "Test GPU";
    machine_.kind = "cuda";
    machine_.compute_capability = 90;
    machine_.units = 132;
    machine_.smem_bytes_per_block = 232448;
    machine_.registers_per_unit = 65536;
    machine_.l2_bytes = 50 << 20;
    options_.scope = {{.m = 4096, .n = 200, .k = 64, .layout = Layout::tn}, machine_, Target::sm80, 1};
    options_.kernels = directory_ / "kernels";
    options_.sanitizer.worker = "/bin/true";
    std::filesystem::create_directories(options_.kernels);
  }
  void TearDown() override {
    archive_.reset();
    std::filesystem::remove_all(directory_);
  }

  // Two finalists; the second one's time is better.
  void accept_two() {
    const auto points = sm80_family().starting_points(options_.scope.problem, machine_);
    ASSERT_GE(points.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      AttemptRecord attempt;
      attempt.recipe = to_string(points[i]);
      recipes_.push_back(attempt.recipe);
      attempt.verdict.outcome = verdict::Accepted{measurement("candidate", 10.0 + static_cast<double>(i))};
      ASSERT_TRUE(archive_->record(options_.scope, attempt).ok());
    }
  }

  // Answers its first `failures` calls with a finding.
  void install_sanitizer(int failures) {
    options_.sanitizer.program = directory_ / "compute-sanitizer";
    std::ofstream(options_.sanitizer.program)
        << "#!/bin/sh\necho x >>" << (directory_ / "calls").string() << "\nif [ $(wc -l <"
        << (directory_ / "calls").string() << ") -le " << failures
        << " ]; then\necho '========= Invalid __shared__ read of size 4 bytes'\n"
           "echo '========= ERROR SUMMARY: 1 error'\nelse\n"
           "echo '========= ERROR SUMMARY: 0 errors'\nfi\n";
    chmod(options_.sanitizer.program.c_str(), 0755);
  }

  Result<Conclusion> run() {
    CompilerOptions compiler;
    compiler.cache = directory_ / "cache";
    return conclude(options_, Compiler(compiler), evaluator_, *archive_, [this](const std::string& step) {
      if (step.starts_with("watched")) ++watched_;
    });
  }

  std::filesystem::path directory_;
  std::unique_ptr<Archive> archive_;
  Machine machine_;
  ConcludeOptions options_;
  std::vector<std::string> recipes_;
  int watched_ = 0;
  AcceptingEvaluator evaluator_{Machine{}};
};

TEST_F(SanitizedConclusion, PassesOverAFinalistWithAFinding) {
  accept_two();
  install_sanitizer(1);
  const auto conclusion = run();
  if (!conclusion.ok() && conclusion.error().kind == ErrorKind::environment) GTEST_SKIP() << conclusion.error().message;
  ASSERT_TRUE(conclusion.ok()) << conclusion.error().message;
  EXPECT_EQ(watched_, 2);
  EXPECT_EQ(evaluator_.comparisons, 1);
  EXPECT_EQ(conclusion->sanitizer.first_failure(), nullptr);
  EXPECT_EQ(conclusion->sanitizer.checks.size(), 4u);
  EXPECT_EQ(conclusion->sanitizer.problem, "512x200x64 tn f16 f32");
  EXPECT_EQ(to_json(*conclusion)["sanitizer"]["checks"][0]["outcome"], "passed");
  // The other is on record as wrong, and no finalist of the next conclusion.
  int wrong = 0;
  const auto history = archive_->history(options_.scope);
  for (const AttemptRecord& attempt : *history) {
    const auto* found = std::get_if<verdict::Wrong>(&attempt.verdict.outcome);
    if (found == nullptr) continue;
    ++wrong;
    EXPECT_EQ(found->gate.gate, "sanitizer/memcheck");
    EXPECT_NE(attempt.recipe, conclusion->recipe);
  }
  EXPECT_EQ(wrong, 1);
  watched_ = 0;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(watched_, 1);
}

TEST_F(SanitizedConclusion, NeverConcludesWithOne) {
  accept_two();
  install_sanitizer(100);
  const auto conclusion = run();
  ASSERT_FALSE(conclusion.ok());
  if (conclusion.error().kind == ErrorKind::environment) GTEST_SKIP() << conclusion.error().message;
  EXPECT_NE(conclusion.error().message.find("sanitizer/memcheck"), std::string::npos) << conclusion.error().message;
  EXPECT_EQ(evaluator_.comparisons, 0);
}

TEST_F(SanitizedConclusion, WithoutTheToolItIsNotRun) {
  accept_two();
  options_.sanitize = false;
  const auto conclusion = run();
  if (!conclusion.ok() && conclusion.error().kind == ErrorKind::environment) GTEST_SKIP() << conclusion.error().message;
  ASSERT_TRUE(conclusion.ok()) << conclusion.error().message;
  EXPECT_EQ(conclusion->sanitizer.describe(), "memcheck, racecheck, synccheck, initcheck not run (not asked for)");
}

}  // namespace
}  // namespace warpsmith
