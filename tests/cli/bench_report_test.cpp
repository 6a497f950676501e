// The forms in which `bench` reports, and that an interrupted run loses nothing. Tiny shapes, one thread, little
// effort.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/subprocess.h"
#include "temporary_directory.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

class BenchReport : public TemporaryDirectory {
 protected:
  EnvironmentOverrides environment() const {
    return {{"WARPSMITH_DATA", (home_ / "data").string()},
            {"WARPSMITH_CACHE", (fs::temp_directory_path() / "warpsmith-cli-test-cache").string()}};
  }

  std::vector<std::string> bench(const std::vector<std::string>& more,
                                 const char* shapes = "48 40 56\n32 32 32\n") const {
    std::ofstream(home_ / "shapes") << shapes;
    std::vector<std::string> argv = {WARPSMITH_CLI, "bench", "--shapes",  (home_ / "shapes").string(),
                                     "--target",    "cpu",   "--threads", "1",
                                     "--effort",    "1ms",   "--first",   "1"};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }

  ProcessOutput run(const std::vector<std::string>& argv, std::uint64_t file_bytes = 0) const {
    ProcessRequest request;
    request.argv = argv;
    request.environment = environment();
    request.limits.wall_seconds = 120;
    request.limits.file_bytes = file_bytes;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return *output;
  }

  std::string file(const char* name) const {
    const auto text = read_file(home_ / name);
    EXPECT_TRUE(text.ok()) << text.error().message;
    return text ? *text : std::string();
  }

  std::string path(const char* name) const { return (home_ / name).string(); }

  void expect_refused(const std::vector<std::string>& more, int code, const std::string& part) const {
    const ProcessOutput output = run(bench(more));
    EXPECT_EQ(output.status.exit_code, code) << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos) << output.err;
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
    EXPECT_EQ(output.out, "");
  }
};

// Fields of a line of CSV that has no quoted line breaks.
std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> list(1);
  bool quoted = false;
  for (const char byte : line) {
    if (byte == '"') {
      quoted = !quoted;
    } else if (byte == ',' && !quoted) {
      list.emplace_back();
    } else {
      list.back() += byte;
    }
  }
  return list;
}

std::vector<std::string> lines(const std::string& text, const std::string& end) {
  std::vector<std::string> list;
  std::size_t start = 0;
  for (std::size_t at = text.find(end); at != std::string::npos; at = text.find(end, start)) {
    list.push_back(text.substr(start, at - start));
    start = at + end.size();
  }
  EXPECT_EQ(start, text.size()) << "the last line is whole";
  return list;
}

TEST_F(BenchReport, JsonLinesAsTheyCome) {
  const ProcessOutput output = run(bench({"--json"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto rows = lines(output.out, "\n");
  ASSERT_EQ(rows.size(), 2u) << output.out;
  const auto row = nlohmann::json::parse(rows[0]);
  EXPECT_EQ(row["problem"], "48x40x56 nn f16 f32");
  EXPECT_EQ(row["verdict"]["kind"], "accepted");
  EXPECT_EQ(row["conclusion"]["subjects"][0]["subject"], "candidate");
  EXPECT_GT(row["speedup"].get<double>(), 0);
  for (const char* key : {"device", "date", "commit", "mode", "seed"}) {
    EXPECT_FALSE(row["provenance"].value(key, std::string()).empty()) << key << row["provenance"];
  }
}

TEST_F(BenchReport, TextHasASummary) {
  const ProcessOutput output = run(bench({"--layout", "both"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  for (const char* part : {"48x40x56 nn f16 f32 ", "48x40x56 tn f16 f32 ", "geo. mean", "< 24", "best", "Wilcoxon p",
                           "4 of 4 problems accepted\n"}) {
    EXPECT_NE(output.out.find(part), std::string::npos) << part << "\n" << output.out;
  }
}

TEST_F(BenchReport, CsvHasARowASubject) {
  const ProcessOutput output = run(bench({"--format", "csv"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto rows = lines(output.out, "\r\n");
  ASSERT_GT(rows.size(), 4u);
  const auto header = fields(rows[0]);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  for (const char* name : {"subject", "cold_median_us", "warm_p95_us", "speedup", "device", "commit", "seed", "date"}) {
    ASSERT_LT(column(name), header.size()) << name;
  }
  int candidates = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto row = fields(rows[i]);
    ASSERT_EQ(row.size(), header.size()) << rows[i];
    EXPECT_GT(std::stod(row[column("cold_median_us")]), 0);
    if (row[column("subject")] != "candidate") continue;
    ++candidates;
    EXPECT_EQ(std::stod(row[column("speedup")]), 1);
  }
  EXPECT_EQ(candidates, 2);
}

TEST_F(BenchReport, JsonIsOneDocument) {
  const ProcessOutput output = run(bench({"--format", "json", "--layout", "both"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto report = nlohmann::json::parse(output.out);
  EXPECT_EQ(report["rows"].size(), 4u);
  EXPECT_TRUE(report["rejections"].empty());
  bool best = false;
  for (const auto& group : report["summary"]) {
    EXPECT_EQ(group["provenance"]["device"], report["rows"][0]["provenance"]["device"]);
    if (group["baseline"] != "fastest" || group["layouts"] != "best" || group["log2_mnk"] != "all") continue;
    best = true;
    EXPECT_EQ(group["count"], 2);
    EXPECT_GT(group["geometric_mean"].get<double>(), 0);
  }
  EXPECT_TRUE(best) << report["summary"];
}

// The form follows the file's extension; CSV has its summary in a file of its own.
TEST_F(BenchReport, WritesFiles) {
  for (const char* name : {"a.md", "a.json", "a.csv", "a.txt"}) {
    const ProcessOutput output = run(bench({"--output", path(name)}));
    ASSERT_EQ(output.status.exit_code, 0) << output.err;
    EXPECT_NE(output.out.find("48x40x56 nn f16 f32 "), std::string::npos) << "progress stays on stdout";
    EXPECT_FALSE(fs::exists(path(name) + ".partial"));
  }
  EXPECT_EQ(file("a.md").rfind("### Problems\n\n- device: ", 0), 0u);
  EXPECT_NE(file("a.md").find("\n| offline f16 | fastest | nn | all | 2 |"), std::string::npos) << file("a.md");
  EXPECT_EQ(nlohmann::json::parse(file("a.json"))["rows"].size(), 2u);
  EXPECT_EQ(file("a.csv").rfind("problem,m,n,k,", 0), 0u);
  EXPECT_EQ(file("a-summary.csv").rfind("label,baseline,layouts,log2_mnk,count,geometric_mean,", 0), 0u);
  EXPECT_EQ(file("a.txt").rfind("Problems\n  device ", 0), 0u);
  const ProcessOutput other = run(bench({"--output", path("b.md"), "--format", "csv", "--json"}));
  EXPECT_EQ(lines(other.out, "\n").size(), 2u) << "--json is for stdout, --format for the file";
  EXPECT_EQ(file("b.md").rfind("problem,m,n,k,", 0), 0u);
}

// A run that is killed has its rows in FILE.partial; the next one measures the rest and nothing twice.
TEST_F(BenchReport, ResumesAfterKill) {
  const std::string output = path("r.json");
  ASSERT_EQ(run(bench({"--verify"})).status.exit_code, 0);  // compiled now: the run below gets to measuring at once
  ChildProcess::Options options;
  // Many problems, of which the first take no time.
  options.argv = bench({"--output", output}, "48 40 56\n32 32 32\n40 40 40\n24 24 24\n16 16 16\n56 48 40\n");
  options.environment = environment();
  auto child = ChildProcess::spawn(options);
  ASSERT_TRUE(child.ok());
  std::string partial;
  for (int i = 0; i < 6000 && std::count(partial.begin(), partial.end(), '\n') < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (const auto text = read_file(output + ".partial"); text.ok()) partial = *text;
  }
  child->kill();
  child->wait();
  ASSERT_FALSE(fs::exists(output));
  partial = file("r.json.partial");
  ASSERT_GE(std::count(partial.begin(), partial.end(), '\n'), 2) << partial;

  // Refused without --resume, and with other options; nothing is lost by that.
  expect_refused({"--output", output}, 2, "--resume goes on with it");
  expect_refused({"--output", output, "--resume", "--seed", "2"}, 2, R"(/options/seed was "1" and is "2")");
  EXPECT_EQ(file("r.json.partial"), partial);

  const ProcessOutput resumed = run(bench({"--output", output, "--resume"}));
  ASSERT_EQ(resumed.status.exit_code, 0) << resumed.err;
  EXPECT_FALSE(fs::exists(output + ".partial"));
  const auto report = nlohmann::json::parse(file("r.json"));
  EXPECT_EQ(resumed.out.find("48x40x56"), std::string::npos) << "measured again:\n" << resumed.out;
  const auto first = nlohmann::json::parse(lines(partial.substr(0, partial.rfind('\n') + 1), "\n")[1]);
  EXPECT_EQ(report["rows"][0], first);
  std::vector<std::string> problems;
  for (const auto& row : report["rows"]) problems.push_back(row["problem"]);
  std::sort(problems.begin(), problems.end());
  EXPECT_EQ(std::adjacent_find(problems.begin(), problems.end()), problems.end());
  EXPECT_TRUE(std::binary_search(problems.begin(), problems.end(), "32x32x32 nn f16 f32"));
}

// A file-size limit stands for the full disk: one line says so, and rows up to there are kept.
TEST_F(BenchReport, SaysSoWhenTheDiskIsFull) {
  ASSERT_EQ(run(bench({"--verify"})).status.exit_code, 0);  // nothing to compile below
  const std::string output = path("full.json");
  const ProcessOutput full = run(bench({"--output", output}), 2048);
  EXPECT_EQ(full.status.exit_code, 3) << full.err << full.status.describe();
  EXPECT_NE(full.err.find("full.json.partial: File too large"), std::string::npos) << full.err;
  EXPECT_FALSE(fs::exists(output));
  const ProcessOutput resumed = run(bench({"--output", output, "--resume"}));
  EXPECT_EQ(resumed.status.exit_code, 0) << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(file("full.json"))["rows"].size(), 2u);
}

TEST_F(BenchReport, RefusesWhatDoesNotGoTogether) {
  expect_refused({"--format", "xml"}, 2, "unknown format 'xml'; accepted: table, csv, json, markdown");
  expect_refused({"--resume"}, 2, "--resume goes with --output FILE");
  expect_refused({"--json", "--format", "csv"}, 2, "give one of them");
  expect_refused({"--output", home_.string()}, 2, "is a directory");
  expect_refused({"--output", "/proc/nowhere/a.csv"}, 3, "/proc/nowhere/a.csv.partial");
}

// The same shape twice is measured once.
TEST_F(BenchReport, ListedTwice) {
  const ProcessOutput output = run(bench({"--json"}, "32 32 32\n32x32x32\n"));
  EXPECT_EQ(output.status.exit_code, 0) << output.err;
  EXPECT_EQ(lines(output.out, "\n").size(), 1u);
}

TEST_F(BenchReport, TorchIsNamedWhereItDoesNotRun) {
  const ProcessOutput output = run(bench({"--torch", "--json"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto row = nlohmann::json::parse(lines(output.out, "\n")[0]);
  EXPECT_EQ(row["torch"]["not_run"], "torch.matmul is measured on a CUDA GPU; the target is cpu");
  const ProcessOutput csv = run(bench({"--torch", "--format", "csv"}));
  EXPECT_NE(csv.out.find(",torch-matmul,false,"), std::string::npos) << csv.out;
  EXPECT_NE(csv.out.find("not run: torch.matmul is measured on a CUDA GPU"), std::string::npos) << csv.out;
}

}  // namespace
}  // namespace warpsmith
