// CUDA sources through the judge and the real NVRTC, over an evaluator that needs no device: good ones reach it, and a
// source that wants files, host code or other kernels gets a verdict and nothing else.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "base/paths.h"
#include "serve/device_judge.h"
#include "support.h"

namespace warpsmith::serve {
namespace {

using Json = nlohmann::json;

class PatientEvaluator final : public Evaluator {
 public:
  const Machine& machine() const override { return machine_; }
  Verdict evaluate(const Problem&, const Candidate&, const Artifact&, double, const TimingEffort&) override {
    return testing::accepted_outcome(10).verdict;
  }
  Result<Comparison> compare(const Problem&, const Candidate&, const Artifact&, const TimingEffort& effort,
                             std::optional<Verdict>*) override {
    compared_with = effort.baselines;
    return comparison;
  }
  Result<std::vector<Measurement>> baselines(const Problem&, const TimingEffort&) override {
    ++baselines_measured;
    std::vector<Measurement> list(3);
    list[0].subject = "cublaslt-auto-nn";
    list[0].cold.median_us = 30;
    list[1].subject = "cublaslt-heuristic-nn";
    list[1].cold.median_us = 40;
    list[2].subject = "cublaslt-auto-tn";
    list[2].cold.median_us = 5;
    return list;
  }
  int baselines_measured = 0;
  Result<Comparison> comparison = failure("not asked for");
  std::vector<std::string> compared_with;

 private:
  Machine machine_ = machine_of_architecture("sm_90").value();
};

class SourcesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = testing::open_store(directory_ / "queue");
    archive_ = Archive::open(directory_ / "archive").value();
    start();
  }
  void start(bool paired = false) {
    auto evaluator = std::make_unique<PatientEvaluator>();
    evaluator_ = evaluator.get();
    judge_ = make_device_judge({Target::sm90, 1, {}, paired}, std::move(evaluator), compiler_, *archive_, *store_);
  }
  Json mma() const {
    const std::string folder = WARPSMITH_TEST_EXAMPLES;
    return {{"problem", testing::kProblem},
            {"source", read_file(folder + "/mma_64x64.cu").value()},
            {"descriptor", Json::parse(read_file(folder + "/mma_64x64.json").value())}};
  }
  Result<Outcome> judge(const Json& candidate) {
    const auto submission = read_submission(candidate, testing::cuda_site());
    if (!submission) return submission.error();
    Job job;
    job.problem = submission->problem;
    job.name = submission->name;
    job.source = submission->source;
    job.descriptor = submission->descriptor;
    return judge_->judge(job, judge_->compile(job));
  }

  testing::TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Archive> archive_;
  const Compiler compiler_{{.cache = std::filesystem::temp_directory_path() / "warpsmith-cli-test-cache"}};
  PatientEvaluator* evaluator_ = nullptr;
  std::unique_ptr<DeviceJudge> judge_;
};

TEST_F(SourcesTest, AGoodSourceIsMeasuredAndKept) {
  const auto outcome = judge(mma());
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_EQ(outcome->verdict.kind(), "accepted") << outcome->verdict.describe();
  EXPECT_EQ(outcome->reference, "cublaslt-auto-nn");
  EXPECT_EQ(outcome->reference_us, 30);
  const auto scopes = archive_->scopes().value();
  ASSERT_EQ(scopes.size(), 1u);
  const auto history = archive_->history(scopes.front()).value();
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history.front().policy, "serve");
  const auto kept = archive_->find_free_form(history.front().recipe);
  ASSERT_TRUE(kept.ok() && kept->has_value());
  EXPECT_EQ((*kept)->source, mma()["source"]);
}

TEST_F(SourcesTest, ReferencesStay) {
  ASSERT_TRUE(judge(mma()).ok());
  ASSERT_TRUE(judge(mma()).ok());
  EXPECT_EQ(evaluator_->baselines_measured, 1);
  ASSERT_TRUE(store_->keep_reference(evaluator_->machine().id(), testing::kProblem, {33, "cublaslt-auto-nn"}).ok());
  start();
  EXPECT_EQ(judge(mma())->reference_us, 33);
  EXPECT_EQ(evaluator_->baselines_measured, 1) << "measured for the guard against leaps all the same";
}

TEST_F(SourcesTest, PairsAreRunBesideTheReference) {
  start(true);
  Comparison pairs;
  pairs.score = PairedScore{"cublaslt-auto-nn", 2.5, {}, 0, 21, true};
  evaluator_->comparison = pairs;
  auto outcome = judge(mma());
  ASSERT_TRUE(outcome.ok() && outcome->paired);
  EXPECT_EQ(outcome->paired->value, 2.5);
  EXPECT_EQ(evaluator_->compared_with, std::vector<std::string>{"cublaslt-auto-nn"});
  pairs.score->usable = false;
  evaluator_->comparison = pairs;
  EXPECT_FALSE(judge(mma())->paired) << "the plain ratio stands";
  evaluator_->comparison = failure("the candidate fails gate exact on fresh data");
  outcome = judge(mma());
  EXPECT_EQ(outcome->verdict.kind(), "suspicious");
  EXPECT_EQ(reward_of(*outcome, 10, {}).speedup, 0);
  evaluator_->comparison = environment_error("no GPU");
  EXPECT_FALSE(judge(mma()).ok());
}

TEST_F(SourcesTest, SourcesReadNothingAndRunNothing) {
  const auto secret = directory_ / "secret";
  std::ofstream(secret) << "root-of-all-evil\n";
  const std::string name = secret.string();
  for (const std::string& head :
       {"#include \"" + name + "\"", "#  include <" + name + ">", "%:include \"" + name + "\"",
        "#if __has_include(\"" + name + "\")\n#error yes\n#endif", "#embed \"" + name + "\"",
        std::string("#include <cstdlib>\nstatic int leak = system(\"id\");"),
        "__device__ void leak() { asm(\".incbin \\\"" + name + "\\\";\"); }",
        std::string("__host__ int main() { return 1; }\n#error stop"),
        std::string("extern \"C\" int printf(const char*, ...);\nextern \"C\" __global__ void p() { printf(\"x\"); }"),
        std::string("extern \"C\" __device__ int system(const char*);\nextern \"C\" __global__ void s() { "
                    "system(\"id\"); }")}) {
    Json candidate = mma();
    candidate["source"] = head + "\n" + candidate["source"].get<std::string>();
    const auto outcome = judge(candidate);
    ASSERT_TRUE(outcome.ok()) << head << outcome.error().message;
    EXPECT_EQ(outcome->verdict.kind(), "compile-error") << head;
    EXPECT_EQ(Json(*outcome).dump().find("root-of-all-evil"), std::string::npos) << head;
  }
}

TEST_F(SourcesTest, WhatDoesNotFitTheProblemIsIllegal) {
  Json candidate = mma();
  candidate["problem"] = "64x64x64 nn f16 f16";
  const auto outcome = judge(candidate);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->verdict.kind(), "illegal");
  EXPECT_EQ(reward_of(*outcome, 10, {}).speedup, 0);
}

}  // namespace
}  // namespace warpsmith::serve
