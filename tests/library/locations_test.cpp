// Where wisdom and packs are found: beside the library, and in the build tree as in an installation.
#include "library/locations.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace warpsmith::library {
namespace {

namespace fs = std::filesystem;

class LocationsTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("WARPSMITH_WISDOM");
    unsetenv("WARPSMITH_PACK");
  }
  void TearDown() override {
    std::error_code ignored;
    for (const fs::path& file : made_) fs::remove(file, ignored);
    for (const char* folder : {"wisdom", "packs"}) fs::remove(own_directory() / folder, ignored);  // where it is empty
  }
  fs::path put_beside(const char* folder, const std::string& name) {
    fs::create_directories(own_directory() / folder);
    const fs::path file = own_directory() / folder / name;
    std::ofstream(file) << "x\n";
    made_.push_back(file);
    return file;
  }
  std::string gpu_ = "gpu-of-process-" + std::to_string(getpid());
  std::vector<fs::path> made_;
};

TEST_F(LocationsTest, BesideTheLibrary) {
  EXPECT_FALSE(find_wisdom(nullptr, gpu_));
  EXPECT_FALSE(find_pack(nullptr, gpu_));
  const fs::path wisdom = put_beside("wisdom", gpu_ + ".jsonl"), pack = put_beside("packs", gpu_ + ".wspack");
  ASSERT_TRUE(find_wisdom(nullptr, gpu_));
  EXPECT_EQ(find_wisdom(nullptr, gpu_)->path, wisdom);
  EXPECT_FALSE(find_wisdom(nullptr, gpu_)->named);
  ASSERT_TRUE(find_pack(nullptr, gpu_));
  EXPECT_EQ(find_pack(nullptr, gpu_)->path, pack);
}

TEST_F(LocationsTest, AnOptionAndTheEnvironmentComeFirst) {
  put_beside("wisdom", gpu_ + ".jsonl");
  ASSERT_EQ(setenv("WARPSMITH_WISDOM", "/of/the/environment", 1), 0);
  EXPECT_EQ(find_wisdom(nullptr, gpu_)->path, "/of/the/environment");
  EXPECT_EQ(find_wisdom("/of/the/handle", gpu_)->path, "/of/the/handle");
  EXPECT_TRUE(find_wisdom(nullptr, gpu_)->named);
}

TEST_F(LocationsTest, TheBuildTreeIsAnInstallation) {
  const auto found = find_wisdom(nullptr, "h200");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, (own_directory() / ".." / "share/warpsmith/wisdom/h200.jsonl").lexically_normal());
}

}  // namespace
}  // namespace warpsmith::library
