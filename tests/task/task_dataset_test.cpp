// Training data out of a task's attempts: answers that parse, pairs, prompts, code; what is held out; tasks nobody
// knows.
#include "task/models/task_dataset.h"

#include <gtest/gtest.h>

#include "archive/archive.h"
#include "fixture.h"
#include "task/optimize.h"

namespace warpsmith::task {
namespace {

using nlohmann::json;

class TaskDatasetTest : public SessionTest {
 protected:
  void SetUp() override {
    const char* test = testing::UnitTest::GetInstance()->current_test_info()->name();
    auto archive = Archive::open(directory_ / (std::string(test) + ".db"));
    ASSERT_TRUE(archive.ok()) << archive.error().message;
    archive_ = std::move(*archive);
    auto prompts = TaskPrompts::find(WARPSMITH_PROMPTS);
    ASSERT_TRUE(prompts.ok()) << prompts.error().message;
    prompts_ = std::move(*prompts);
    tasks_.push_back(session_->task());
    auto slow = candidate(source("slow"), R"(, "tune": {"UNROLL": [1, 2, 4]})");
    record(slow, 100);
    slow.chosen.front().second = 4;
    record(slow, 80);
    record(candidate(source("fast")), 50);
    record(candidate(source("wrong")), 0);
  }
  static std::string source(const std::string& marker) {
    return "// " + marker + "\n" + kHonest + "extern \"C\" void scale(const Arguments& t) { honest(t, t.count); }\n";
  }
  static std::string text(const std::string& marker) { return candidate(source(marker)).form.source; }
  // time_us 0: it was wrong.
  void record(const TaskCandidate& one, double time_us) {
    TaskOutcome outcome;
    Measurement measurement;
    measurement.cold.median_us = time_us;
    measurement.cold.samples = 1;
    if (time_us > 0)
      outcome.verdict.outcome = verdict::Accepted{measurement};
    else
      outcome.verdict.outcome = verdict::Wrong{{"bound/declared", false, "no", 0}};
    ASSERT_TRUE(record_attempt(*archive_, *session_, one, outcome, "tuned", 1));
  }
  llm::Dataset make(llm::DatasetKind kind, double held_out = 0) {
    llm::DatasetOptions options;
    options.held_out = held_out;
    llm::DatasetRows rows(options);
    const auto unknown = add_tasks(rows, kind, *archive_, tasks_, prompts_, nullptr, options);
    EXPECT_TRUE(unknown.ok()) << unknown.error().message;
    if (unknown.ok()) unknown_ = *unknown;
    return std::move(rows).take();
  }
  // The answer's candidate.
  static TaskCandidate read(const json& message) {
    EXPECT_EQ(message.at("role"), "assistant");
    auto one = read_answer(*session_, message.at("content").get<std::string>());
    EXPECT_TRUE(one.ok()) << one.error().message;
    return one.ok() ? std::move(*one) : TaskCandidate();
  }

  std::unique_ptr<Archive> archive_;
  TaskPrompts prompts_;
  std::vector<Task> tasks_;
  std::set<std::string> unknown_;
};

TEST_F(TaskDatasetTest, ChatsEndWithAnAnswerThatParses) {
  const llm::Dataset dataset = make(llm::DatasetKind::sft);
  ASSERT_EQ(dataset.train.size(), 3U);
  EXPECT_TRUE(unknown_.empty());
  const json& row = dataset.train.front();
  EXPECT_EQ(row.at("task"), session_->task().identity);
  EXPECT_EQ(row.at("problem"), "scale at count=5000 factor=1");
  EXPECT_EQ(row.at("target"), "cpu");
  EXPECT_EQ(row.at("time_us"), 50);
  ASSERT_EQ(row.at("messages").size(), 3U);
  const std::string prompt = row.at("messages").at(1).at("content");
  EXPECT_NE(prompt.find("y = factor * x + offset"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("// slow"), std::string::npos) << prompt;
  EXPECT_EQ(prompt.find("// fast"), std::string::npos) << "not its own exemplar";
  EXPECT_EQ(read(row.at("messages").at(2)).form.source, text("fast"));
  // Macros stand at the values that were measured.
  const TaskCandidate tuned = read(dataset.train.at(1).at("messages").at(2));
  ASSERT_EQ(tuned.chosen.size(), 1U);
  EXPECT_EQ(tuned.chosen.front(), (std::pair<std::string, std::int64_t>{"UNROLL", 4}));
  EXPECT_EQ(tuned.form.tune.front().values.size(), 1U);
}

TEST_F(TaskDatasetTest, AModelsOwnWordsAreKept) {
  ExchangeRecord exchange;
  exchange.purpose = "propose";
  exchange.name = candidate(source("fast")).identity();
  exchange.reply = "a model's own words";
  ASSERT_TRUE(archive_->record_exchange(session_->scope(), exchange));
  EXPECT_EQ(make(llm::DatasetKind::sft).train.front().at("messages").at(2).at("content"), exchange.reply);
}

TEST_F(TaskDatasetTest, PairsPreferTheFasterAndTheRight) {
  const llm::Dataset dataset = make(llm::DatasetKind::preference);
  ASSERT_EQ(dataset.train.size(), 2U);
  const json &slower = dataset.train.at(0), &wrong = dataset.train.at(1);
  EXPECT_EQ(slower.at("chosen_us"), 50);
  EXPECT_EQ(slower.at("rejected_us"), 100);
  EXPECT_EQ(read(slower.at("chosen").at(0)).form.source, text("fast"));
  EXPECT_EQ(read(slower.at("rejected").at(0)).form.source, text("slow"));
  EXPECT_EQ(wrong.at("rejected_verdict"), "wrong");
  EXPECT_EQ(read(wrong.at("rejected").at(0)).form.source, text("wrong"));
}

TEST_F(TaskDatasetTest, PromptsNameTheTaskAndCodeItsPlace) {
  const llm::Dataset prompts = make(llm::DatasetKind::prompts);
  ASSERT_FALSE(prompts.train.empty());
  EXPECT_EQ(prompts.train.front().at("reward_model").at("ground_truth"), "scale at count=5000 factor=1");
  const llm::Dataset code = make(llm::DatasetKind::pretrain);
  ASSERT_EQ(code.train.size(), 2U);  // two sources
  EXPECT_EQ(code.duplicates, 1U);
  EXPECT_EQ(code.train.front().at("code"), text("fast"));
  EXPECT_EQ(code.train.front().at("place"), "archive:scale at count=5000 factor=1");
  EXPECT_NE(code.train.front().at("instruction").get<std::string>().find("y = factor * x + offset"), std::string::npos);
}

TEST_F(TaskDatasetTest, ATaskIsHeldOutWhole) {
  const llm::Dataset all = make(llm::DatasetKind::sft, 1);
  EXPECT_TRUE(all.train.empty());
  EXPECT_EQ(all.held_out.size(), 3U);
}

TEST_F(TaskDatasetTest, TasksThatNobodyKnowsAreNamed) {
  tasks_.front().identity = "scale 0000000000000000";
  EXPECT_TRUE(make(llm::DatasetKind::sft).train.empty());
  EXPECT_EQ(unknown_, std::set<std::string>{session_->task().identity});
}

TEST_F(TaskDatasetTest, FindsTasksInTheirDirectories) {
  const auto one = load_tasks({directory_ / "scale"});
  ASSERT_TRUE(one.ok()) << one.error().message;
  ASSERT_EQ(one->size(), 1U);
  EXPECT_EQ(one->front().identity, session_->task().identity);
  const auto all = load_tasks({directory_});
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->size(), 1U);
  const auto none = load_tasks({directory_ / "cache"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::bad_input);
}

}  // namespace
}  // namespace warpsmith::task
