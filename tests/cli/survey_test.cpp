// `survey` on this CPU, one thread, tiny shapes, little effort: its files, resuming, and that a killed run loses
// nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/subprocess.h"
#include "temporary_directory.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

class Survey : public TemporaryDirectory {
 protected:
  EnvironmentOverrides environment() const {
    return {{"WARPSMITH_DATA", (home_ / "data").string()},
            {"WARPSMITH_CACHE", (fs::temp_directory_path() / "warpsmith-cli-test-cache").string()}};
  }
  std::vector<std::string> survey(const std::vector<std::string>& more,
                                  const char* shapes = "48 40 56\n32 32 32\n") const {
    std::ofstream(home_ / "shapes") << shapes;
    std::vector<std::string> argv = {
        WARPSMITH_CLI, "survey", "--shapes", (home_ / "shapes").string(), "--target", "cpu",
        "--threads",   "1",      "--output", (home_ / "grid").string()};
    argv.insert(argv.end(), more.begin(), more.end());
    if (std::find(more.begin(), more.end(), "--effort") == more.end()) {
      argv.insert(argv.end(), {"--effort", "1ms"});
    }
    return argv;
  }
  ProcessOutput run(const std::vector<std::string>& argv) const {
    ProcessRequest request;
    request.argv = argv;
    request.environment = environment();
    request.limits.wall_seconds = 120;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return *output;
  }
  std::string file(const char* name) const {
    const auto text = read_file(home_ / name);
    EXPECT_TRUE(text.ok()) << text.error().message;
    return text ? *text : std::string();
  }
  // Rows of a CSV by "MxNxK", each a map by column.
  std::map<std::string, std::map<std::string, std::string>> csv(const char* name) const {
    std::istringstream lines(file(name));
    std::vector<std::string> columns;
    std::map<std::string, std::map<std::string, std::string>> rows;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#")) continue;
      std::vector<std::string> cells;
      std::istringstream parts(line);
      for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
      if (columns.empty()) {
        columns = cells;
        continue;
      }
      auto& row = rows[cells[0] + "x" + cells[1] + "x" + cells[2]];
      for (std::size_t i = 0; i < std::min(cells.size(), columns.size()); ++i) row[columns[i]] = cells[i];
    }
    return rows;
  }
  void expect_refused(const std::vector<std::string>& more, const std::string& part) const {
    const ProcessOutput output = run(survey(more));
    EXPECT_EQ(output.status.exit_code, 2) << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos) << output.err;
  }
};

TEST_F(Survey, MeasuresBothLayoutsInEveryModeAndGoesOn) {
  ProcessOutput output = run(survey({"--modes", "offline,call"}));
  EXPECT_EQ(output.status.exit_code, 0) << output.err;
  auto offline = csv("grid-offline.csv");
  ASSERT_EQ(offline.size(), 2u);
  for (const auto& [shape, row] : offline) {
    const double nn = std::stod(row.at("ours_nn_us")), tn = std::stod(row.at("ours_tn_us"));
    EXPECT_DOUBLE_EQ(std::stod(row.at("ours_us")), std::min(nn, tn)) << shape;
    EXPECT_GT(std::stod(row.at("ours_warm_us")), 0) << shape;
    EXPECT_GT(std::stod(row.at("fastest_us")), 0) << shape;
    EXPECT_EQ(row.at("recipe").substr(0, 4), "cpu ") << shape;
    EXPECT_EQ(row.at("gates").substr(0, 7), "passed ") << shape;
    EXPECT_EQ(row.at("origin"), "starting point") << shape;
  }
  EXPECT_EQ(csv("grid-call.csv").size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(file("grid-summary.json")).at("shapes").at("offline"), 2);

  // Nothing is left to do; a further mode and a further shape are.
  output = run(survey({"--modes", "offline,call", "--resume"}));
  EXPECT_EQ(output.status.exit_code, 0) << output.err;
  EXPECT_NE(output.out.find("0 of 2 shapes measured"), std::string::npos) << output.out;
  output = run(survey({"--modes", "call", "--resume"}, "48 40 56\n32 32 32\n16 24 40\n"));
  EXPECT_EQ(output.status.exit_code, 0) << output.err;
  EXPECT_NE(output.out.find("1 of 3 shapes measured"), std::string::npos) << output.out;
  const auto calls = csv("grid-call.csv");
  ASSERT_EQ(calls.size(), 3u);
  // In the layout that was faster offline.
  for (const auto& [shape, row] : csv("grid-offline.csv")) {
    const bool nn = std::stod(row.at("ours_nn_us")) <= std::stod(row.at("ours_tn_us"));
    EXPECT_EQ(calls.at(shape).at("layouts").substr(0, 7), nn ? "ours-nn" : "ours-tn") << shape;
  }
}

TEST_F(Survey, AKilledRunLosesNothing) {
  const char* shapes = "16 16 16\n16 16 32\n16 32 32\n32 32 32\n32 32 48\n32 48 48\n48 48 48\n48 48 64\n";
  ChildProcess::Options options;
  options.argv = survey({"--quiet", "--effort", "20ms"}, shapes);
  options.environment = environment();
  auto child = ChildProcess::spawn(options);
  ASSERT_TRUE(child.ok());
  const auto rows = [this] {
    const auto text = read_file(home_ / "grid.rows");
    return text ? std::count(text->begin(), text->end(), '\n') - 1 : 0;
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (rows() < 2 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  child->kill();
  child->wait();
  const auto kept = rows();
  ASSERT_GE(kept, 2);
  ASSERT_LT(kept, 8);
  expect_refused({}, "--resume goes on with it");
  const ProcessOutput output = run(survey({"--resume", "--effort", "20ms"}, shapes));
  EXPECT_EQ(output.status.exit_code, 0) << output.err;
  EXPECT_EQ(rows(), 8);
  EXPECT_EQ(csv("grid-offline.csv").size(), 8u);
}

TEST_F(Survey, RefusesWhatItCannotDo) {
  expect_refused({"--modes", "offline,quick"}, "unknown mode 'quick'");
  expect_refused({"--modes", "accuracy"}, "mode accuracy goes with a CUDA target");
  expect_refused({"--grid", "cuda-l2"}, "give the shapes once");
  expect_refused({"--gpus", "all"}, "--gpus goes with a CUDA target");
  expect_refused({"--scaled"}, "--scaled and --ld go with bench");
  expect_refused({"--archive", (home_ / "none.sqlite").string()}, "there is no archive");
}

}  // namespace
}  // namespace warpsmith
