// Reading compute-sanitizer's output, and the smaller problems it is given.
#include "evaluate/sanitizer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace warpsmith {
namespace {

using Outcome = SanitizerCheck::Outcome;

ExitStatus exited(int code) {
  ExitStatus status;
  status.exit_code = code;
  return status;
}

TEST(SanitizerOutput, CleanRunsPass) {
  EXPECT_EQ(
      read_sanitizer_output("memcheck", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", exited(0))
          .outcome,
      Outcome::passed);
  EXPECT_EQ(read_sanitizer_output("racecheck",
                                  "========= COMPUTE-SANITIZER\n"
                                  "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n",
                                  exited(0))
                .outcome,
            Outcome::passed);
}

TEST(SanitizerOutput, TheFirstFindingIsTheDetail) {
  const SanitizerCheck check = read_sanitizer_output("memcheck",
                                                     R"(========= COMPUTE-SANITIZER
========= Invalid __shared__ read of size 4 bytes
=========     at entry+0x150
=========     by thread (31,0,0) in block (2,0,0)
=========     Address 0x8004 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========
========= Invalid __shared__ read of size 4 bytes
=========     at entry+0x250
========= ERROR SUMMARY: 2 errors
)",
                                                     exited(0));
  EXPECT_EQ(check.outcome, Outcome::failed);
  EXPECT_EQ(check.detail,
            "Invalid __shared__ read of size 4 bytes at entry+0x150 by thread (31,0,0) in block (2,0,0) (2 in all)");
}

TEST(SanitizerOutput, RaceHazardsCountAsErrorsAndWarningsDoNot) {
  const std::string hazard = R"OUT(========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at entry+0x110
=========     and Read access at entry+0x1a0 [32 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
)OUT";
  const SanitizerCheck check = read_sanitizer_output("racecheck", hazard, exited(0));
  EXPECT_EQ(check.outcome, Outcome::failed);
  EXPECT_EQ(check.detail,
            "Error: Race reported between Write access at entry+0x110 and Read access at entry+0x1a0 [32 hazards] "
            "(1 in all)");
  EXPECT_EQ(read_sanitizer_output("racecheck",
                                  "========= Warning: Race reported between Write access at entry+0x110\n"
                                  "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n",
                                  exited(0))
                .outcome,
            Outcome::passed);
}

TEST(SanitizerOutput, WhatCouldNotRunIsNotPassed) {
  const SanitizerCheck unsupported = read_sanitizer_output(
      "memcheck", "========= COMPUTE-SANITIZER\n========= Error: Device not supported\n", exited(1));
  EXPECT_EQ(unsupported.outcome, Outcome::not_run);
  EXPECT_EQ(unsupported.detail, "Error: Device not supported");
  ExitStatus timed_out;
  timed_out.timed_out = true;
  EXPECT_EQ(read_sanitizer_output("memcheck", "========= COMPUTE-SANITIZER\n", timed_out).outcome, Outcome::not_run);
  const SanitizerCheck no_device = read_sanitizer_output(
      "memcheck", "warpsmith-worker-cuda: no such CUDA device\n========= ERROR SUMMARY: 0 errors\n", exited(3));
  EXPECT_EQ(no_device.outcome, Outcome::not_run);
  EXPECT_EQ(no_device.detail, "warpsmith-worker-cuda: no such CUDA device");
  EXPECT_EQ(read_sanitizer_output("memcheck", "", exited(0)).outcome, Outcome::not_run);
}

TEST(SanitizerOutput, ARunThatFailsWithoutAFindingFails) {
  const SanitizerCheck check = read_sanitizer_output(
      "synccheck", "warpsmith-worker-cuda: cudaErrorLaunchTimeout\n========= ERROR SUMMARY: 0 errors\n", exited(1));
  EXPECT_EQ(check.outcome, Outcome::failed);
  EXPECT_EQ(check.detail, "the run itself failed: warpsmith-worker-cuda: cudaErrorLaunchTimeout");
}

TEST(SanitizerProblems, AreSmallAndMeetTheSameEdges) {
  const Problem small{1000, 64, 1023, Layout::tn};
  ASSERT_EQ(sanitizer_problems(small).size(), 1u);
  EXPECT_EQ(sanitizer_problems(small).front(), small);
  const Problem large{16384, 100, 5000, Layout::nt, ElementType::bf16};
  const auto problems = sanitizer_problems(large);
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_EQ(problems[0], (Problem{512, 100, 512 + 5000 % 512, Layout::nt, ElementType::bf16}));
  EXPECT_EQ(problems[1], (Problem{1024, 100, 1024 + 5000 % 1024, Layout::nt, ElementType::bf16}));
  EXPECT_EQ(problems[2], (Problem{2048, 100, 2048 + 5000 % 2048, Layout::nt, ElementType::bf16}));
  EXPECT_EQ(problems.back(), large);
  for (const std::int64_t size : {1024, 1025, 1536, 4095, 12345}) {
    for (const Problem& problem : sanitizer_problems(Problem{size, size, size})) {
      EXPECT_EQ(problem.m % 512, size % 512);
      EXPECT_LE(problem.m, size);
    }
  }
}

TEST(SanitizerReportTest, GroupsEqualOutcomes) {
  EXPECT_EQ(sanitizer_not_run("compute-sanitizer is not installed").describe(),
            "memcheck, racecheck, synccheck, initcheck not run (compute-sanitizer is not installed)");
  SanitizerReport report;
  report.checks = {{"memcheck", Outcome::passed, {}, 1},
                   {"racecheck", Outcome::failed, "Error: Race", 1},
                   {"synccheck", Outcome::passed, {}, 1}};
  EXPECT_EQ(report.describe(), "memcheck passed; racecheck failed (Error: Race); synccheck passed");
  ASSERT_NE(report.first_failure(), nullptr);
  EXPECT_EQ(report.first_failure()->tool, "racecheck");
  EXPECT_EQ(sanitizer_not_run("x").first_failure(), nullptr);
  const nlohmann::json json = report;
  EXPECT_EQ(json["checks"][1]["gate"], "sanitizer/racecheck");
  EXPECT_EQ(json["checks"][1]["outcome"], "failed");
}

// A stand-in for the tool that answers by the tool's name, as the real one is called.
TEST(RunSanitizer, CallsEveryToolAroundTheWorker) {
  const auto directory = std::filesystem::temp_directory_path() / ("warpsmith_sanitizer_" + std::to_string(getpid()));
  std::filesystem::create_directories(directory);
  const auto program = directory / "compute-sanitizer";
  std::ofstream(program) << R"SH(#!/bin/sh
[ "$1" = --tool ] || exit 9
for last; do :; done
grep -q '"problem":"64x64x64 nn f16 f32"' "$last" || exit 9
echo "========= COMPUTE-SANITIZER"
case $2 in
  racecheck) echo "========= Error: Race reported between Write access at k+0x1"
             echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)" ;;
  synccheck) sleep 60 ;;
  *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
)SH";
  chmod(program.c_str(), 0755);
  SanitizerOptions options;
  options.program = program;
  options.worker = "/bin/true";
  options.seconds = 0.5;
  Candidate candidate;
  candidate.launch = CudaLaunch{};
  const SanitizerReport report = run_sanitizer(Problem{64, 64, 64}, candidate, {}, options);
  ASSERT_EQ(report.checks.size(), 4u);
  EXPECT_EQ(report.checks[0].outcome, Outcome::passed) << report.checks[0].detail;
  EXPECT_EQ(report.checks[1].outcome, Outcome::failed) << report.checks[1].detail;
  EXPECT_EQ(report.checks[2].outcome, Outcome::not_run);
  EXPECT_EQ(report.checks[2].detail, "no end within 0.5 s");
  EXPECT_EQ(report.checks[3].outcome, Outcome::passed) << report.checks[3].detail;
  const SanitizerReport named = run_sanitizer("a task", {{"problem", "64x64x64 nn f16 f32"}}, options);
  EXPECT_EQ(named.problem, "a task");
  EXPECT_EQ(named.checks[0].outcome, Outcome::passed) << named.checks[0].detail;
  EXPECT_EQ(run_sanitizer("a task", {{"problem", "another"}}, options).checks[0].outcome, Outcome::not_run);
  candidate.launch = CpuLaunch{};
  EXPECT_EQ(run_sanitizer(Problem{64, 64, 64}, candidate, {}, options).checks[0].outcome, Outcome::not_run);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace warpsmith
