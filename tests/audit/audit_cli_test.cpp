// `warpsmith audit` as a user meets it where no GPU is needed: one line for bad input, exit codes.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
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
  expect_refused({file("kernel.cu"), "--resume"}, "--resume goes with --output FILE");
  expect_refused({file("kernel.cu"), "--output", file("empty")}, "is a directory");
  std::ofstream(home_ / "cards.json.partial") << "\n";
  expect_refused({file("kernel.cu"), "--output", file("cards.json")}, "--resume goes on with it");
  expect_refused({file("kernel.cu"), "--sandbox-off"}, "--sandbox-off");
}

// The program beside a judge that needs no GPU, and a directory of two candidates.
class AuditOfMany : public AuditCli {
 protected:
  void SetUp() override {
    AuditCli::SetUp();
    fs::copy_file(WARPSMITH_CLI, home_ / "warpsmith");
    fs::copy_file(WARPSMITH_FAKE_JUDGE, home_ / "warpsmith-audit-judge");
    fs::create_directories(home_ / "many");
    for (const char* name : {"a.so", "b.so"}) fs::copy_file(WARPSMITH_ELF_FIXTURE, home_ / "many" / name);
  }

  ProcessOutput run(const std::vector<std::string>& further) const {
    ProcessRequest request;
    request.argv = {file("warpsmith"), "audit", file("many"), "64x64x64", "--output", file("cards.json")};
    request.argv.insert(request.argv.end(), further.begin(), further.end());
    request.limits.wall_seconds = 60;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok());
    return output.ok() ? *output : ProcessOutput{};
  }
  // How often the judge was asked.
  std::ptrdiff_t judged() const {
    const std::string text = read_file(home_ / "judged").value();
    return std::count(text.begin(), text.end(), '\n');
  }
};

TEST_F(AuditOfMany, ShowsEachAsItComes) {
  const ProcessOutput output = run({"--json"});
  EXPECT_EQ(output.status.exit_code, 1) << output.err;  // the fixture can open network connections
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 2) << output.out;
  EXPECT_EQ(judged(), 4);
  EXPECT_FALSE(fs::exists(file("cards.json.partial")));
  const ProcessOutput text = run({});
  EXPECT_NE(text.err.find("1/2 " + file("many") + "/a.so: suspicious\n"), std::string::npos) << text.err;
  EXPECT_NE(text.err.find("2/2 "), std::string::npos) << text.err;
}

TEST_F(AuditOfMany, LosesNothingWhenTheMachineFails) {
  std::ofstream(home_ / "answers") << 3;
  ProcessOutput output = run({});
  EXPECT_EQ(output.status.exit_code, 3) << output.err;
  EXPECT_NE(output.err.find("the device is gone"), std::string::npos) << output.err;
  EXPECT_NE(output.out.find("a.so"), std::string::npos) << "what was judged is shown: " << output.out;
  EXPECT_EQ(judged(), 4);
  fs::remove(home_ / "answers");

  output = run({});
  EXPECT_EQ(output.status.exit_code, 2) << "what is there is not lost by accident";
  output = run({"--resume", "--seed", "7"});
  EXPECT_EQ(output.status.exit_code, 2) << output.err;
  EXPECT_NE(output.err.find("/options/seed was 1 and is 7"), std::string::npos) << output.err;

  output = run({"--resume"});
  EXPECT_EQ(output.status.exit_code, 1) << output.err;
  EXPECT_EQ(judged(), 5) << "three were known";
  const auto cards = nlohmann::json::parse(read_file(file("cards.json")).value());
  ASSERT_EQ(cards.size(), 2u);
  for (const auto& card : cards) {
    EXPECT_EQ(card.at("problems").size(), 2u);
    EXPECT_EQ(card.at("verdict"), "suspicious");
  }
  EXPECT_FALSE(fs::exists(file("cards.json.partial")));
}

}  // namespace
}  // namespace warpsmith
