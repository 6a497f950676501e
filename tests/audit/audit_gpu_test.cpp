// The whole path on a GPU: sources are compiled, audited in the sandbox, and the report cards say what they are.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "audit/build_candidate.h"
#include "base/file.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "gpu_candidates.h"

namespace warpsmith::audit {
namespace {

namespace fs = std::filesystem;

// Beside the tests in a build tree, one folder up when staged.
fs::path command_line() {
  const fs::path beside = executable_dir() / "warpsmith";
  return fs::exists(beside) ? beside : executable_dir().parent_path() / "warpsmith";
}

class AuditGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "no NVIDIA GPU";
    if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
    std::string pattern = (fs::temp_directory_path() / "warpsmith-audit-gpu-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
  }
  void TearDown() override {
    if (!home_.empty()) fs::remove_all(home_);
  }

  void write(const std::string& name, const char* body) const {
    std::ofstream(home_ / name) << candidates::kHead << body;
  }

  ProcessOutput run(std::vector<std::string> words) const {
    words.insert(words.begin(), {command_line().string(), "audit"});
    ProcessRequest request;
    request.argv = std::move(words);
    request.limits.wall_seconds = 300;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return output.ok() ? *output : ProcessOutput{};
  }

  // The card of one candidate on a small shape, and the exit code.
  nlohmann::json audit(const char* body, int exit_code, const std::vector<std::string>& further = {}) const {
    write("kernel.cu", body);
    std::vector<std::string> words = {
        (home_ / "kernel.cu").string(), "256", "192", "320", "--json", "--effort", "300ms", "--time-limit", "10s"};
    words.insert(words.end(), further.begin(), further.end());
    const ProcessOutput output = run(words);
    EXPECT_EQ(output.status.exit_code, exit_code) << output.status.describe() << output.err << output.out;
    const auto card = nlohmann::json::parse(output.out, nullptr, false);
    EXPECT_FALSE(card.is_discarded()) << output.out << output.err;
    return card;
  }

  static bool found(const nlohmann::json& card, const std::string& check, const std::string& severity) {
    for (const auto& finding : card.at("findings")) {
      if (finding.at("check") == check && finding.at("severity") == severity) return true;
    }
    return false;
  }

  fs::path home_;
};

TEST_F(AuditGpu, AnHonestKernelIsHonest) {
  const auto card = audit(candidates::kHonest, 0);
  EXPECT_EQ(card.at("verdict"), "honest") << card.dump(2);
  EXPECT_EQ(card.at("computes").at("accumulator"), "f32");
  EXPECT_EQ(card.at("computes").at("layouts"), "nn, tn");
  for (const auto& problem : card.at("problems")) {
    EXPECT_EQ(problem.at("status"), "right");
    EXPECT_EQ(problem.at("quoted").at("mode"), "graph-cold");
    EXPECT_GT(problem.at("quoted").at("time_us").get<double>(), problem.at("floor_us").get<double>());
    EXPECT_TRUE(problem.at("quoted").at("trusted").get<bool>());
    const auto& active = problem.at("sandbox").at("active");
    EXPECT_NE(std::find(active.begin(), active.end(), "seccomp"), active.end());
  }
  for (const char* check : {"gates", "stream-order", "late-writes", "kept-results", "clocks", "timed-outputs",
                            "captured-graph", "threads"}) {
    EXPECT_NE(std::find(card.at("checks").begin(), card.at("checks").end(), check), card.at("checks").end()) << check;
  }
}

TEST_F(AuditGpu, RaggedSizesAreNoticed) {
  write("kernel.cu", candidates::kHonest);
  const ProcessOutput output =
      run({(home_ / "kernel.cu").string(), "77x55x93", "--json", "--no-timing", "--layout", "tn"});
  EXPECT_EQ(output.status.exit_code, 0) << output.err << output.out;
  EXPECT_EQ(nlohmann::json::parse(output.out).at("computes").at("ragged"), "yes");
}

TEST_F(AuditGpu, SettingUpOnceIsHonest) {
  EXPECT_EQ(audit(candidates::kLazy, 0).at("verdict"), "honest");
  EXPECT_EQ(audit(candidates::kSplitK, 0).at("verdict"), "honest");
}

TEST_F(AuditGpu, HalfPrecisionSumsAreNamed) {
  const auto card = audit(candidates::kHalfSums, 1, {"--no-timing"});
  EXPECT_EQ(card.at("verdict"), "wrong");
  EXPECT_EQ(card.at("computes").at("accumulator"), "f16") << card.dump(2);
}

TEST_F(AuditGpu, SideStreamsAreCaught) {
  const auto card = audit(candidates::kSideStream, 1);
  EXPECT_NE(card.at("verdict"), "honest");
  EXPECT_TRUE(found(card, "side-stream", "wrong") || found(card, "side-stream", "suspicious")) << card.dump(2);
}

TEST_F(AuditGpu, KeptResultsAreCaught) {
  EXPECT_EQ(audit(candidates::kCacheByPointer, 1, {"--no-timing"}).at("verdict"), "wrong");
}

TEST_F(AuditGpu, EndlessKernelsAreEnded) {
  const auto card = audit(candidates::kHangs, 1, {"--time-limit", "3s", "--layout", "nn"});
  EXPECT_EQ(card.at("verdict"), "wrong");
  EXPECT_EQ(card.at("problems").at(0).at("status"), "timed-out") << card.dump(2);
}

TEST_F(AuditGpu, UnsupportedLayoutsAreNoFault) {
  const auto card = audit(candidates::kNnOnly, 0, {"--no-timing"});
  EXPECT_EQ(card.at("verdict"), "honest");
  EXPECT_EQ(card.at("computes").at("layouts"), "nn");
}

TEST_F(AuditGpu, ADirectoryGivesATable) {
  write("good.cu", candidates::kHonest);
  write("half.cu", candidates::kHalfSums);
  std::ofstream(home_ / "broken.cu") << "no CUDA\n";
  const ProcessOutput output = run({home_.string(), "128", "128", "128", "--no-timing", "--layout", "nn", "--output",
                                    (home_ / "cards.json").string()});
  EXPECT_EQ(output.status.exit_code, 1) << output.err;
  for (const char* part : {"good.cu", "honest", "half.cu", "wrong", "broken.cu", "rejected", "does not compile"}) {
    EXPECT_NE(output.out.find(part), std::string::npos) << part << "\n" << output.out;
  }
  const auto cards = read_file(home_ / "cards.json");
  ASSERT_TRUE(cards.ok());
  EXPECT_EQ(nlohmann::json::parse(*cards).size(), 3u);
}

}  // namespace
}  // namespace warpsmith::audit
