// The interposer preloaded into a program, before stand-ins for cuBLAS, the driver and libwarpsmith that compute on the
// CPU: what each call ran on, whether it is right, what the log says. Once with cuBLAS linked, once opened at run time.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"

namespace warpsmith {
namespace {

const std::string kLibraries = WARPSMITH_INTERPOSER_FAKES;

struct Case {
  std::string ran, outcome;
};

struct Ran {
  std::map<std::string, Case> cases;
  std::string err;
};

class Interposer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "warpsmith-interposer-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  Ran run(EnvironmentOverrides environment, bool preload = true) const {
    ProcessRequest request;
    request.argv = {kLibraries + "/interposed-" + GetParam()};
    if (GetParam() == "opening") request.argv.push_back(kLibraries + "/libinterposed_cases.so");
    environment.emplace_back("LD_LIBRARY_PATH", kLibraries);
    if (preload) environment.emplace_back("LD_PRELOAD", WARPSMITH_INTERPOSER);
    request.environment = environment;
    request.limits.wall_seconds = 60;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    EXPECT_EQ(output->status.exit_code, 0) << output->err << output->status.describe();
    Ran ran;
    ran.err = output->err;
    std::istringstream lines(output->out);
    std::string name;
    for (Case each; lines >> name >> each.ran >> each.outcome;) ran.cases[name] = each;
    return ran;
  }

  std::filesystem::path home_;
};

const std::vector<std::string> kOurs = {
    "gemm-00-1",           "gemm-00-3",    "gemm-01-1",     "gemm-01-3",   "gemm-10-1",
    "gemm-10-3",           "gemm-11-1",    "gemm-11-3",     "gemm-20-1",   "gemm-20-3",
    "gemm-21-1",           "gemm-21-3",    "bf16",          "compute-16f", "capture-before",
    "capture-later",       "hgemm",        "hgemm-batched", "lt-columns",  "lt-rows",
    "lt-elsewhere-unread", "memory-again", "device-0",      "device-1",    "device-1-thread",
    "device-0-again"};
const std::vector<std::string> kCublas = {
    "pedantic-type",     "better-on-cublas", "better-on-cublas-again", "launch-fails", "no-memory",   "device-pointers",
    "pedantic-mode",     "sm-target",        "capture-first",          "lt-elsewhere", "lt-epilogue", "lt-scaled",
    "lt-device-pointers"};

TEST_P(Interposer, RunsWhatItCanAndPassesOnTheRest) {
  const Ran ran = run({});
  ASSERT_EQ(ran.cases.size(), kOurs.size() + kCublas.size() + 2);
  for (const std::string& name : kOurs) {
    EXPECT_EQ(ran.cases.at(name).ran, "warpsmith") << name;
    EXPECT_EQ(ran.cases.at(name).outcome, "right") << name;
  }
  for (const std::string& name : kCublas) {
    EXPECT_EQ(ran.cases.at(name).ran, "cublas") << name;
    EXPECT_EQ(ran.cases.at(name).outcome, "right") << name;
  }
  // cuBLAS's own answer to a null handle is an error.
  EXPECT_EQ(ran.cases.at("null-handle").ran, "cublas");
  EXPECT_EQ(ran.cases.at("null-handle").outcome, "wrong");
  EXPECT_EQ(ran.cases.at("threads").outcome, "right");
}

// One handle for each of two devices, however many threads; one plan for each distinct problem.
TEST_P(Interposer, MakesThingsOnce) {
  const std::string err = run({}).err;
  const auto count = [&err](const std::string& line) {
    std::size_t found = 0;
    for (std::size_t at = err.find(line); at != std::string::npos; at = err.find(line, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("one more handle"), 2u);
  // The threads' 60 problems and no more than one for each other case.
  EXPECT_GE(count("one more plan"), 60u);
  EXPECT_LE(count("one more plan"), 60u + kOurs.size() + 1);
}

TEST_P(Interposer, IsOffWhenAsked) {
  const Ran ran = run({{"WARPSMITH_INTERPOSE", "0"}});
  for (const auto& [name, each] : ran.cases) {
    if (name == "threads") continue;
    EXPECT_EQ(each.ran, "cublas") << name;
    EXPECT_EQ(each.outcome, name == "null-handle" ? "wrong" : "right") << name;
  }
  EXPECT_EQ(ran.err.find("one more handle"), std::string::npos);
}

TEST_P(Interposer, SharesTheDeviceWhenAsked) {
  EXPECT_EQ(run({}).err.find("for any company"), std::string::npos);
  EXPECT_NE(run({{"WARPSMITH_SHARING", "any"}}).err.find("for any company"), std::string::npos);
}

// Without it the program's results are the same: the cases themselves are right.
TEST_P(Interposer, ChangesNoResult) {
  const Ran with = run({}), without = run({}, false);
  ASSERT_EQ(with.cases.size(), without.cases.size());
  for (const auto& [name, each] : without.cases) EXPECT_EQ(each.outcome, with.cases.at(name).outcome) << name;
}

TEST_P(Interposer, LogsEachDistinctCallAndTotals) {
  const std::string path = (home_ / "log.jsonl").string();
  run({{"WARPSMITH_INTERPOSE_LOG", path}});
  const auto text = read_file(path);
  ASSERT_TRUE(text.ok());
  std::istringstream lines(*text);
  std::map<std::string, int> reasons;
  std::vector<std::string> seen;
  nlohmann::json totals;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (json.contains("totals")) {
      totals = json["totals"];
      continue;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), line), 0) << line;
    seen.push_back(line);
    if (json["ran"] == "warpsmith") {
      EXPECT_EQ(json["explain"]["kernel"], "fake") << line;
      continue;
    }
    ++reasons[json["reason"]];
  }
  const std::map<std::string, int> expected = {{"compute type", 1},
                                               {"cuBLAS is the better choice", 1},
                                               {"launch failed", 1},
                                               {"out of memory", 1},
                                               {"alpha and beta on the device", 2},
                                               {"pedantic math mode", 1},
                                               {"multiprocessor target", 1},
                                               {"first call of its kind, in a stream capture", 1},
                                               {"handle", 1},
                                               {"C is not D", 1},
                                               {"epilogue", 1},
                                               {"scale factors", 1}};
  for (const auto& [reason, count] : expected) EXPECT_EQ(reasons[reason], count) << reason;
  // The calls of the cases and 8 x 300 of the threads; those that cuBLAS makes itself are no calls of the program.
  EXPECT_EQ(totals["calls"], static_cast<int>(kOurs.size() + kCublas.size()) + 1 + 2400);
  EXPECT_EQ(totals["reasons"]["cuBLAS is the better choice"], 2);
  EXPECT_EQ(totals["warpsmith"].get<int>() + totals["cublas"].get<int>(), totals["calls"].get<int>());
}

INSTANTIATE_TEST_SUITE_P(Programs, Interposer, ::testing::Values("linked", "opening"),
                         [](const auto& information) { return information.param; });

}  // namespace
}  // namespace warpsmith
