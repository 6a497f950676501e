// Whole-file reads, atomic writes and content hashes.
#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/hash.h"

namespace warpsmith {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() : directory_(std::filesystem::temp_directory_path() / ("warpsmith_file_" + std::to_string(getpid()))) {}
  ~FileTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
};

TEST_F(FileTest, WritesIntoNewDirectoriesAndReadsBack) {
  const auto path = directory_ / "deep" / "file";
  const std::string bytes("a\0b\n", 4);
  ASSERT_TRUE(write_file_atomic(path, bytes).ok());
  ASSERT_TRUE(read_file(path).ok());
  EXPECT_EQ(*read_file(path), bytes);
  ASSERT_TRUE(write_file_atomic(path, "new").ok());
  EXPECT_EQ(*read_file(path), "new");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path.parent_path())) ++files;
  EXPECT_EQ(files, 1);  // no temporary file is left
}

TEST_F(FileTest, NamesThePathAndTheReason) {
  const auto missing = read_file(directory_ / "missing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::environment);
  EXPECT_NE(missing.error().message.find("missing: No such file"), std::string::npos);
  ASSERT_TRUE(write_file_atomic(directory_ / "plain", "x").ok());
  EXPECT_FALSE(write_file_atomic(directory_ / "plain" / "under", "x").ok());
}

TEST(Hash, MatchesPublishedVectors) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash64("abc"), 0xba7816bf8f01cfeaULL);
}

TEST(Hash, PartsKeepTheirBorders) {
  EXPECT_NE(HashInput().add("ab").add("c").hex(), HashInput().add("a").add("bc").hex());
  EXPECT_EQ(HashInput().add("ab").add("c").hex(), HashInput().add("ab").add("c").hex());
}

}  // namespace
}  // namespace warpsmith
