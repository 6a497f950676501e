// Templates and the prompts that they make, compared with golden files. WARPSMITH_UPDATE_GOLDEN=1 writes those anew.
#include "llm/prompt.h"

#include <gtest/gtest.h>

#include "golden.h"
#include "llm/hack_checker.h"
#include "machines.h"
#include "scripted_server.h"

namespace warpsmith::llm {
namespace {

std::string render(const std::string& text, const TemplateValues& values) {
  const auto parsed = Template::parse(text, "t.md", {"a", "b"});
  return parsed ? parsed->render(values) : parsed.error().message;
}

TEST(TemplateText, KeepsWhatItsValuesSay) {
  EXPECT_EQ(render("x {{a}} y {{ b }}", {{"a", "1"}}), "x 1 y ");
  EXPECT_EQ(render("{{! note }}\n{{#a}}\n[{{a}}]\n{{/a}}\n{{^a}}\nnone\n{{/a}}\nend", {{"a", "1"}}), "[1]\nend");
  EXPECT_EQ(render("{{#a}}\n[{{a}}]\n{{/a}}\n{{^a}}\nnone\n{{/a}}\nend", {}), "none\nend");
  EXPECT_EQ(render("{{#a}}{{#b}}both{{/b}} a{{/a}}", {{"a", "1"}}), " a");
  EXPECT_EQ(render("{{a}}", {{"a", "{{b}}"}, {"b", "2"}}), "{{b}}") << "values are no templates";
}

TEST(TemplateText, NamesMistakesWithTheirLine) {
  EXPECT_EQ(render("x\n{{c}}", {}), "t.md:2: unknown name 'c'; accepted: a, b");
  EXPECT_EQ(render("{{a", {}), "t.md:1: '{{' without '}}'");
  EXPECT_EQ(render("{{#a}}", {}), "t.md:1: '{{#a}}' is never closed");
  EXPECT_EQ(render("\n\n{{/a}}", {}), "t.md:3: '{{/a}}' closes nothing");
  EXPECT_EQ(render("{{#a}}{{#b}}{{/a}}{{/b}}", {}), "t.md:1: '{{/a}}' closes nothing");
}

TEST(PromptFiles, AreCheckedWhenLoaded) {
  const TemporaryDirectory directory;
  EXPECT_EQ(Prompts::load(directory.path()).error().kind, ErrorKind::environment);
  for (const char* name : {"system", "cuda", "cpu", "exemplar", "repair", "checker"}) {
    const std::string file = std::string(name) + ".md";
    ASSERT_TRUE(write_file_atomic(directory / file, *read_file(std::filesystem::path(WARPSMITH_PROMPTS) / file)));
  }
  const auto whole = Prompts::load(directory.path());
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_TRUE(
      write_file_atomic(directory / "repair.md", "{{! warpsmith prompt, version 1: mine }}\nMend it: {{reason}}\n"));
  const auto edited = Prompts::load(directory.path());
  ASSERT_TRUE(edited);
  EXPECT_EQ(repair(*edited, {}, "x", "because", "").back().content, "Mend it: because\n");
  EXPECT_NE(edited->hash, whole->hash);
  ASSERT_TRUE(write_file_atomic(directory / "repair.md", "{{! warpsmith prompt, version 2: mine }}\n"));
  EXPECT_NE(Prompts::load(directory.path()).error().message.find("repair.md:1: not a prompt template of version 1"),
            std::string::npos);
  ASSERT_TRUE(write_file_atomic(directory / "repair.md", "{{! warpsmith prompt, version 1: x }}\n\n{{exemplars}}\n"));
  EXPECT_NE(Prompts::load(directory.path())
                .error()
                .message.find("repair.md:3: unknown name 'exemplars'; accepted: reason, words"),
            std::string::npos);
}

class Golden : public ::testing::Test {
 protected:
  Golden() {
    auto prompts = Prompts::load(WARPSMITH_PROMPTS);
    if (!prompts) throw std::runtime_error(prompts.error().message);
    prompts_ = std::move(*prompts);
  }
  Prompts prompts_;
};

TEST_F(Golden, OfACudaTarget) {
  PromptFacts facts;
  facts.scope = {Problem{64, 64, 64, Layout::tn}, test_gpu(), Target::sm90, 1};
  facts.scope.machine.versions.clear();
  facts.reference_us = 2.4;
  facts.reference = "cublaslt-auto-tn";
  facts.exemplars = {{{"tiny", 2.1, 2.4 / 2.1}, "tiny", "", "", "Its source of 40000 bytes is not shown.", ""},
                     {{"free x", 1.7, 2.4 / 1.7},
                      "",
                      "__global__ void f() {}\n",
                      "{\"warpsmith_candidate\": 1}\n",
                      "",
                      "tensor pipe 12 %, occupancy 6 %"}};
  facts.failures = {"free 0123456789ab: wrong (bound/normal): C[0,0] = 1 is not 2"};
  facts.retrieved = {{"notes.md:7", "mma.m16n8k16 wants 32 lanes.\n"}};
  expect_golden("cuda.txt", propose(prompts_, facts));
  expect_golden("repair.txt", repair(prompts_, {{"user", "(the prompt)"}}, "(the answer)",
                                     "compile error: no such thing", "answer.cu(3): error: no such thing\n"));
}

TEST_F(Golden, OfACudaTargetThatKnowsNothing) {
  PromptFacts facts;
  facts.scope = {Problem{4096, 512, 8192, Layout::nn, ElementType::bf16}, test_gpu(), Target::sm90, 1};
  facts.headers = "cute/, cutlass/";
  expect_golden("cuda-first.txt", propose(prompts_, facts));
}

TEST_F(Golden, OfTheRewardChecker) {
  const Archive::Scope scope = {Problem{64, 64, 64, Layout::tn}, test_gpu(), Target::sm90, 1};
  FreeForm form;
  form.source = "__device__ float kept[64];\n__global__ void f() {}\n";
  const std::string descriptor = "{\"warpsmith_candidate\": 1}\n";
  const Leap leap{form, descriptor, scope, 0.8, "2.4 times faster than the best before"};
  expect_golden("checker.txt", check_prompt(prompts_, leap, {{"device variable", "kept outlives a launch", "caches"}},
                                            {{"cache_by_value", "keeps C by what A begins with"}}));
}

TEST_F(Golden, OfTheCpuTarget) {
  PromptFacts facts;
  facts.scope = {Problem{256, 256, 256}, test_cpu(), Target::cpu, 1};
  facts.reference_us = 420;
  facts.reference = "openblas-sgemm-nn-1t";
  facts.exemplars = {{{"cpu", 600, 0.7}, "cpu", "", "", "", ""}};
  expect_golden("cpu.txt", propose(prompts_, facts));
}

TEST(Exemplars, ComeFromDistinctBuckets) {
  std::vector<AttemptSummary> history;
  for (int i = 0; i < 10; ++i) history.push_back({i, "same" + std::to_string(i), "accepted", 100.0 + 0.1 * i, ""});
  history.push_back({20, "fast", "accepted", 50.0, ""});
  history.push_back({21, "fast", "accepted", 49.0, ""});
  history.push_back({22, "liar", "accepted", 10.0, ""});
  history.push_back({23, "liar", "wrong", std::nullopt, ""});
  const auto kernels = accepted_kernels(history, 100);
  ASSERT_EQ(kernels.size(), 11u);
  EXPECT_EQ(kernels[0].name, "fast");
  EXPECT_EQ(kernels[0].time_us, 49);
  Rng rng(1);
  for (int round = 0; round < 20; ++round) {
    const auto drawn = draw_exemplars(history, 100, 2, {}, rng);
    ASSERT_EQ(drawn.size(), 2u);
    EXPECT_EQ(drawn[1].name, "fast") << "one of the slow bucket, then the fast one";
    EXPECT_GT(drawn[0].time_us, 99);
  }
  EXPECT_TRUE(draw_exemplars({}, 100, 2, {}, rng).empty());
}

}  // namespace
}  // namespace warpsmith::llm
