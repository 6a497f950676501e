// Data sets out of an archive: forms, duplicates, the split.
#include "llm/dataset.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "llm/answer.h"
#include "machines.h"
#include "scripted_server.h"

namespace warpsmith::llm {
namespace {

using nlohmann::json;

class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest() {
    auto archive = Archive::open(directory_ / "archive.sqlite");
    if (!archive) throw std::runtime_error(archive.error().message);
    archive_ = std::move(*archive);
    auto prompts = Prompts::load(WARPSMITH_PROMPTS);
    if (!prompts) throw std::runtime_error(prompts.error().message);
    prompts_ = std::move(*prompts);
  }
  static Archive::Scope cpu(std::int64_t m) { return {Problem{m, 64, 64}, test_cpu(), Target::cpu, 1}; }
  void add(const Archive::Scope& scope, const std::string& recipe, double time_us, const std::string& gate = "") {
    AttemptRecord attempt;
    attempt.recipe = recipe.rfind("free ", 0) == 0 ? recipe : to_string(*parse_recipe(recipe));
    Measurement measurement;
    measurement.cold.median_us = time_us;
    if (gate.empty())
      attempt.verdict.outcome = verdict::Accepted{measurement};
    else
      attempt.verdict.outcome = verdict::Wrong{{gate, false, "no", 0}};
    ASSERT_TRUE(archive_->record(scope, attempt));
  }
  void fill(const Archive::Scope& scope) {
    add(scope, "cpu", 100);
    add(scope, "cpu simd=avx512", 70);
    add(scope, "cpu simd=avx512 tile=6x2", 50);
    add(scope, "cpu simd=avx512 tile=8x2", 30, "bound/normal");
  }
  Dataset make(DatasetKind kind, const DatasetOptions& options, TextIndex* index = nullptr) {
    auto dataset = make_dataset(kind, *archive_, prompts_, index, options);
    if (!dataset) throw std::runtime_error(dataset.error().message);
    return std::move(*dataset);
  }
  static DatasetOptions all() {
    DatasetOptions options;
    options.held_out = 0;
    return options;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Archive> archive_;
  Prompts prompts_;
};

TEST_F(DatasetTest, SupervisedChatsEndWithAnAnswerThatParses) {
  fill(cpu(64));
  const Dataset dataset = make(DatasetKind::sft, all());
  ASSERT_EQ(dataset.train.size(), 3u);
  for (const json& row : dataset.train) {
    const json& chat = row["messages"];
    ASSERT_EQ(chat.size(), 3u);
    EXPECT_EQ(chat[0]["role"], "system");
    EXPECT_EQ(chat[1]["role"], "user");
    EXPECT_EQ(chat[2]["role"], "assistant");
    const Archive::Scope scope = cpu(64);
    const auto answer = parse_answer(chat[2]["content"].get<std::string>(), scope.problem, scope.machine, scope.target);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(chat[1]["content"].get<std::string>().find(answer->written.name), std::string::npos)
        << "not its own exemplar";
  }
  const std::string best = dataset.train[0]["messages"][2]["content"];
  EXPECT_NE(best.find("Kernel 2 is 1.43 times as fast as kernel 1"), std::string::npos) << best;
  EXPECT_NE(best.find("simd avx2 -> avx512"), std::string::npos) << best;
  EXPECT_NE(best.find("Relative to the fastest kernel shown: tile 4x2 -> 6x2."), std::string::npos) << best;
}

TEST_F(DatasetTest, AModelsOwnWordsAreKept) {
  const Archive::Scope scope{Problem{64, 64, 64}, test_gpu(), Target::sm90, 1};
  const std::string name = free_form_name("source", "descriptor");
  ASSERT_TRUE(archive_->record_free_form({name, "source", "descriptor"}));
  ExchangeRecord exchange;
  exchange.purpose = "propose";
  exchange.name = name;
  exchange.reply = "## Performance analysis ...";
  ASSERT_TRUE(archive_->record_exchange(scope, exchange));
  add(scope, name, 2);
  const Dataset dataset = make(DatasetKind::sft, all());
  ASSERT_EQ(dataset.train.size(), 1u);
  EXPECT_EQ(dataset.train[0]["messages"][2]["content"], "## Performance analysis ...");
}

TEST_F(DatasetTest, PreferencesAreFasterOverSlowerAndRightOverWrong) {
  fill(cpu(64));
  const Dataset dataset = make(DatasetKind::preference, all());
  ASSERT_EQ(dataset.train.size(), 2u);
  EXPECT_LT(dataset.train[0]["chosen_us"], dataset.train[0]["rejected_us"]);
  EXPECT_EQ(dataset.train[1]["rejected_verdict"], "wrong");
  for (const json& row : dataset.train) {
    EXPECT_EQ(row["prompt"].size(), 2u);
    EXPECT_EQ(row["chosen"][0]["role"], "assistant");
    EXPECT_NE(row["chosen"], row["rejected"]);
  }
  DatasetOptions strict = all();
  strict.least_ratio = 3;
  EXPECT_EQ(make(DatasetKind::preference, strict).train.size(), 1u) << "only the wrong one is far enough";
}

TEST_F(DatasetTest, PromptsNameTheProblemForEveryTrainer) {
  fill(cpu(64));
  const Dataset dataset = make(DatasetKind::prompts, all());
  ASSERT_FALSE(dataset.train.empty());
  EXPECT_EQ(dataset.train.size() + dataset.duplicates, 8u);
  EXPECT_GT(dataset.duplicates, 0u) << "three kernels give few draws";
  const json& row = dataset.train[0];
  EXPECT_EQ(row["label"], "64x64x64 nn f16 f32");
  EXPECT_EQ(row["reward_model"]["ground_truth"], row["label"]);
  EXPECT_EQ(row["extra_info"]["problem"], row["label"]);
}

TEST_F(DatasetTest, PretrainingHasInstructionContextAndCode) {
  fill(cpu(64));
  const auto index = TextIndex::in_memory();
  ASSERT_TRUE(index->add_text("kernels/softmax.cu",
                              "// Row-wise softmax with one warp a row.\n__global__ void softmax() {}\n"));
  ASSERT_TRUE(
      index->add_text("copy/softmax.cu", "// Row-wise softmax with one warp a row.\n__global__ void softmax() {}\n"));
  ASSERT_TRUE(index->add_text("notes.md", "A softmax warp sums a row by shuffles.\n"));
  const Dataset dataset = make(DatasetKind::pretrain, all(), index.get());
  std::set<std::string> places;
  for (const json& row : dataset.train) {
    for (const char* field : {"instruction", "context", "code"}) EXPECT_TRUE(row.contains(field));
    places.insert(row["place"]);
  }
  EXPECT_EQ(places, (std::set<std::string>{"archive:64x64x64 nn f16 f32", "copy/softmax.cu", "kernels/softmax.cu"}));
  const json& last = dataset.train.back();
  EXPECT_EQ(last["instruction"], "Write a part of softmax.cu: Row-wise softmax with one warp a row.");
  EXPECT_NE(last["context"].get<std::string>().find("sums a row by shuffles"), std::string::npos);
}

TEST_F(DatasetTest, ProblemsAreHeldOutWhole) {
  for (std::int64_t m = 1; m <= 40; ++m) {
    Archive::Scope scope = cpu(m);
    fill(scope);
    scope.problem.layout = Layout::tn;
    fill(scope);
  }
  DatasetOptions options;
  options.held_out = 0.25;
  const Dataset dataset = make(DatasetKind::sft, options);
  std::set<std::string> train, held_out;
  const auto sizes = [](const json& row) {
    return row["problem"].get<std::string>().substr(0, row["problem"].get<std::string>().find(' '));
  };
  for (const json& row : dataset.train) train.insert(sizes(row));
  for (const json& row : dataset.held_out) held_out.insert(sizes(row));
  EXPECT_EQ(train.size() + held_out.size(), 40u) << "both layouts of a shape are on one side";
  EXPECT_GE(held_out.size(), 3u);
  EXPECT_LE(held_out.size(), 18u);
  const auto path = directory_ / "sft.jsonl";
  ASSERT_TRUE(write_dataset(dataset, path));
  EXPECT_EQ(held_out_path(path).filename(), "sft.held-out.jsonl");
  std::istringstream lines(*read_file(held_out_path(path)));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_TRUE(json::parse(line).is_object());
  EXPECT_EQ(count, dataset.held_out.size());
}

}  // namespace
}  // namespace warpsmith::llm
