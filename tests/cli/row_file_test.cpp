// Rows on their way to a file: what survives, and what is refused.
#include "row_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "temporary_directory.h"

namespace warpsmith::cli {
namespace {

class RowFileTest : public TemporaryDirectory {
 protected:
  const nlohmann::json identity_ = {{"warpsmith_bench", 1}, {"options", {{"seed", "1"}}}};
  std::filesystem::path path() const { return home_ / "deeper" / "rows.partial"; }

  void write_two_rows() const {
    auto file = RowFile::open(path(), identity_);
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_TRUE(file->append({{"problem", "a"}}).ok());
    ASSERT_TRUE(file->append({{"problem", "b"}}).ok());
  }
  void append_text(const std::string& text) const { std::ofstream(path(), std::ios::app) << text; }
};

TEST_F(RowFileTest, KeepsRows) {
  write_two_rows();
  auto file = RowFile::open(path(), identity_);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->rows().size(), 2u);
  EXPECT_EQ(file->rows()[1]["problem"], "b");
  file->remove();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// A run that died while writing leaves half a line: it is dropped, and the next row starts a line of its own.
TEST_F(RowFileTest, DropsARowThatWasCutShort) {
  write_two_rows();
  append_text(R"({"problem": "hal)");
  {
    auto file = RowFile::open(path(), identity_);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->rows().size(), 2u);
    ASSERT_TRUE(file->append({{"problem", "c"}}).ok());
  }
  const auto again = RowFile::open(path(), identity_);
  ASSERT_TRUE(again.ok()) << again.error().message;
  ASSERT_EQ(again->rows().size(), 3u);
  EXPECT_EQ(again->rows()[2]["problem"], "c");
}

TEST_F(RowFileTest, StartsAnewWhereNotEvenTheFirstLineIsWhole) {
  std::filesystem::create_directories(path().parent_path());
  append_text(R"({"warpsmith_ben)");
  const auto file = RowFile::open(path(), identity_);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE(file->rows().empty());
  EXPECT_EQ(*read_file(path()), identity_.dump() + "\n");
}

TEST_F(RowFileTest, NamesWhatDiffers) {
  write_two_rows();
  nlohmann::json other = identity_;
  other["options"]["seed"] = "2";
  const auto changed = RowFile::open(path(), other);
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().kind, ErrorKind::bad_input);
  EXPECT_NE(changed.error().message.find(R"(/options/seed was "1" and is "2")"), std::string::npos)
      << changed.error().message;
  other["options"] = {{"seed", "1"}, {"verify", "true"}};
  EXPECT_NE(RowFile::open(path(), other).error().message.find(R"(/options/verify was nothing and is "true")"),
            std::string::npos);
  EXPECT_EQ(RowFile::open(path(), identity_)->rows().size(), 2u) << "a refusal leaves the file alone";
}

TEST_F(RowFileTest, RefusesOtherFiles) {
  std::filesystem::create_directories(path().parent_path());
  append_text("a,b,c\n1,2,3\n");
  EXPECT_EQ(RowFile::open(path(), identity_).error().kind, ErrorKind::bad_input);
  std::filesystem::remove(path());
  write_two_rows();
  append_text("garbage\n");
  EXPECT_NE(RowFile::open(path(), identity_).error().message.find("line 4 is no row"), std::string::npos);
}

TEST_F(RowFileTest, OneRunAtATime) {
  const auto first = RowFile::open(path(), identity_);
  ASSERT_TRUE(first.ok());
  const auto second = RowFile::open(path(), identity_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::environment);
  EXPECT_NE(second.error().message.find("another run"), std::string::npos);
}

TEST_F(RowFileTest, SaysWhereItCannotWrite) {
  const auto file = RowFile::open("/proc/nowhere/rows.partial", identity_);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::environment);
  EXPECT_NE(file.error().message.find("/proc/nowhere/rows.partial"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith::cli
