// The index: what is found, what is read again, what is refused.
#include "llm/text_index.h"

#include <gtest/gtest.h>

#include <fstream>

#include "scripted_server.h"

namespace warpsmith::llm {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}
IndexReport add(TextIndex& index, const fs::path& path) {
  const auto report = index.add(path, [](const std::string&) {});
  EXPECT_TRUE(report) << report.error().message;
  return report ? *report : IndexReport{};
}

class Index : public ::testing::Test {
 protected:
  void SetUp() override {
    write(docs_ / "wgmma.md", "# Warpgroup\nwgmma.mma_async multiplies tiles that lie in shared memory.\n");
    write(docs_ / "sub/tma.cuh",
          "// Tensor memory accelerator: cp.async.bulk.tensor copies boxes.\nvoid load_box();\n");
    write(docs_ / ".hidden/secret.md", "wgmma wgmma wgmma\n");
    write(docs_ / "binary.md", std::string("wgmma\0", 6));
    write(docs_ / "photo.jpg", "wgmma");
    auto index = TextIndex::open(directory_ / "index.sqlite");
    ASSERT_TRUE(index) << index.error().message;
    index_ = std::move(*index);
  }
  TemporaryDirectory directory_;
  fs::path docs_ = directory_ / "docs";
  std::unique_ptr<TextIndex> index_;
};

TEST_F(Index, FindsByRareWords) {
  const IndexReport report = add(*index_, docs_);
  EXPECT_EQ(report.files, 2);
  EXPECT_EQ(report.skipped, 2);
  const auto found = index_->search("how does WGMMA multiply tiles? \"' OR NEAR(", 5);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(fs::path(found->front().place).filename(), "wgmma.md");
  EXPECT_EQ(fs::path(index_->search("load_box", 5)->front().place).filename(), "tma.cuh");
  EXPECT_TRUE(index_->search("zebra", 5)->empty());
  EXPECT_TRUE(index_->search("()\"*-", 5)->empty());
}

TEST_F(Index, ReadsOnlyWhatHasChanged) {
  add(*index_, docs_);
  EXPECT_EQ(add(*index_, docs_).unchanged, 2);
  write(docs_ / "wgmma.md", "Only zebras now.\n");
  const IndexReport report = add(*index_, docs_);
  EXPECT_EQ(report.files, 1);
  EXPECT_EQ(index_->search("zebras", 5)->size(), 1u);
  EXPECT_TRUE(index_->search("warpgroup", 5)->empty());
  EXPECT_EQ(*index_->remove(docs_ / "sub"), 1);
  EXPECT_EQ(*index_->passage_count(), 1);
  index_ = nullptr;
  EXPECT_EQ((*TextIndex::open(directory_ / "index.sqlite"))->search("zebras", 5)->size(), 1u) << "durable";
}

TEST_F(Index, RefusesWhatIsNotThere) {
  const auto missing = index_->add(docs_ / "none", [](const std::string&) {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::bad_input);
  write(directory_ / "text", "no database");
  EXPECT_EQ(TextIndex::open(directory_ / "text").error().kind, ErrorKind::bad_input);
  EXPECT_EQ(TextIndex::open(docs_).error().kind, ErrorKind::bad_input);
}

TEST(Passages, AreCutAtHeadingsAndBlankLines) {
  const auto passages = cut_passages("intro\n# One\nx\n\n## Two\ny\n");
  ASSERT_EQ(passages.size(), 3u);
  EXPECT_EQ(passages[1], (std::pair<std::int64_t, std::string>{2, "# One\nx\n\n"}));
  EXPECT_EQ(passages[2].first, 5);
  std::string long_text;
  for (int i = 0; i < 400; ++i) long_text += "line " + std::to_string(i) + (i % 10 == 9 ? "\n\n" : "\n");
  std::string joined;
  for (const auto& [line, text] : cut_passages(long_text + std::string(10000, 'x'))) {
    EXPECT_LE(text.size(), kMaxPassageBytes);
    joined += text;
  }
  EXPECT_EQ(joined.substr(0, long_text.size()), long_text);
}

}  // namespace
}  // namespace warpsmith::llm
