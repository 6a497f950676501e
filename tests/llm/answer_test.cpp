// From a completion's text to a candidate, and the one line that says why not.
#include "llm/answer.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "machines.h"

namespace warpsmith::llm {
namespace {

constexpr const char* kSource =
    "extern \"C\" __global__ void f(const unsigned short* a, const unsigned short* b, unsigned short* c) {\n"
    "  # not a heading\n"
    "}\n";
constexpr const char* kDescriptor =
    "{\"warpsmith_candidate\": 1, \"kernels\": [{\"entry\": \"f\", \"grid\": [\"ceil_div(n, 64)\"], \"block\": [128],\n"
    " \"arguments\": [{\"pointer\": \"a\"}, {\"pointer\": \"b\"}, {\"pointer\": \"c\"}]}]}\n";

std::string sections(const std::string& code) {
  return "Sure!\n\n## Performance analysis\nThe first is faster.\n## Algorithm design\nSmaller tiles.\n## Code\n" +
         code;
}
std::string free_form() {
  return sections(std::string("```cuda\n") + kSource + "```\nand\n```json\n" + kDescriptor + "```\n");
}

const Problem& problem() {
  static const Problem kProblem{128, 64, 256};
  return kProblem;
}

// The one line that an answer is refused with.
std::string refusal(const std::string& text, Target target) {
  const auto answer = parse_answer(text, problem(), is_cuda(target) ? test_gpu() : test_cpu(), target);
  if (answer) return "accepted as " + answer->written.name;
  EXPECT_EQ(answer.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(answer.error().message.find('\n'), std::string::npos) << answer.error().message;
  return answer.error().message;
}
void expect_refused(const std::string& text, Target target, const std::string& part) {
  EXPECT_NE(refusal(text, target).find(part), std::string::npos) << refusal(text, target) << "\nis not: " << part;
}

TEST(Answer, HoldsARecipeOnTheCpuTarget) {
  const std::string recipe = to_string(Recipe(*parse_recipe("cpu")));
  for (const char* code : {"```recipe\ncpu\n```\n", "```\ncpu\n```", "cpu\n", "`cpu`\n", "~~~ recipe\n\ncpu\n~~~"}) {
    const auto answer = parse_answer(sections(code), problem(), test_cpu(), Target::cpu);
    ASSERT_TRUE(answer) << code << answer.error().message;
    EXPECT_EQ(answer->written.name, recipe);
    EXPECT_EQ(answer->sections.analysis, "The first is faster.");
    EXPECT_EQ(answer->sections.design, "Smaller tiles.");
    EXPECT_EQ(answer->written.candidate.language, Language::cpp);
  }
}

TEST(Answer, HoldsSourceAndDescriptorOnCudaTargets) {
  const auto answer = parse_answer(free_form(), problem(), test_gpu(), Target::sm90);
  ASSERT_TRUE(answer) << answer.error().message;
  const Candidate& candidate = answer->written.candidate;
  EXPECT_EQ(candidate.source.substr(candidate.source.size() - std::string(kSource).size()), kSource);
  EXPECT_EQ(std::get<CudaLaunch>(candidate.launch).kernels.at(0).grid[0], 1);
  EXPECT_EQ(answer->written.name, free_form_name(kSource, kDescriptor));
  EXPECT_EQ(answer->written.name.size(), 5u + 64u);
  EXPECT_EQ(answer->written.descriptor, kDescriptor);
  EXPECT_NE(free_form_name("ab", "c"), free_form_name("a", "bc"));
}

TEST(Answer, HoldsARecipeOnCudaTargetsToo) {
  const auto answer = parse_answer(sections("```recipe\ntiny\n```\n"), problem(), test_gpu(), Target::sm90);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->written.recipe);
}

TEST(Answer, TakesHeadingsAsModelsWriteThem) {
  for (const char* text :
       {"<think>## Code\nhm</think>\n# 1. Performance Analysis:\nx\n### 2) **Algorithm design**\ny\n**Code**\ncpu",
        "## Code\r\ncpu\r\n\r\n## performance analysis\r\nx\r\n## ALGORITHM DESIGN\r\ny\r\n### Details\r\nz\r\n"}) {
    const auto answer = parse_answer(text, problem(), test_cpu(), Target::cpu);
    EXPECT_TRUE(answer) << answer.error().message;
  }
}

TEST(Answer, RefusesWhatIsNoAnswer) {
  expect_refused("", Target::cpu, "the answer is empty; accepted: '## Performance analysis'");
  expect_refused("I would use a larger tile.", Target::cpu, "section '## Performance analysis' is missing");
  expect_refused("<think>endless", Target::cpu, "ends within its <think> part");
  expect_refused("## Performance analysis\nx\n## Code\ncpu", Target::cpu, "'## Algorithm design' is missing");
  expect_refused("## Performance analysis\n\n## Algorithm design\ny\n## Code\ncpu", Target::cpu,
                 "'## Performance analysis' is empty");
  expect_refused(sections("cpu\n## Code\ncpu"), Target::cpu, "'## Code' is there twice");
  expect_refused(sections(""), Target::cpu, "'## Code' is empty");
  expect_refused(sections("```recipe\ncpu"), Target::cpu, "the block that begins with ```recipe never ends");
  expect_refused(std::string(kMaxAnswerBytes + 1, 'x'), Target::cpu, "at most 1048576 are accepted");
}

TEST(Answer, RefusesOtherCandidates) {
  expect_refused(sections("```recipe\ncpu\ncpu\n```"), Target::cpu, "one ```recipe block with one line");
  expect_refused(sections("```recipe\ncpu nonsense=1\n```"), Target::cpu, "unknown knob 'nonsense'");
  expect_refused(sections("```recipe\nsm90\n```"), Target::cpu, "'sm90' is not one of target cpu");
  expect_refused(sections("```recipe\ncpu\n```"), Target::sm90, "'cpu' is not one of target sm90");
  expect_refused(free_form(), Target::cpu, "accepted on target cpu: one ```recipe block");
  expect_refused(sections(std::string("```cuda\n") + kSource + "```\n"), Target::sm90,
                 "1 blocks of source and 0 of JSON");
  expect_refused(sections("```cuda\nx\n```\n```json\n{\"warpsmith_candidate\": 1, \"kernels\": []}\n```"), Target::sm90,
                 "answer.json: /");
  expect_refused(sections("```cuda\nx\n```\n```json\n{broken\n```"), Target::sm90, "answer.json");
  expect_refused(
      sections("```cuda\nx\n```\n```json\n{\"warpsmith_candidate\": 1, \"requires\": [\"k == 1\"], \"kernels\": "
               "[{\"entry\": \"f\", \"grid\": [1], \"block\": [1], \"arguments\": [{\"int32\": 1}]}]}\n```"),
      Target::sm90, "k == 1");
}

// Whatever bytes come, the answer is a value or one line.
TEST(Answer, SurvivesGarbage) {
  const std::string seeds = free_form() + sections("```recipe\ncpu\n```");
  std::uint64_t state = 1;
  for (int round = 0; round < 300; ++round) {
    std::string text = seeds;
    for (int change = 0; change < 8; ++change) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const std::size_t at = (state >> 33) % text.size();
      if (round % 2 == 0)
        text.erase(at, (state >> 20) % 97);
      else
        text[at] = static_cast<char>(state >> 25);
      if (text.empty()) text = "#";
    }
    const auto answer = parse_answer(text, problem(), test_gpu(), Target::sm90);
    EXPECT_TRUE(answer || answer.error().kind == ErrorKind::bad_input);
  }
}

}  // namespace
}  // namespace warpsmith::llm
