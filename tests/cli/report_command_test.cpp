// `warpsmith report` as a user meets it: which files it takes, where the page goes, what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"
#include "temporary_directory.h"

namespace warpsmith {
namespace {

constexpr const char* kGrid =
    "# device: Test device\nm,n,k,ours_us,lt_auto_us,recipe\n64,64,64,2,3,tiny a=1\n128,64,64,2,3,tiny a=2\n";

class ReportCommand : public TemporaryDirectory {
 protected:
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file_atomic(home_ / name, text).ok());
  }

  ProcessOutput run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {WARPSMITH_CLI, "report"});
    ProcessRequest request;
    request.argv = std::move(arguments);
    request.working_directory = home_;
    request.limits.wall_seconds = 60;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return *output;
  }

  void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& part) const {
    const ProcessOutput output = run(arguments);
    EXPECT_EQ(output.status.exit_code, code) << output.err;
    EXPECT_EQ(output.out, "");
    EXPECT_NE(output.err.find(part), std::string::npos) << output.err;
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
    EXPECT_FALSE(std::filesystem::exists(home_ / "report.html"));
  }
};

TEST_F(ReportCommand, TakesADirectoryByItsUsualNames) {
  write("results/h200/grid-offline.csv", kGrid);
  write("results/h200/grid-call.csv", "m,n,k,ours_us,lt_auto_us\n64,64,64,10,20\n");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {"results/h200"}}) {
    const ProcessOutput output = run(arguments);
    EXPECT_EQ(output.status.exit_code, 0) << output.err;
    EXPECT_TRUE(output.out.starts_with("results/h200/report.html: 2 shapes, ")) << output.out;
    EXPECT_NE(output.out.find("cold        1.500 over auto-tuned cuBLASLt (geometric mean of 2)"), std::string::npos)
        << output.out;
    EXPECT_NE(output.out.find("call        2.000"), std::string::npos) << output.out;
    const auto page = read_file(home_ / "results/h200/report.html");
    ASSERT_TRUE(page.ok());
    EXPECT_TRUE(page->starts_with("<!doctype html>"));
    EXPECT_NE(page->find("HGEMM on Test device"), std::string::npos);
    std::filesystem::remove(home_ / "results/h200/report.html");
  }
}

TEST_F(ReportCommand, TakesFilesByOption) {
  write("a.csv", kGrid);
  write("results/h200/grid-call.csv", "not read");
  const ProcessOutput output = run({"--offline", "a.csv", "--output", "pages/a.html"});
  EXPECT_EQ(output.status.exit_code, 0) << output.err;
  EXPECT_TRUE(std::filesystem::exists(home_ / "pages/a.html"));
  EXPECT_EQ(run({"--server", "a.csv"}).out.substr(0, 12), "report.html:");
}

TEST_F(ReportCommand, RefusesInOneLine) {
  expect_refused({}, 2, "results/h200 is no directory; accepted: ");
  write("results/h200/notes.txt", "");
  expect_refused({}, 2, "no grid to report on in results/h200; accepted: ");
  write("bad.csv", "# device: x\nm,n,k,ours_us,lt_auto_us\n64,64,64,2,3\n64,64,128,2,fast\n");
  expect_refused({"--offline", "bad.csv"}, 2, "bad.csv:4: lt_auto_us is 'fast'; accepted: a positive number");
  expect_refused({"--offline", "missing.csv"}, 3, "missing.csv");
  write("good.csv", kGrid);
  expect_refused({"--offline", "good.csv", "--summary", "bad.csv"}, 2, "bad.csv:1: not a JSON object");
  expect_refused({"--llm", "good.csv"}, 2, "no grid to report on; accepted: ");
  expect_refused({"--online", "good.csv"}, 2, "--online");
}

}  // namespace
}  // namespace warpsmith
