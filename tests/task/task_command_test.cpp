// Tasks on the command line: a search and a measurement on the CPU, what is printed and kept, PyTorch's stand-in, bad
// input.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

class TaskCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-task-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
  }
  void TearDown() override { fs::remove_all(home_); }

  ProcessOutput run(std::vector<std::string> arguments, EnvironmentOverrides more = {}) const {
    ProcessRequest request;
    request.argv = {WARPSMITH_CLI};
    request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
    request.environment = {{"WARPSMITH_DATA", (home_ / "data").string()},
                           {"WARPSMITH_CACHE", (fs::temp_directory_path() / "warpsmith-cli-test-cache").string()}};
    request.environment.insert(request.environment.end(), more.begin(), more.end());
    request.limits.wall_seconds = 120;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return *output;
  }

  void expect_refused(const std::vector<std::string>& arguments, const std::string& part) const {
    const ProcessOutput output = run(arguments);
    EXPECT_EQ(output.status.exit_code, 2) << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos) << output.err;
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
  }

  static std::string task(const std::string& name) { return (fs::path(WARPSMITH_TASKS) / name).string(); }

  fs::path home_;
};

TEST_F(TaskCommand, SearchesKeepsAndWritesTheWinner) {
  const std::vector<std::string> arguments = {"optimize",  "--task", task("row_sum"), "--target", "cpu",
                                              "--threads", "1",      "--budget",      "60s",      "--candidates",
                                              "2",         "--json", "--quiet"};
  const ProcessOutput first = run(arguments);
  ASSERT_EQ(first.status.exit_code, 0) << first.err;
  const auto report = nlohmann::json::parse(first.out).at(0);
  EXPECT_EQ(report.at("task"), "row_sum");
  EXPECT_EQ(report.at("tried"), 2);
  EXPECT_EQ(report.at("verdict").at("kind"), "accepted") << report.at("verdict").dump();
  const fs::path source = report.at("source").get<std::string>();
  ASSERT_TRUE(fs::exists(source));
  const ProcessOutput again = run(arguments);
  ASSERT_EQ(again.status.exit_code, 0) << again.err;
  // Two candidates, and both of them as finalists.
  const auto resumed = nlohmann::json::parse(again.out).at(0);
  EXPECT_EQ(resumed.at("resumed"), 4);
  EXPECT_EQ(report.at("sanitizer").at("checks").at(0).at("outcome"), "not run");
  // What was written, last by the second search, is a candidate, with its macro at the value that was found.
  const ProcessOutput measured = run({"bench", "--task", task("row_sum"), "--candidate", source.string(), "--target",
                                      "cpu", "--threads", "1", "--effort", "50ms", "--json"});
  ASSERT_EQ(measured.status.exit_code, 0) << measured.err;
  const auto row = nlohmann::json::parse(measured.out).at("tasks").at(0);
  EXPECT_EQ(row.at("best").at("candidate"), resumed.at("candidate"));
}

TEST_F(TaskCommand, MeasuresBesidePyTorchsStandIn) {
  // Stands in for the Python interpreter; the helper's path is its argument.
  const fs::path python = home_ / "python";
  ASSERT_TRUE(write_file_atomic(python, R"(#!/bin/sh
grep -q '"rows":512' || exit 9
echo '{"subjects": [{"subject": "torch-eager", "cold": {"median_us": 1e6}, "warm": {"median_us": 2e6}}, {"subject": "cudnn", "not_run": "no"}]}'
)")
                  .ok());
  fs::permissions(python, fs::perms::owner_all);
  const std::vector<std::string> arguments = {"bench", "--task",   task("row_sum"), "--target", "cpu",   "--threads",
                                              "1",     "--effort", "50ms",          "--torch",  "--json"};
  const ProcessOutput good = run(arguments, {{"WARPSMITH_PYTHON", python.string()}});
  ASSERT_EQ(good.status.exit_code, 0) << good.err;
  const auto report = nlohmann::json::parse(good.out);
  EXPECT_GT(report.at("tasks").at(0).at("speedups").at("torch-eager"), 10);
  const auto& best = report.at("tasks").at(0).at("best");
  EXPECT_DOUBLE_EQ(report.at("tasks").at(0).at("warm_speedups").at("torch-eager"),
                   2e6 / best.at("warm_us").get<double>());
  EXPECT_EQ(report.at("tasks").at(0).at("warm_speedups").size(), 1U);
  ASSERT_EQ(report.at("summary").size(), 1U);
  EXPECT_EQ(report.at("summary").at(0).at("baseline"), "torch-eager");
  EXPECT_EQ(report.at("summary").at(0).at("share_above_1.01"), 1.0);
  const auto not_run = [&](const std::string& script) {
    EXPECT_TRUE(write_file_atomic(python, "#!/bin/sh\n" + script).ok());
    fs::permissions(python, fs::perms::owner_all);
    const ProcessOutput output = run(arguments, {{"WARPSMITH_PYTHON", python.string()}});
    EXPECT_EQ(output.status.exit_code, 0) << output.err;
    return nlohmann::json::parse(output.out).at("tasks").at(0).at("baselines").value("not_run", "it ran");
  };
  EXPECT_EQ(not_run("echo 'torch_task: no PyTorch' >&2; exit 3\n"), "torch_task: no PyTorch");
  EXPECT_NE(not_run("echo '{\"subjects\": [{\"subject\": \"x\"}]}'\n").find("no report"), std::string::npos);
  EXPECT_NE(not_run("echo '{\"subjects\": [{\"subject\": \"x\", \"cold\": {\"median_us\": -1}}]}'\n").find("no report"),
            std::string::npos);
  EXPECT_NE(not_run("echo '{\"subjects\": [{\"subject\": \"x\", \"cold\": {\"median_us\": 1}, \"warm\": 3}]}'\n")
                .find("no report"),
            std::string::npos);
}

TEST_F(TaskCommand, AWrongCandidateIsAnAnswer) {
  ASSERT_TRUE(write_file_atomic(home_ / "wrong.cpp", "extern \"C\" void f(const Arguments& t) { t.y[0] = 0; }\n").ok());
  ASSERT_TRUE(
      write_file_atomic(home_ / "wrong.json", R"({"warpsmith_candidate": 1, "source": "wrong.cpp", "entry": "f"})")
          .ok());
  const ProcessOutput output = run({"bench", "--task", task("row_sum"), "--candidate", (home_ / "wrong.cpp").string(),
                                    "--target", "cpu", "--threads", "1"});
  EXPECT_EQ(output.status.exit_code, 1);
  EXPECT_NE(output.out.find("wrong (gate coverage)"), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("rows=5 columns=33 scale=1"), std::string::npos) << output.out;
}

TEST_F(TaskCommand, RefusesWhatDoesNotGoTogether) {
  expect_refused({"optimize", "--task", (home_ / "nothing").string()},
                 "a task is named by its directory or its task.toml");
  expect_refused({"optimize", "64", "64", "64", "--task", task("row_sum")}, "shape does not go with --task");
  expect_refused({"optimize", "--task", task("row_sum"), "--policy", "random"},
                 "--policy random does not go with --task");
  expect_refused({"bench", "--task", task("row_sum"), "--grid", "cuda-l2"}, "--grid does not go with --task");
  expect_refused({"bench", "--task", task("row_sum"), "--candidate", (home_ / "x.cpp").string(), "--target", "cpu"},
                 "no such file");
}

}  // namespace
}  // namespace warpsmith
