// Scratch directories: gone with their owner, however it ends; never taken from one that lives.
#include "base/scratch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

class ScratchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "scratch-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    parent_ = pattern;
  }
  void TearDown() override { fs::remove_all(parent_); }
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(parent_), fs::directory_iterator()); }

  fs::path parent_;
};

TEST_F(ScratchTest, GoesWithItsOwner) {
  {
    auto scratch = ScratchDirectory::create(parent_);
    ASSERT_TRUE(scratch.ok()) << scratch.error().message;
    fs::create_directories(scratch->path() / "deep");
    std::ofstream(scratch->path() / "deep" / "file") << "text";
    ScratchDirectory moved = std::move(*scratch);
    EXPECT_TRUE(fs::exists(moved.path() / "deep" / "file"));
    EXPECT_EQ(entries(), 1);
  }
  EXPECT_EQ(entries(), 0);
}

TEST_F(ScratchTest, OfAKilledOwnerGoesWhenTheNextIsMade) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto scratch = ScratchDirectory::create(parent_);
    if (scratch.ok()) std::ofstream(scratch->path() / "file") << "text";
    const char byte = scratch.ok() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  close(ready[0]);
  close(ready[1]);
  {
    const auto beside = ScratchDirectory::create(parent_);
    ASSERT_TRUE(beside.ok());
    EXPECT_EQ(entries(), 2) << "the owner lives";
  }
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(entries(), 1);
  const auto next = ScratchDirectory::create(parent_);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(entries(), 1);
  EXPECT_FALSE(fs::exists(next->path() / "file"));
}

TEST_F(ScratchTest, LeavesOtherNamesAndLinksAlone) {
  fs::create_directory(parent_ / "kept");
  std::ofstream(parent_ / "kept" / "file") << "text";
  fs::create_directory_symlink(parent_ / "kept", parent_ / "warpsmith-scratch-link");
  std::ofstream(parent_ / "warpsmith-scratch-file") << "text";
  const auto scratch = ScratchDirectory::create(parent_);
  ASSERT_TRUE(scratch.ok());
  EXPECT_TRUE(fs::exists(parent_ / "kept" / "file"));
  EXPECT_TRUE(fs::exists(parent_ / "warpsmith-scratch-link"));
  EXPECT_TRUE(fs::exists(parent_ / "warpsmith-scratch-file"));
}

TEST_F(ScratchTest, SaysWhereItCannotBeMade) {
  const auto scratch = ScratchDirectory::create(parent_ / "missing");
  ASSERT_FALSE(scratch.ok());
  EXPECT_EQ(scratch.error().kind, ErrorKind::environment);
  EXPECT_NE(scratch.error().message.find("missing"), std::string::npos) << scratch.error().message;
}

}  // namespace
}  // namespace warpsmith
