// The loop over a scripted endpoint and a judge that knows the answers: what is asked, repaired, believed, recorded,
// and when it ends.
#include "llm/session.h"

#include <gtest/gtest.h>

#include <map>

#include "llm/answer.h"
#include "machines.h"
#include "scripted_server.h"

namespace warpsmith::llm {
namespace {

using nlohmann::json;

Verdict accepted(double time_us) {
  Measurement measurement;
  measurement.subject = "candidate";
  measurement.cold.median_us = measurement.warm.median_us = time_us;
  Verdict verdict;
  verdict.outcome = verdict::Accepted{measurement};
  return verdict;
}
Verdict ended(decltype(Verdict::outcome) outcome) {
  Verdict verdict;
  verdict.outcome = std::move(outcome);
  return verdict;
}

// Verdicts by a word of the source; others by how often it was asked.
class KnowingJudge : public CandidateJudge {
 public:
  Verdict judge(const Candidate& candidate, double) override {
    ++judged;
    for (const auto& [word, verdict] : verdicts) {
      if (candidate.source.find(word) != std::string::npos) return verdict;
    }
    return accepted(100.0 + judged);
  }
  std::map<std::string, Verdict> verdicts;
  int judged = 0;
};

std::string kernel_answer(const std::string& word, const std::string& more = "") {
  return answer_with("```cuda\n// " + word + "\n" + more +
                     "extern \"C\" __global__ void f(const void* a, const void* b, void* c) {}\n```\n```json\n"
                     "{\"warpsmith_candidate\": 1, \"kernels\": [{\"entry\": \"f\", \"grid\": [1], \"block\": [32], "
                     "\"arguments\": [{\"pointer\": \"a\"}, {\"pointer\": \"b\"}, {\"pointer\": \"c\"}]}]}\n```\n");
}

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    auto archive = Archive::open(directory_ / "archive.sqlite");
    if (!archive) throw std::runtime_error(archive.error().message);
    archive_ = std::move(*archive);
    auto prompts = Prompts::load(WARPSMITH_PROMPTS);
    if (!prompts) throw std::runtime_error(prompts.error().message);
    prompts_ = std::move(*prompts);
    options_.scope = {Problem{128, 64, 256}, test_gpu(), Target::sm90, 1};
    options_.models = {{"small", 1, 2.0, 10.0}};
    options_.budget_seconds = 60;
    options_.first_recipes = 2;
    options_.reference_us = 200;
    options_.reference = "cublaslt-auto-nn";
  }

  void on_the_cpu() { options_.scope = {Problem{128, 64, 256}, test_cpu(), Target::cpu, 1}; }

  std::unique_ptr<ChatClient> client_for(const ScriptedServer& server, int attempts = 2) const {
    ChatOptions options;
    options.url = server.url();
    options.key = "sk-secret-2";
    options.max_attempts = attempts;
    options.total_seconds = 1;
    auto client = ChatClient::make(options, open_transport(), [](double, const std::atomic<bool>&) {});
    if (!client) throw std::runtime_error(client.error().message);
    return std::move(*client);
  }

  Result<SessionResult> run(const ScriptedServer& server) {
    const auto client = client_for(server);
    return run_session(
        options_, prompts_, *client, judge_, *archive_, [](const OptimizeProgress&, const std::string&) {}, stop_);
  }
  SessionResult must_run(const ScriptedServer& server) {
    auto result = run(server);
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }
  std::vector<ExchangeRecord> exchanges() { return *archive_->exchanges(options_.scope); }
  static std::string sent(const ScriptedServer& server, std::size_t request) {
    return server.requests().at(request).at("body").at("messages").back().at("content");
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Archive> archive_;
  Prompts prompts_;
  SessionOptions options_;
  KnowingJudge judge_;
  std::atomic<bool> stop_{false};
};

TEST_F(SessionTest, FindsTheBestOfManyAnswers) {
  judge_.verdicts = {{"GOOD", accepted(80)}, {"BETTER", accepted(70)}};
  const ScriptedServer server(
      json::array({{{"answer", kernel_answer("GOOD")}}, {{"answer", kernel_answer("BETTER")}}}));
  options_.max_candidates = 4;
  const SessionResult result = must_run(server);
  EXPECT_EQ(result.search.tried, 4) << "two recipes first, then the model's kernels";
  ASSERT_TRUE(result.search.best);
  EXPECT_EQ(result.search.best->cold_us, 70);
  EXPECT_EQ(result.search.best->attempt.policy, "llm:small");
  const std::string first = sent(server, 0), second = sent(server, 1);
  EXPECT_NE(first.find("200 us (cublaslt-auto-nn)"), std::string::npos);
  EXPECT_NE(first.find("speed-up 1.9"), std::string::npos) << "the measured recipes are exemplars";
  EXPECT_NE(second.find("// GOOD"), std::string::npos) << "so is what was just measured";
  EXPECT_LT(second.find("speed-up 1.9"), second.find("speed-up 2.500")) << "slowest first";
  // The archive can give the kernel back.
  const auto record = archive_->find_free_form(result.search.best->recipe);
  ASSERT_TRUE(record && *record);
  EXPECT_NE((*record)->source.find("// BETTER"), std::string::npos);
  EXPECT_EQ(free_form_name((*record)->source, (*record)->descriptor), result.search.best->recipe);
}

TEST_F(SessionTest, KeepsATranscriptWithoutTheKey) {
  judge_.verdicts = {{"GOOD", accepted(80)}};
  const ScriptedServer server(json::array({{{"status", 500}, {"body", "{key}"}},
                                           {{"answer", kernel_answer("GOOD") + "sk-secret-2"}},
                                           {{"status", 403}, {"body", "not with {key}"}}}));
  options_.max_candidates = 10;
  options_.limits.requests = 3;
  const SessionResult result = must_run(server);
  const auto kept = exchanges();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].purpose, "propose");
  EXPECT_EQ(kept[0].model, "small");
  EXPECT_EQ(kept[0].attempts, 2);
  EXPECT_EQ(kept[0].messages.size(), 2u);
  EXPECT_GT(kept[0].prompt_tokens, 100);
  EXPECT_NEAR(
      kept[0].cost,
      1e-6 * (2.0 * static_cast<double>(kept[0].prompt_tokens) + 10.0 * static_cast<double>(kept[0].completion_tokens)),
      1e-12);
  EXPECT_EQ(kept[0].name.rfind("free ", 0), 0u);
  EXPECT_NE(kept[0].outcome.find("80"), std::string::npos) << kept[0].outcome;
  EXPECT_EQ(kept[1].error, "refused: HTTP 403: not with [key]");
  EXPECT_EQ(result.report.stopped, "3 requests are used up");
  EXPECT_EQ(result.report.spent.requests, 3);
  const auto bytes = read_file(directory_ / "archive.sqlite");
  const auto log = read_file(directory_ / "archive.sqlite-wal");
  EXPECT_EQ((*bytes + (log ? *log : std::string())).find("sk-secret-2"), std::string::npos);
}

TEST_F(SessionTest, RepairsOnce) {
  judge_.verdicts = {{"WRONG", ended(verdict::Wrong{{"bound/normal", false, "C[3,5] = 7 is not 9", 0}})},
                     {"BROKEN", ended(verdict::CompileError{"answer.cu(3): error: no such thing\nmore words"})},
                     {"MENDED", accepted(60)}};
  const ScriptedServer server(json::array({{{"answer", kernel_answer("WRONG")}},
                                           {{"answer", kernel_answer("MENDED")}},
                                           {{"answer", kernel_answer("BROKEN")}},
                                           {{"answer", "I give up."}},
                                           {{"answer", kernel_answer("OTHER")}}}));
  options_.max_candidates = 6;
  const SessionResult result = must_run(server);
  EXPECT_EQ(result.report.repairs, 2);
  EXPECT_EQ(result.report.repaired, 1);
  EXPECT_EQ(result.report.malformed, 1);
  EXPECT_EQ(result.search.wrong_by_gate.at("bound/normal"), 1);
  EXPECT_EQ(result.search.by_kind.at("compile-error"), 1);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 5u);
  const json repair = requests[1]["body"]["messages"];
  ASSERT_EQ(repair.size(), 4u);
  EXPECT_EQ(repair[2]["role"], "assistant");
  EXPECT_NE(repair[3]["content"].get<std::string>().find("C[3,5] = 7 is not 9"), std::string::npos) << repair[3];
  EXPECT_NE(sent(server, 3).find("no such thing\nmore words"), std::string::npos) << "the compiler's own words";
  EXPECT_NE(sent(server, 4).find("# What did not work lately"), std::string::npos);
  const auto kept = exchanges();
  EXPECT_EQ(kept[1].purpose, "repair");
  EXPECT_EQ(kept[3].outcome,
            "no candidate: section '## Performance analysis' is missing; accepted: '## Performance "
            "analysis', '## Algorithm design' and '## Code', in Markdown");
}

TEST_F(SessionTest, SurvivesEverythingThatEndpointsDo) {
  on_the_cpu();
  options_.max_candidates = 5;
  options_.exemplars = 1;
  options_.first_recipes = 1;
  const ScriptedServer server(json::array({{{"answer", "Only prose, no sections at all."}},
                                           {{"answer", answer_with("```recipe\ncpu nonsense=1\n```\n")}},
                                           {{"answer", recipe_answer("cpu")}, {"cut", 30}},
                                           {{"status", 429}, {"headers", {{"Retry-After", "0"}}}},
                                           {{"garbage", 5 << 20}},
                                           {{"answer", ""}},
                                           {{"answer", recipe_answer("cpu")}, {"finish", "length"}, {"cut", 300}},
                                           {{"hang", 2}},
                                           {{"answer", recipe_answer("cpu threads=1")}},
                                           {{"answer", recipe_answer("cpu prefetch=0")}},
                                           {{"answer", recipe_answer("cpu")}}}));
  options_.budget_seconds = 20;
  options_.limits.requests = 24;
  const SessionResult result = must_run(server);
  EXPECT_GE(result.report.malformed, 3) << to_json(result.report);
  EXPECT_GE(result.report.known, 1) << to_json(result.report);
  EXPECT_FALSE(result.report.failures.empty()) << to_json(result.report);
  EXPECT_GE(result.report.answers, 5) << to_json(result.report);
  for (const ExchangeRecord& exchange : exchanges()) {
    EXPECT_EQ(exchange.outcome.find('\n'), std::string::npos);
    EXPECT_TRUE(!exchange.outcome.empty() || !exchange.error.empty());
  }
}

TEST_F(SessionTest, GivesUpAnEndpointThatNeverAnswers) {
  options_.first_recipes = 0;
  const ScriptedServer server(json::array({{{"status", 401}, {"body", "who are you"}}}));
  const auto result = run(server);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::environment);
  EXPECT_NE(result.error().message.find("HTTP 401: who are you"), std::string::npos) << result.error().message;
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(SessionTest, StopsAtEachLimit) {
  options_.first_recipes = 0;
  const ScriptedServer server(json::array({{{"answer", "prose"}}}));
  options_.limits.tokens = 3000;
  EXPECT_EQ(must_run(server).report.stopped, "3000 tokens are used up");
  options_.limits = {};
  options_.limits.cost = 0.01;
  EXPECT_EQ(must_run(server).report.stopped, "a cost of 0.01 is used up");
  options_.limits = {};
  options_.budget_seconds = 0.3;
  const SessionResult late = must_run(server);
  EXPECT_LT(late.search.elapsed_seconds, 10);
  stop_ = true;
  EXPECT_TRUE(must_run(server).search.interrupted);
}

TEST_F(SessionTest, FailedAttemptsUseUpTheLimitsToo) {
  options_.first_recipes = 0;
  const ScriptedServer server(json::array({{{"answer", std::string(400, 'x')}, {"cut", 200}}}));
  options_.limits.tokens = 300;
  auto result = run(server);
  ASSERT_FALSE(result.ok()) << "there was no answer";
  const auto kept = exchanges();
  ASSERT_EQ(kept.size(), 1u) << "it takes more than the limit";
  EXPECT_EQ(kept[0].attempts, 1) << "nor is it repeated";
  EXPECT_NE(kept[0].error.find("truncated"), std::string::npos);
  EXPECT_EQ(kept[0].completion_tokens, 200 / 4 + 1);
  EXPECT_GT(kept[0].prompt_tokens, 300);
  EXPECT_TRUE(kept[0].tokens_estimated);
  EXPECT_GT(kept[0].cost, 0);
}

TEST_F(SessionTest, LooksTwiceAtLeaps) {
  judge_.verdicts = {{"CACHE", accepted(20)}, {"HONEST", accepted(21)}};
  options_.first_recipes = 2;
  options_.max_candidates = 4;
  const ScriptedServer server(
      json::array({{{"answer", kernel_answer("CACHE", "__device__ unsigned long long last_pointer;\n")}},
                   {{"answer", kernel_answer("HONEST")}}}));
  const SessionResult result = must_run(server);
  EXPECT_EQ(result.report.leaps, 2);
  EXPECT_EQ(result.report.hacks, 1);
  EXPECT_EQ(result.search.by_kind.at("suspicious"), 1);
  EXPECT_EQ(result.search.best->cold_us, 21);
  const auto history = *archive_->history(options_.scope);
  const auto* suspicious = std::get_if<verdict::Suspicious>(&history.at(2).verdict.outcome);
  ASSERT_NE(suspicious, nullptr);
  EXPECT_NE(suspicious->reason.find("device-variables: line 2: '__device__ unsigned long long last_pointer;'"),
            std::string::npos)
      << suspicious->reason;
  EXPECT_NE(suspicious->reason.find("cache_by_pointer"), std::string::npos) << suspicious->reason;
}

TEST_F(SessionTest, AsksASecondModelAboutLeaps) {
  judge_.verdicts = {{"FIRST", accepted(20)}, {"SECOND", accepted(6)}, {"THIRD", accepted(2)}};
  options_.first_recipes = 0;
  options_.max_candidates = 3;
  const ScriptedServer server(json::array({{{"answer", kernel_answer("FIRST")}},
                                           {{"answer", kernel_answer("SECOND")}},
                                           {{"answer", kernel_answer("THIRD", "__device__ int kept;\n")}}}));
  const ScriptedServer opinions(json::array({{{"answer", "VERDICT: honest\nIt reads A and B."}},
                                             {{"answer", "**VERDICT: hack**\nLine 1 keeps C."}},
                                             {{"answer", "Hard to say."}}}));
  const auto checker = client_for(opinions);
  options_.checker = checker.get();
  options_.checker_model = {"judge", 1, 1000, 0};
  const SessionResult result = must_run(server);
  const auto kept = exchanges();
  ASSERT_EQ(kept.size(), 6u);
  double cost = 0;
  for (const ExchangeRecord& one : kept) {
    EXPECT_EQ(one.url, one.purpose == "check" ? checker->url() : server.url() + "/chat/completions");
    cost += one.cost;
    if (one.purpose != "check") continue;
    EXPECT_DOUBLE_EQ(one.cost, 1e-3 * static_cast<double>(one.prompt_tokens));
  }
  EXPECT_NEAR(result.report.spent.cost, cost, 1e-9) << "the checker is paid for as well";
  EXPECT_EQ(result.report.leaps, 3);
  EXPECT_EQ(result.report.hacks, 2) << "the third by rules, since its checker did not answer";
  const std::string asked = opinions.requests().at(0).at("body").at("messages").at(0).at("content");
  EXPECT_NE(asked.find("// FIRST"), std::string::npos);
  EXPECT_NE(asked.find("10.00 times faster than the fastest library"), std::string::npos) << asked;
  EXPECT_NE(asked.find("- "), std::string::npos);
  const auto history = *archive_->history(options_.scope);
  EXPECT_NE(std::get<verdict::Suspicious>(history.at(1).verdict.outcome).reason.find("(judge): Line 1 keeps C."),
            std::string::npos);
  EXPECT_NE(std::get<verdict::Suspicious>(history.at(2).verdict.outcome).reason.find("(rules): device-variables"),
            std::string::npos);
}

TEST_F(SessionTest, SharesRequestsByWeight) {
  options_.first_recipes = 0;
  options_.models = {{"often", 3, 0, 0}, {"seldom", 1, 0, 0}};
  options_.limits.requests = 60;
  const ScriptedServer server(json::array({{{"answer", "prose"}}}));
  must_run(server);
  int often = 0;
  const auto requests = server.requests();
  for (const json& request : requests) often += request["body"]["model"] == "often" ? 1 : 0;
  EXPECT_EQ(requests.size(), 60u);
  EXPECT_GT(often, 32);
  EXPECT_LT(often, 58);
}

TEST_F(SessionTest, RetrievesFromTheIndex) {
  const auto index = TextIndex::in_memory();
  ASSERT_TRUE(index->add_text("notes/hopper.md", "# wgmma\nwgmma wants operands in swizzled shared memory.\n"));
  ASSERT_TRUE(index->add_text("notes/bread.md", "# Bread\nFlour and water.\n"));
  options_.index = index.get();
  options_.passages = 1;
  const ScriptedServer server(json::array({{{"answer", "x"}}}));
  const auto client = client_for(server);
  const auto prompt = first_prompt(options_, prompts_, *client, *archive_);
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_NE(prompt->back().content.find("## notes/hopper.md\n# wgmma\nwgmma wants"), std::string::npos);
  EXPECT_EQ(prompt->back().content.find("Flour"), std::string::npos);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(SessionTest, GoesOnWhereItStopped) {
  judge_.verdicts = {{"GOOD", accepted(80)}};
  const ScriptedServer server(json::array({{{"answer", kernel_answer("GOOD")}}}));
  options_.max_candidates = 3;
  must_run(server);
  const int before = judge_.judged;
  options_.limits.requests = 2;
  const SessionResult again = must_run(server);
  EXPECT_EQ(again.search.resumed, 3);
  EXPECT_EQ(judge_.judged, before) << "what is known is not judged again";
  EXPECT_EQ(again.report.known, 2);
}

}  // namespace
}  // namespace warpsmith::llm
