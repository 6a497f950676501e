// `warpsmith audit` as a user meets it where no GPU is needed: one line for bad input, exit codes.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/subprocess.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

class AuditCli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-audit-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    fs::create_directories(home_ / "empty");
    std::ofstream(home_ / "kernel.cu") << "int x;\n";
    std::ofstream(home_ / "kernel.txt") << "text\n";
  }
  void TearDown() override { fs::remove_all(home_); }

  void expect_refused(std::vector<std::string> words, const std::string& part) const {
    words.insert(words.begin(), {WARPSMITH_CLI, "audit"});
    ProcessRequest request;
    request.argv = words;
    request.limits.wall_seconds = 60;
    const auto output = run_process(request);
    ASSERT_TRUE(output.ok());
    EXPECT_EQ(output->status.exit_code, 2) << output->err << output->status.describe();
    EXPECT_EQ(output->out, "");
    EXPECT_NE(output->err.find(part), std::string::npos) << output->err;
    EXPECT_EQ(std::count(output->err.begin(), output->err.end(), '\n'), 1) << output->err;
  }
  std::string file(const char* name) const { return (home_ / name).string(); }

  fs::path home_;
};

TEST_F(AuditCli, RefusesBadInput) {
  expect_refused({}, "path");
  expect_refused({file("missing.so")}, "no such file");
  expect_refused({file("kernel.txt")}, "accepted: a shared object (.so)");
  expect_refused({file("empty")}, "holds no .so and no .cu file");
  expect_refused({file("kernel.cu"), "64", "64"}, "64");
  expect_refused({file("kernel.cu"), "64", "64", "0"}, "0");
  expect_refused({file("kernel.cu"), "64", "64", "64", "--grid", "cuda-l2"}, "give the shape once");
  expect_refused({file("kernel.cu"), "--grid", "nonsense"}, "nonsense");
  expect_refused({file("kernel.cu"), "--shapes", file("kernel.cu")}, "int x;");
  expect_refused({file("kernel.cu"), "--layout", "nt"}, "accepted for --layout: nn, tn, both");
  expect_refused({file("kernel.cu"), "--effort", "soon"}, "not a duration");
  expect_refused({file("kernel.cu"), "--time-limit", "-1"}, "not a duration");
  expect_refused({file("kernel.cu"), "--workspace", "-3"}, "workspace");
  expect_refused({file("kernel.cu"), "--include", file("missing")}, "no such directory");
  expect_refused({file("kernel.cu"), "--readable", file("missing")}, "no such file or directory");
  expect_refused({file("kernel.cu"), "--device", "-1"}, "device");
  expect_refused({file("kernel.cu"), "--sandbox-off"}, "--sandbox-off");
}

}  // namespace
}  // namespace warpsmith
