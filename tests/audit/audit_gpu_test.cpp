// The whole path on a GPU: sources are compiled, audited in the sandbox, and the report cards say what they are.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

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

  void write(const std::string& name, const std::string& body) const {
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

  // The card of one candidate on a small shape, and the exit code. `further` replaces what is given here by default.
  nlohmann::json audit(const std::string& body, int exit_code, const std::vector<std::string>& further = {}) const {
    write("kernel.cu", body);
    std::vector<std::string> words = {(home_ / "kernel.cu").string(), "256", "192", "320", "--json"};
    for (const auto& [option, value] : {std::pair{"--effort", "300ms"}, {"--time-limit", "10s"}}) {
      if (std::find(further.begin(), further.end(), option) == further.end()) {
        words.insert(words.end(), {option, value});
      }
    }
    words.insert(words.end(), further.begin(), further.end());
    const ProcessOutput output = run(words);
    EXPECT_EQ(output.status.exit_code, exit_code) << output.status.describe() << output.err << output.out;
    const auto card = nlohmann::json::parse(output.out, nullptr, false);
    EXPECT_FALSE(card.is_discarded()) << output.out << output.err;
    return card;
  }

  // Asks an audit that has nothing else to do.
  bool has_dependent_launch() const {
    return audit(candidates::kNnOnly, 1, {"--no-timing", "--layout", "tn"})
               .at("machine")
               .at("compute_capability")
               .get<int>() >= 90;
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
  for (const char* check : {"gates", "stream-order", "late-writes", "kept-results", "chained-calls", "clocks",
                            "timed-outputs", "captured-graph", "threads"}) {
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

TEST_F(AuditGpu, CallsThatDoNotWaitForEachOtherAreCaught) {
  if (!has_dependent_launch()) GTEST_SKIP() << "programmatic dependent launch needs compute capability 9.0";
  const auto card = audit(std::string(candidates::kWaitsForNothing) + candidates::kEarly, 1, {"--no-timing"});
  EXPECT_EQ(card.at("verdict"), "wrong");
  EXPECT_TRUE(found(card, "chained-calls", "wrong")) << card.dump(2);
}

TEST_F(AuditGpu, CallsThatStartEarlyAndWaitAreHonest) {
  if (!has_dependent_launch()) GTEST_SKIP() << "programmatic dependent launch needs compute capability 9.0";
  const auto card = audit(std::string(candidates::kWaits) + candidates::kEarly, 0);
  EXPECT_EQ(card.at("verdict"), "honest") << card.dump(2);
  const auto& not_run = card.at("not_run");
  EXPECT_TRUE(not_run.contains("driver-calls") || found(card, "programmatic-launch", "note")) << card.dump(2);
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
  EXPECT_FALSE(fs::exists(home_ / "cards.json.partial")) << "it is for audits that did not end";
  EXPECT_NE(output.err.find("3/3"), std::string::npos) << output.err;
}

// Killed once something is known of the first candidate: the next run goes on from there, to the same cards.
TEST_F(AuditGpu, AnAuditThatWasKilledGoesOn) {
  write("a.cu", candidates::kHonest);
  write("b.cu", candidates::kHonest);
  const fs::path cards_file = home_ / "cards.json", partial = home_ / "cards.json.partial";
  const std::vector<std::string> words = {home_.string(), "128x128x128", "--no-timing", "--output",
                                          cards_file.string()};
  ChildProcess::Options options;
  options.argv = {command_line().string(), "audit"};
  options.argv.insert(options.argv.end(), words.begin(), words.end());
  const auto reports = [&] {
    const auto text = read_file(partial);
    std::size_t count = 0;
    for (std::size_t at = text ? text->find("\"report\"") : std::string::npos; at != std::string::npos;
         at = text->find("\"report\"", at + 1)) {
      ++count;
    }
    return count;
  };
  {
    auto child = ChildProcess::spawn(options);
    ASSERT_TRUE(child.ok()) << child.error().message;
    for (int i = 0; i < 1200 && reports() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    child->kill();
  }
  const std::size_t before = reports();
  ASSERT_GE(before, 1u);
  ASSERT_LT(before, 4u) << "it ended before it was killed";
  EXPECT_EQ(run(words).status.exit_code, 2) << "what is there is not lost by accident";
  auto again = words;
  again.emplace_back("--resume");
  const ProcessOutput output = run(again);
  EXPECT_EQ(output.status.exit_code, 0) << output.err << output.out;
  const auto cards = read_file(cards_file);
  ASSERT_TRUE(cards.ok());
  const auto list = nlohmann::json::parse(*cards);
  ASSERT_EQ(list.size(), 2u);
  for (const auto& card : list) {
    EXPECT_EQ(card.at("verdict"), "honest");
    EXPECT_EQ(card.at("problems").size(), 2u);
  }
  EXPECT_FALSE(fs::exists(partial));
}

}  // namespace
}  // namespace warpsmith::audit
