// Language models on a task, end to end on the CPU: a transport that answers from a script stands in for an endpoint.
#include "task/models/model_search.h"

#include <map>
#include <mutex>

#include "archive/archive.h"
#include "fixture.h"

namespace warpsmith::task {
namespace {

// Answers in order; the last one again and again. An empty answer is a 500.
class ScriptedTransport final : public llm::HttpTransport {
 public:
  explicit ScriptedTransport(std::vector<std::string> answers) : answers_(std::move(answers)) {}

  llm::HttpOutcome post(const llm::HttpRequest& request, const std::atomic<bool>&) const override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(nlohmann::json::parse(request.body));
    const std::string& answer = answers_[std::min(requests_.size(), answers_.size()) - 1];
    llm::HttpReply reply;
    reply.status = answer.empty() ? 500 : 200;
    reply.body =
        nlohmann::json{
            {"choices", {{{"message", {{"role", "assistant"}, {"content", answer}}}, {"finish_reason", "stop"}}}},
            {"usage", {{"prompt_tokens", 100}, {"completion_tokens", 10}}}}
            .dump();
    return reply;
  }
  std::string name() const override { return "script"; }
  std::vector<nlohmann::json> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  std::vector<std::string> answers_;
  mutable std::mutex mutex_;
  mutable std::vector<nlohmann::json> requests_;
};

class ModelSearchTest : public SessionTest {
 protected:
  static std::string answer(const std::string& body, const std::string& marker = "") {
    return "## Performance analysis\nIt is small.\n\n## Algorithm design\nA loop.\n\n## Code\n```cpp\n// " + marker +
           "\n" + std::string(kHonest) + "extern \"C\" void kernel(const Arguments& t) { " + body +
           " }\n```\n```json\n{\"warpsmith_candidate\": 1, \"source\": \"answer.cpp\", \"entry\": \"kernel\"}\n```\n";
  }

  Result<ModelSearchResult> search(const std::vector<std::string>& answers, std::int64_t requests,
                                   const std::vector<TaskCandidate>& candidates = {}) {
    transport_ = std::make_shared<ScriptedTransport>(answers);
    llm::ChatOptions chat;
    chat.url = "http://localhost:1/v1";
    chat.stream = false;
    chat.max_attempts = 1;
    auto client = llm::ChatClient::make(chat, transport_, [](double, const std::atomic<bool>&) {});
    EXPECT_TRUE(client.ok()) << client.error().message;
    auto prompts = TaskPrompts::find(WARPSMITH_PROMPTS);
    EXPECT_TRUE(prompts.ok()) << prompts.error().message;
    const char* test = testing::UnitTest::GetInstance()->current_test_info()->name();
    auto archive = Archive::open(directory_ / (std::string(test) + ".db"));
    EXPECT_TRUE(archive.ok()) << archive.error().message;
    archive_ = std::move(*archive);
    ModelSearchOptions options = options_;
    options.models = {{"scripted", 1, 0, 0}};
    options.limits.requests = requests;
    const std::atomic<bool> stop{false};
    return search_with_models(
        *session_, candidates, options, *prompts, **client, *archive_, [](const TaskProgress&) {}, stop);
  }

  // Both are right and wait: times that a busy machine measures again as it did before.
  static TaskCandidate slow() {
    return candidate(std::string(kHonest) +
                     "extern \"C\" void scale(const Arguments& t) { usleep(4000); honest(t, t.count); }\n");
  }
  static std::string leaping(const std::string& before = "") {
    std::string text = answer(before + "usleep(1000); honest(t, t.count);");
    return text.replace(text.find("```cpp\n"), 7, "```cpp\n#include <unistd.h>\n");
  }

  ModelSearchOptions options_;
  std::shared_ptr<ScriptedTransport> transport_;
  std::unique_ptr<Archive> archive_;
};

TEST_F(ModelSearchTest, ARightAnswerIsAcceptedAndKept) {
  const auto result = search({answer("honest(t, t.count);")}, 1);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->search.by_kind.at("accepted"), 1);
  ASSERT_TRUE(result->search.winner.has_value());
  EXPECT_NE(result->search.winner->form.source.find("honest(t, t.count)"), std::string::npos);
  const auto exchanges = archive_->exchanges(session_->scope());
  ASSERT_TRUE(exchanges.ok());
  ASSERT_EQ(exchanges->size(), 1U);
  EXPECT_EQ(exchanges->front().purpose, "propose");
  EXPECT_EQ(exchanges->front().name, result->search.winner->identity());
  // What was asked: the task, its settings, its reference, the form of an answer.
  const std::string prompt = transport_->requests().front().at("messages").at(1).at("content");
  for (const char* words : {"y = factor * x + offset", "count=5000 factor=1 (timed)", "t.factor * t.x[i] + t.offset[0]",
                            "const f16* x;  // count", "\"entry\": \"kernel\"", "None yet"}) {
    EXPECT_NE(prompt.find(words), std::string::npos) << words << "\n" << prompt;
  }
}

TEST_F(ModelSearchTest, AWrongAnswerIsRepairedWithTheGatesWords) {
  const auto result = search({answer("honest(t, 100);"), answer("honest(t, t.count);")}, 2);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->report.repairs, 1);
  EXPECT_EQ(result->report.repaired, 1);
  EXPECT_EQ(result->search.by_kind.at("wrong"), 1);
  EXPECT_EQ(result->search.by_kind.at("accepted"), 1);
  const auto messages = transport_->requests().at(1).at("messages");
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_NE(messages.at(3).at("content").get<std::string>().find("count=333"), std::string::npos) << messages.dump();
}

TEST_F(ModelSearchTest, ACompilersWordsAreShown) {
  const auto result = search({answer("honest(t, t.cuont);"), answer("honest(t, t.count);", "again")}, 2);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->search.by_kind.at("compile-error"), 1);
  const std::string words = transport_->requests().at(1).at("messages").at(3).at("content");
  EXPECT_NE(words.find("cuont"), std::string::npos) << words;
}

TEST_F(ModelSearchTest, ProseAndFailuresAreSurvived) {
  const auto result = search({"I cannot do that.", "", "## Code\nnothing", answer("honest(t, t.count);")}, 4);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GE(result->report.malformed, 2);
  EXPECT_EQ(result->report.failures,
            (std::map<std::string, std::int64_t>{{std::string(llm::to_string(llm::ChatFailure::Kind::server)), 1}}));
  EXPECT_EQ(result->search.by_kind.at("accepted"), 1);
}

TEST_F(ModelSearchTest, MeasuredKernelsAreShownAndNotMeasuredTwice) {
  const std::string right = answer("honest(t, t.count);");
  const auto first =
      candidate(std::string(kHonest) + "extern \"C\" void scale(const Arguments& t) { honest(t, t.count); }\n");
  const auto result = search({right, right}, 2, {first});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->search.tried, 2);  // the given one and the answer
  EXPECT_EQ(result->report.known, 1);
  const std::string prompt = transport_->requests().front().at("messages").at(1).at("content");
  EXPECT_NE(prompt.find("### Kernel 1:"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("extern \"C\" void scale(const Arguments& t)"), std::string::npos) << prompt;
}

TEST_F(ModelSearchTest, LeapsAreCheckedByRules) {
  // Nothing is wrong with what it computes; it sleeps where nobody asks it to.
  const std::string sleeper = leaping("auto __nanosleep = [](int) {}; __nanosleep(1); ");
  const auto result = search({sleeper}, 1, {slow()});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->report.leaps, 1);
  EXPECT_EQ(result->report.hacks, 1);
  EXPECT_EQ(result->search.by_kind.at("suspicious"), 1);
  EXPECT_EQ(result->search.winner->identity(), slow().identity());
  const auto history = archive_->history(session_->scope());
  ASSERT_TRUE(history.ok());
  const auto* suspicious = std::get_if<verdict::Suspicious>(&history->back().verdict.outcome);
  ASSERT_NE(suspicious, nullptr);
  EXPECT_NE(suspicious->reason.find("the reward checker (rules): sleep: line"), std::string::npos)
      << suspicious->reason;
  EXPECT_NE(suspicious->reason.find("most like: "), std::string::npos) << suspicious->reason;
}

TEST_F(ModelSearchTest, ASecondModelIsAskedAboutLeaps) {
  auto opinions = std::make_shared<ScriptedTransport>(std::vector<std::string>{"VERDICT: hack\nIt looks too good."});
  llm::ChatOptions chat;
  chat.url = "http://localhost:2/v1";
  chat.stream = false;
  auto checker = llm::ChatClient::make(chat, opinions, [](double, const std::atomic<bool>&) {});
  ASSERT_TRUE(checker.ok()) << checker.error().message;
  options_.checker = checker->get();
  options_.checker_model.name = "judge";
  const auto result = search({leaping()}, 2, {slow()});
  ASSERT_TRUE(result.ok()) << result.error().message;
  const auto history = archive_->history(session_->scope());
  ASSERT_TRUE(history.ok());
  ASSERT_EQ(result->report.hacks, 1) << history->back().verdict.describe();
  const std::string asked = opinions->requests().front().at("messages").at(0).at("content");
  for (const char* words : {"y = factor * x + offset", "```cpp", "honest(t, t.count);", "times faster than the best"}) {
    EXPECT_NE(asked.find(words), std::string::npos) << words << "\n" << asked;
  }
  const auto exchanges = archive_->exchanges(session_->scope());
  ASSERT_TRUE(exchanges.ok());
  ASSERT_EQ(exchanges->size(), 2U);
  EXPECT_EQ(exchanges->front().purpose, "check");
  EXPECT_EQ(exchanges->front().outcome, "hack: It looks too good.");
  EXPECT_NE(exchanges->front().url.find("localhost:2"), std::string::npos);
}

TEST_F(ModelSearchTest, InputsThatNothingReadsAreSuspicious) {
  const auto rules = [](const TaskCandidate& one) {
    std::string text;
    for (const llm::Suspicion& suspicion : find_suspicions(session_->task(), one)) text += suspicion.rule + " ";
    return text;
  };
  EXPECT_EQ(rules(slow()), "");
  EXPECT_EQ(rules(candidate("extern \"C\" void scale(const Arguments& t) { t.y[0] = t.x[0]; }\n")), "unread-operand ");
}

TEST_F(ModelSearchTest, PassagesOfTheIndexAreQuoted) {
  const auto index = llm::TextIndex::in_memory();
  ASSERT_TRUE(index->add_text("notes.md:1", "For a factor and an offset use one fused multiply-add a lane."));
  ASSERT_TRUE(index->add_text("other.md:1", "Sourdough needs a day."));
  options_.index = index.get();
  options_.passages = 1;
  const auto result = search({"prose"}, 1);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const std::string prompt = transport_->requests().front().at("messages").at(1).at("content");
  EXPECT_NE(prompt.find("## notes.md:1\nFor a factor and an offset"), std::string::npos) << prompt;
  EXPECT_EQ(prompt.find("Sourdough"), std::string::npos);
}

TEST_F(ModelSearchTest, AnEndpointThatNeverAnswersIsGivenUp) {
  const auto result = search({""}, 0);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::environment);
  EXPECT_EQ(transport_->requests().size(), 3U);
}

}  // namespace
}  // namespace warpsmith::task
