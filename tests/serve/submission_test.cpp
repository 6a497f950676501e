// What is read of requests: candidates, completions, tokens, the token; and that hostile text is refused with a reason.
#include "serve/submission.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <random>

#include "base/file.h"
#include "codegen/descriptor.h"
#include "serve/outcome.h"
#include "serve/token.h"
#include "support.h"

namespace warpsmith::serve {
namespace {

using testing::cpu_site;
using testing::cuda_site;
using testing::kProblem;
using Json = nlohmann::json;

std::string complaint(const Json& candidate, const Site& site = cpu_site()) {
  const auto submission = read_submission(candidate, site);
  return submission ? "accepted" : submission.error().message;
}

void expect_complaint(const Json& candidate, const std::string& part, const Site& site = cpu_site()) {
  const std::string text = complaint(candidate, site);
  EXPECT_NE(text.find(part), std::string::npos) << candidate.dump() << " -> " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(Submission, IsKnownByItsContent) {
  const Json candidate = {{"problem", kProblem}, {"recipe", "cpu unroll=2 tile=4x2"}};
  const auto one = read_submission(candidate, cpu_site());
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(one->id.size(), 64u);
  // Order, defaults, and everything that is not the candidate make no difference.
  const auto same = read_submission(
      {{"problem", "64x64x64"}, {"recipe", "cpu tile=4x2 unroll=2 order=rows"}, {"priority", 7}, {"remeasure", true}},
      cpu_site());
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_EQ(same->id, one->id);
  EXPECT_EQ(same->priority, 7);
  EXPECT_TRUE(same->remeasure);
  EXPECT_NE(read_submission({{"problem", "64x64x64 tn"}, {"recipe", "cpu unroll=2"}}, cpu_site())->id, one->id);
  EXPECT_NE(read_submission({{"problem", kProblem}, {"recipe", "cpu unroll=4"}}, cpu_site())->id, one->id);
  Site other = cpu_site();
  other.threads = 1;
  EXPECT_NE(read_submission(candidate, other)->id, one->id);
  other = cpu_site();
  other.machine.name = "another CPU";
  EXPECT_NE(read_submission(candidate, other)->id, one->id);
}

TEST(Submission, SaysWhatIsWrong) {
  expect_complaint(Json::array(), "not an object");
  expect_complaint({{"problem", kProblem}}, "exactly one of");
  expect_complaint({{"problem", kProblem}, {"recipe", "cpu"}, {"answer", "x"}}, "exactly one of");
  expect_complaint({{"problem", kProblem}, {"source", "x"}}, "exactly one of");
  expect_complaint({{"problem", kProblem}, {"recipe", "cpu"}, {"descriptor", Json::object()}}, "exactly one of");
  expect_complaint({{"problem", kProblem}, {"recipi", "cpu"}}, "did you mean 'recipe'");
  expect_complaint({{"recipe", "cpu"}}, "no problem is named");
  expect_complaint({{"problem", 3}, {"recipe", "cpu"}}, "'problem'");
  expect_complaint({{"problem", "64x64"}, {"recipe", "cpu"}}, "accepted");
  expect_complaint({{"problem", "0x64x64"}, {"recipe", "cpu"}}, "out of range");
  expect_complaint({{"problem", "32768x32768x32768"}, {"recipe", "cpu"}}, "this server accepts at most");
  expect_complaint({{"problem", kProblem}, {"recipe", "gpu"}}, "unknown family");
  expect_complaint({{"problem", kProblem}, {"recipe", "sm90"}}, "not one of target cpu");
  expect_complaint({{"problem", kProblem}, {"recipe", "cpu"}}, "not one of target sm90", cuda_site());
  expect_complaint({{"problem", kProblem}, {"recipe", "cpu tile=3"}}, "tile");
  expect_complaint({{"problem", kProblem}, {"recipe", Json::array({"cpu"})}}, "'recipe'");
  for (const Json& value : {Json(101), Json(-101), Json(1.5), Json("high"), Json(1e300), Json(UINT64_MAX)}) {
    expect_complaint({{"problem", kProblem}, {"recipe", "cpu"}, {"priority", value}}, "'priority'");
  }
  for (const Json& value : {Json(0), Json(-1), Json("1s"), Json(1e300), Json(nullptr)}) {
    expect_complaint({{"problem", kProblem}, {"recipe", "cpu"}, {"deadline_seconds", value}}, "'deadline_seconds'");
  }
  expect_complaint({{"problem", kProblem}, {"recipe", "cpu"}, {"remeasure", 1}}, "'remeasure'");
}

TEST(Submission, TakesTheServersProblemWhereNoneIsNamed) {
  Site site = cpu_site();
  site.problem = parse_problem("32x32x32 tn").value();
  EXPECT_EQ(read_submission({{"recipe", "cpu"}}, site)->problem, *site.problem);
  EXPECT_EQ(read_submission({{"recipe", "cpu"}, {"problem", kProblem}}, site)->problem.m, 64);
}

TEST(Submission, HostCodeIsNoCandidate) {
  const std::string host = "#include <cstdlib>\nextern \"C\" void warpsmith_kernel() { system(\"id\"); }";
  expect_complaint({{"problem", kProblem}, {"source", host}, {"descriptor", Json::object()}}, "target cpu");
  const std::string answer = "## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```cpp\n" + host + "\n```\n";
  EXPECT_NE(complaint({{"problem", kProblem}, {"answer", answer}}), "accepted");
}

TEST(Submission, SourcesAreForCudaTargets) {
  const std::string folder = WARPSMITH_TEST_EXAMPLES;
  const std::string source = read_file(folder + "/mma_64x64.cu").value();
  const Json descriptor = Json::parse(read_file(folder + "/mma_64x64.json").value());
  const auto submission =
      read_submission({{"problem", kProblem}, {"source", source}, {"descriptor", descriptor}}, cuda_site());
  ASSERT_TRUE(submission.ok()) << submission.error().message;
  EXPECT_EQ(submission->name.rfind("free ", 0), 0u);
  EXPECT_EQ(submission->source, source);
  EXPECT_GT(submission->tokens, 100);
  // What the descriptor names as its source is a name, not a file that anybody opens.
  Json other = descriptor;
  other["source"] = "../../etc/passwd";
  expect_complaint({{"problem", kProblem}, {"source", source}, {"descriptor", other}}, "/source", cuda_site());
  other = descriptor;
  other["kernels"][0]["grid"] = Json::array({"m +"});
  expect_complaint({{"problem", kProblem}, {"source", source}, {"descriptor", other}}, "/kernels/0/grid/0",
                   cuda_site());
  expect_complaint(
      {{"problem", kProblem}, {"source", std::string(kMaxSourceBytes + 1, ' ')}, {"descriptor", descriptor}}, "at most",
      cuda_site());
  const std::string nested = std::string(10'000, '[') + std::string(10'000, ']');
  expect_complaint({{"problem", kProblem}, {"source", source}, {"descriptor", nested}}, "levels", cuda_site());
}

TEST(Completion, IsWhatFollowsThePrompt) {
  EXPECT_EQ(completion_of("<|user|>Q<|assistant|>the answer<|im_end|>\n<|endoftext|>", "<|user|>Q<|assistant|>"),
            "the answer");
  EXPECT_EQ(completion_of("<s>Q: Q?A: not Q: Q?A: again", "Q: Q?A:"), " not Q: Q?A: again");
  EXPECT_EQ(completion_of("abc</s><pad><pad>", ""), "abc");
  EXPECT_EQ(completion_of("a < b > c", "not in it"), "a < b > c");
  EXPECT_EQ(completion_of("x <div>", ""), "x <div>");
  const std::string full_width =
      "<\xef\xbd\x9c"
      "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>";
  EXPECT_EQ(completion_of("abc" + full_width + " <eos>", ""), "abc");
  EXPECT_EQ(completion_of("std::vector<int>", ""), "std::vector<int>");
  EXPECT_EQ(completion_of("", "prompt"), "");
  EXPECT_EQ(completion_of("<|a|>", "<|a|>"), "");
}

TEST(Completion, BecomesTheRecipeInIt) {
  const Problem problem = parse_problem(kProblem).value();
  const std::string text =
      "## Performance analysis\nWider is better.\n## Algorithm design\nTwo columns.\n## Code\n```recipe\ncpu "
      "unroll=2\n```";
  const auto submission = read_completion(text, problem, cpu_site());
  ASSERT_TRUE(submission.ok()) << submission.error().message;
  EXPECT_EQ(submission->id, read_submission({{"problem", kProblem}, {"recipe", "cpu unroll=2"}}, cpu_site())->id);
  // As some tokenizers leave it, and as nobody cut it off.
  for (const char* token : {"<|im_end|>",
                            " <\xef\xbd\x9c"
                            "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                            "<turn_end>"}) {
    const auto same = read_completion(text + token + "\n", problem, cpu_site());
    ASSERT_TRUE(same.ok()) << token << same.error().message;
    EXPECT_EQ(same->id, submission->id);
  }
  EXPECT_FALSE(read_completion(text + "<a> <b>", problem, cpu_site()).ok());
  EXPECT_FALSE(read_completion("I would rather talk about the weather.", problem, cpu_site()).ok());
}

TEST(Tokens, AreWordsNumbersAndSigns) {
  EXPECT_EQ(count_tokens(""), 0);
  EXPECT_EQ(count_tokens(" \n\t"), 0);
  EXPECT_EQ(count_tokens("int x = 12;"), 5);
  EXPECT_EQ(count_tokens("a+b"), 3);
  EXPECT_EQ(count_tokens("cpu tile=4x2"), 4);
}

TEST(Json, HasFewLevels) {
  EXPECT_TRUE(parse_json(R"({"a": [1, {"b": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}]})").ok());
  EXPECT_TRUE(parse_json(R"(["\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["])").ok());
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')).ok());
  EXPECT_FALSE(parse_json(std::string(40, '[') + std::string(40, ']')).ok());
  for (const char* text : {"", "{", "nul", "{\"a\":}", "\xff\xfe", "[1e999]", "{\"a\":\"\\ud800\"}", "1 2"}) {
    const auto parsed = parse_json(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
  }
}

// Valid requests with bytes changed, dropped, doubled and swapped: an answer or a reason, never more.
TEST(Fuzz, EveryRequestGetsASubmissionOrAReason) {
  const std::vector<std::string> seeds = {
      R"({"problem":"64x64x64 nn f16 f32","recipe":"cpu simd=avx2 tile=4x2 block=allxallx512","priority":5})",
      R"({"problem":"128x64x32 tn bf16 f32 ld=0,64,0","answer":"## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```recipe\ncpu\n```"})",
      R"({"problem":"64x64x64","source":"extern \"C\" __global__ void k() {}","descriptor":{"warpsmith_candidate":1,"kernels":[{"entry":"k","grid":["m"],"block":[32],"arguments":[{"int32":"m"}]}]}})"};
  std::mt19937 random(7);
  int refused = 0, accepted = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = seeds[static_cast<std::size_t>(round) % seeds.size()];
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const std::size_t at = random() % text.size(), length = 1 + random() % 8;
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), length));
          break;
        default:
          text.insert(at, std::to_string(static_cast<std::int64_t>(random()) - (1LL << 31)));
      }
      if (text.empty()) text = "x";
    }
    const Site site = round % 2 == 0 ? cpu_site() : cuda_site();
    const auto parsed = parse_json(text);
    const std::string reason = parsed ? complaint(*parsed, site) : parsed.error().message;
    ASSERT_FALSE(reason.empty()) << text;
    ASSERT_EQ(reason.find('\n'), std::string::npos) << text << " -> " << reason;
    ++(reason == "accepted" ? accepted : refused);
  }
  EXPECT_GT(refused, 3000);
  EXPECT_GT(accepted, 20);
}

TEST(Token, AdmitsItselfAlone) {
  const auto token = Token::of("correct-horse-battery");
  ASSERT_TRUE(token.ok());
  EXPECT_TRUE(token->admits("Bearer correct-horse-battery"));
  EXPECT_TRUE(token->admits("bearer  correct-horse-battery "));
  EXPECT_TRUE(token->admits("Basic YW55OmNvcnJlY3QtaG9yc2UtYmF0dGVyeQ=="));  // any:correct-horse-battery
  for (const char* header : {"", "Bearer", "Bearer ", "correct-horse-battery", "Bearer correct-horse-batter",
                             "Bearer correct-horse-battery2", "Basic correct-horse-battery", "Basic YW55Og==",
                             "Basic Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", "Digest correct-horse-battery", "Basic !!!!"}) {
    EXPECT_FALSE(token->admits(header)) << header;
  }
  EXPECT_FALSE(Token::of("short").ok());
  EXPECT_FALSE(Token::of("with a blank in it").ok());
}

TEST(Token, ComesFromAFileOrTheEnvironment) {
  const testing::TemporaryDirectory directory;
  ASSERT_FALSE(Token::load({})->has_value());
  setenv(kTokenVariable, "from-the-environment", 1);
  auto token = Token::load({});
  ASSERT_TRUE(token.ok() && token->has_value());
  EXPECT_TRUE((*token)->admits("Bearer from-the-environment"));
  EXPECT_EQ(getenv(kTokenVariable), nullptr) << "child processes would inherit it";
  const auto path = directory / "token";
  std::ofstream(path) << "from-the-file-of-mine\n";
  chmod(path.c_str(), 0600);
  token = Token::load(path);
  ASSERT_TRUE(token.ok() && token->has_value());
  EXPECT_TRUE((*token)->admits("Bearer from-the-file-of-mine"));
  chmod(path.c_str(), 0644);
  const auto open = Token::load(path);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().message.find("from-the-file"), std::string::npos);
  const auto none = Token::load(directory / "none");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::bad_input);
  setenv(kTokenVariable, "short", 1);
  const auto unusable = Token::load({});
  ASSERT_FALSE(unusable.ok());
  EXPECT_NE(unusable.error().message.find(kTokenVariable), std::string::npos) << unusable.error().message;
  EXPECT_EQ(unusable.error().message.find("short"), std::string::npos);
}

TEST(Token, Base64) {
  EXPECT_EQ(decode_base64("").value(), "");
  EXPECT_EQ(decode_base64("TQ==").value(), "M");
  EXPECT_EQ(decode_base64("TWE=").value(), "Ma");
  EXPECT_EQ(decode_base64("TWFu").value(), "Man");
  for (const char* text : {"T", "TW", "TWF", "TW=u", "====", "T===", "TWF*"}) EXPECT_FALSE(decode_base64(text)) << text;
}

TEST(Reward, FollowsTheFormula) {
  train::RewardConfig config;
  config.alpha = 0.1;
  config.beta = 0.001;
  const Outcome outcome = testing::accepted_outcome(10, 20);
  const Reward reward = reward_of(outcome, 100, config);
  EXPECT_DOUBLE_EQ(reward.speedup, 2);
  EXPECT_DOUBLE_EQ(reward.difference, 0.25);
  EXPECT_DOUBLE_EQ(reward.reward, 2 - 0.1 * 0.25 - 0.001 * 100);
  EXPECT_DOUBLE_EQ(reward.score, 2.0 / 3);
  Outcome paired = outcome;
  paired.paired = PairedScore{"openblas-sgemm-nn-1t", 1.5, {}, 0, 21, true};
  EXPECT_DOUBLE_EQ(reward_of(paired, 100, config).speedup, 1.5);
  EXPECT_DOUBLE_EQ(nlohmann::json(paired).get<Outcome>().paired->value, 1.5);
  Outcome wrong;
  wrong.verdict.outcome = verdict::Wrong{{"bound/normal", false, "", 1e300}};
  wrong.verdict.gates = {{"bound/normal", false, "", 1e300}};
  for (const Reward& bad : {reward_of(wrong, 100, config), reward_of_nothing(100, config)}) {
    EXPECT_DOUBLE_EQ(bad.reward, -0.1 - 0.1);
    EXPECT_EQ(bad.score, 0);
    EXPECT_EQ(bad.speedup, 0);
  }
  const auto again = nlohmann::json::parse(nlohmann::json(outcome).dump()).get<Outcome>();
  EXPECT_DOUBLE_EQ(reward_of(again, 100, config).reward, reward.reward);
  EXPECT_EQ(again.reference, outcome.reference);
}

}  // namespace
}  // namespace warpsmith::serve
