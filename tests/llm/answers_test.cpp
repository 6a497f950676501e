// The answers that scripts/gpu/llm.sh has judged on a GPU: here they are parsed and compiled.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/subprocess.h"
#include "compile/compile.h"
#include "evaluate/resource_gate.h"
#include "llm/answer.h"
#include "machines.h"
#include "scripted_server.h"
#include "search/conclude.h"

namespace warpsmith::llm {
namespace {

Result<Answer> read(const std::string& name, const Problem& problem) {
  const auto text = read_file(std::filesystem::path(WARPSMITH_ANSWERS) / name);
  EXPECT_TRUE(text) << text.error().message;
  return parse_answer(*text, problem, test_gpu(), Target::sm90);
}

class Answers : public ::testing::Test {
 protected:
  Result<Artifact> compile(const Candidate& candidate) const {
    CompilerOptions options;
    options.cache = cache_ / "cache";
    options.nvrtc_helper = WARPSMITH_NVRTC_HELPER;
    return Compiler(options).compile(candidate);
  }
  TemporaryDirectory cache_;
};

TEST_F(Answers, Compile) {
  const Problem tn{64, 64, 64, Layout::tn}, deep{128, 64, 256, Layout::tn}, nn{64, 64, 64, Layout::nn};
  for (const auto& [name, problems] : {std::pair<std::string, std::vector<Problem>>{"small_split_k.md", {tn, nn, deep}},
                                       {"small_wide_loads.md", {tn, deep}},
                                       {"small_one_warp.md", {tn, deep}},
                                       {"wrong_partial_k.md", {tn}},
                                       {"hack_keeps_result.md", {nn}}}) {
    for (const Problem& problem : problems) {
      const auto answer = read(name, problem);
      ASSERT_TRUE(answer) << name << ": " << answer.error().message;
      const auto artifact = compile(answer->written.candidate);
      ASSERT_TRUE(artifact) << name << ": " << artifact.error().message;
      const GateResult gate = resource_gate(artifact->resources);
      EXPECT_TRUE(gate.passed) << name << ": " << gate.detail;
      EXPECT_TRUE(artifact->resources.warnings.empty()) << name << "\n" << artifact->log;
    }
  }
}

TEST_F(Answers, FailAsTheyShould) {
  const auto broken = read("does_not_compile.md", {64, 64, 64, Layout::tn});
  ASSERT_TRUE(broken) << broken.error().message;
  const auto artifact = compile(broken->written.candidate);
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().kind, ErrorKind::failed);
  EXPECT_NE(artifact.error().message.find("wait_for_everybody"), std::string::npos) << artifact.error().message;
  const auto other = read("small_wide_loads.md", {64, 64, 64, Layout::nn});
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("layout"), std::string::npos) << other.error().message;
  EXPECT_FALSE(read("small_split_k.md", {60, 64, 64, Layout::nn}));
}

Measurement measurement(const char* subject, double cold_us) {
  Measurement one;
  one.subject = subject;
  one.cold.median_us = cold_us;
  return one;
}

// Believes everything.
class AcceptingEvaluator final : public Evaluator {
 public:
  const Machine& machine() const override { return machine_; }
  Verdict evaluate(const Problem&, const Candidate&, const Artifact&, double, const TimingEffort&) override {
    Verdict verdict;
    verdict.outcome = verdict::Accepted{measurement("candidate", 1.7)};
    return verdict;
  }
  Result<Comparison> compare(const Problem&, const Candidate&, const Artifact&, const TimingEffort&,
                             std::optional<Verdict>*) override {
    Comparison comparison;
    comparison.subjects = {measurement("candidate", 1.7), measurement("cublaslt-auto-tn", 2.4)};
    return comparison;
  }
  Result<std::vector<Measurement>> baselines(const Problem&, const TimingEffort&) override {
    return std::vector<Measurement>{};
  }

 private:
  Machine machine_ = test_gpu();
};

// A free form that won is concluded with, written as the two files of a candidate, and exported like a recipe's kernel.
TEST_F(Answers, AFreeFormIsAFinalist) {
  ConcludeOptions options;
  options.scope = {{64, 64, 64, Layout::tn}, test_gpu(), Target::sm90, 1};
  options.kernels = cache_ / "kernels";
  options.sanitize = false;
  const auto answer = read("small_split_k.md", options.scope.problem);
  ASSERT_TRUE(answer) << answer.error().message;
  const Written& written = answer->written;
  auto archive = Archive::open(cache_ / "archive.sqlite");
  ASSERT_TRUE(archive) << archive.error().message;
  ASSERT_TRUE((*archive)->record_free_form({written.name, written.form->source, written.descriptor}));
  AttemptRecord attempt;
  attempt.recipe = written.name;
  attempt.verdict.outcome = verdict::Accepted{measurement("candidate", 1.8)};
  ASSERT_TRUE((*archive)->record(options.scope, attempt));
  CompilerOptions compiler;
  compiler.cache = cache_ / "cache";
  compiler.nvrtc_helper = WARPSMITH_NVRTC_HELPER;
  AcceptingEvaluator evaluator;
  const auto conclusion = conclude(options, Compiler(compiler), evaluator, **archive, [](const std::string&) {});
  ASSERT_TRUE(conclusion) << conclusion.error().message;
  EXPECT_EQ(conclusion->recipe, written.name);
  const auto form = load_candidate(conclusion->source);
  ASSERT_TRUE(form) << form.error().message;
  EXPECT_EQ(form->source, written.form->source);
  EXPECT_TRUE(instantiate(*form, options.scope.problem, options.scope.machine));

  ProcessRequest request;
  request.argv = {WARPSMITH_CLI,
                  "export",
                  "64x64x64",
                  "--layout",
                  "tn",
                  "--archive",
                  (cache_ / "archive.sqlite").string(),
                  "--output",
                  (cache_ / "exported").string()};
  request.environment = {{"WARPSMITH_DATA", cache_.path().string()}};
  const auto output = run_process(request);
  ASSERT_TRUE(output);
  ASSERT_EQ(output->status.exit_code, 0) << output->err;
  const auto exported = read_file(output->out.substr(0, output->out.find('\n')));
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_NE(exported->find("movmatrix"), std::string::npos);
  EXPECT_NE(exported->find(written.name), std::string::npos) << "says where it comes from";
}

}  // namespace
}  // namespace warpsmith::llm
