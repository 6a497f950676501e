// Child processes: output, limits, timeouts, signals, channels.
#include "base/subprocess.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace warpsmith {
namespace {

ProcessRequest shell(const std::string& script) {
  ProcessRequest request;
  request.argv = {"sh", "-c", script};
  return request;
}

ProcessOutput must_run(const ProcessRequest& request) {
  const auto output = run_process(request);
  EXPECT_TRUE(output.ok()) << (output.ok() ? "" : output.error().message);
  return output.ok() ? *output : ProcessOutput{};
}

// An orphan is reaped by init, or stays a zombie where there is none: gone or zombie both mean dead.
bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
}

bool dies_soon(pid_t pid) {
  for (int i = 0; i < 300 && alive(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return !alive(pid);
}

TEST(RunProcess, SeparatesOutputAndError) {
  const auto output = must_run(shell("echo out; echo err >&2; exit 7"));
  EXPECT_EQ(output.out, "out\n");
  EXPECT_EQ(output.err, "err\n");
  EXPECT_EQ(output.status.exit_code, 7);
  EXPECT_FALSE(output.status.success());
  EXPECT_EQ(output.status.describe(), "exit code 7");
}

TEST(RunProcess, PassesLargeInput) {
  ProcessRequest request = shell("wc -c");
  request.stdin_text.assign(3 << 20, 'x');
  EXPECT_EQ(std::stol(must_run(request).out), 3 << 20);
}

TEST(RunProcess, InputThatNobodyReadsDoesNotBlock) {
  ProcessRequest request = shell("exit 0");
  request.stdin_text.assign(8 << 20, 'x');
  EXPECT_TRUE(must_run(request).status.success());
}

TEST(RunProcess, KeepsOnlyTheStartOfHugeOutput) {
  ProcessRequest request = shell("head -c 50000000 /dev/zero; echo done >&2");
  request.limits.output_bytes = 1000;
  const auto output = must_run(request);
  EXPECT_TRUE(output.status.success());
  EXPECT_EQ(output.out.size(), 1000u);
  EXPECT_EQ(output.err, "done\n");
}

TEST(RunProcess, KillsTheWholeGroupAtTheWallLimit) {
  const auto file = std::filesystem::temp_directory_path() / ("warpsmith_pid_" + std::to_string(getpid()));
  ProcessRequest request = shell("sleep 60 & echo $! > " + file.string() + "; wait");
  request.limits.wall_seconds = 0.4;
  const auto output = must_run(request);
  EXPECT_TRUE(output.status.timed_out);
  EXPECT_EQ(output.status.describe(), "timed out");
  EXPECT_LT(output.seconds, 5);
  pid_t grandchild = 0;
  std::ifstream(file) >> grandchild;
  std::filesystem::remove(file);
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(dies_soon(grandchild));
}

TEST(RunProcess, DoesNotWaitForABackgroundProcessThatHoldsThePipe) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(must_run(shell("sleep 60 & echo here")).out, "here\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(RunProcess, ReportsTheSignal) {
  const auto output = must_run(shell("kill -SEGV $$"));
  EXPECT_EQ(output.status.signal, SIGSEGV);
  EXPECT_EQ(output.status.describe(), "signal 11 (Segmentation fault)");
}

TEST(RunProcess, LimitsTheLargestFile) {
  const auto file = std::filesystem::temp_directory_path() / ("warpsmith_big_" + std::to_string(getpid()));
  ProcessRequest request = shell("head -c 100000 /dev/zero > " + file.string());
  request.limits.file_bytes = 5000;
  EXPECT_FALSE(must_run(request).status.success());
  EXPECT_LE(std::filesystem::file_size(file), 5000u);
  std::filesystem::remove(file);
}

// A lower limit that the user has set is neither raised nor an error.
TEST(RunProcess, KeepsLowerLimits) {
  const auto lowered = [] {
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    ProcessRequest request = shell("f=$(mktemp); head -c 8000 /dev/zero > $f; s=$?; rm -f $f; exit $s");
    request.limits.file_bytes = 1u << 20;
    const auto output = run_process(request);
    if (!output.ok()) return 3;
    return output->status.success() ? 4 : 0;
  };
  EXPECT_EXIT(std::_Exit(lowered()), testing::ExitedWithCode(0), "");
}

TEST(RunProcess, LimitsMemory) {
  ProcessRequest request = shell("head -c 200000000 /dev/zero | tail -c 190000000 | wc -c");
  request.limits.memory_bytes = 100u << 20;
  EXPECT_NE(must_run(request).out, "190000000\n");
}

TEST(RunProcess, ChangesEnvironmentAndDirectory) {
  setenv("WARPSMITH_TEST_GONE", "1", 1);
  ProcessRequest request = shell("echo $WARPSMITH_TEST_SET-$WARPSMITH_TEST_GONE; pwd");
  request.environment = {{"WARPSMITH_TEST_SET", "yes"}, {"WARPSMITH_TEST_GONE", std::nullopt}};
  request.working_directory = "/";
  EXPECT_EQ(must_run(request).out, "yes-\n/\n");
}

TEST(RunProcess, LeaksNoDescriptor) {
  const int leaky = dup(0);                                           // without close-on-exec
  EXPECT_EQ(must_run(shell("ls /proc/self/fd | wc -l")).out, "4\n");  // 0, 1, 2 and the directory itself
  close(leaky);
}

TEST(RunProcess, SaysWhatCannotBeStarted) {
  ProcessRequest request;
  request.argv = {"no-such-program-anywhere"};
  auto output = run_process(request);
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.error().kind, ErrorKind::environment);
  EXPECT_NE(output.error().message.find("no-such-program-anywhere"), std::string::npos);
  request.argv = {"/etc/passwd"};
  output = run_process(request);
  ASSERT_FALSE(output.ok());
  EXPECT_NE(output.error().message.find("Permission denied"), std::string::npos);
}

ChildProcess::Options worker(const std::string& script) {
  ChildProcess::Options options;
  options.argv = {"sh", "-c", script};
  return options;
}

TEST(ChildProcessTest, ExchangesLinesApartFromItsPrinting) {
  auto child = ChildProcess::spawn(worker("echo forged; while read line <&3; do echo \"got $line\" >&3; done"));
  ASSERT_TRUE(child.ok());
  std::string line;
  for (const std::string word : {"one", "two"}) {
    ASSERT_TRUE(child->send(word));
    ASSERT_EQ(child->receive(line, 10), ChildProcess::Receive::line);
    EXPECT_EQ(line, "got " + word);
  }
}

TEST(ChildProcessTest, TellsTimeoutFromEnd) {
  auto child = ChildProcess::spawn(worker("sleep 0.3; exit 5"));
  ASSERT_TRUE(child.ok());
  std::string line;
  EXPECT_EQ(child->receive(line, 0.05), ChildProcess::Receive::timeout);
  EXPECT_FALSE(child->wait_for(0.01).has_value());
  EXPECT_EQ(child->receive(line, 10), ChildProcess::Receive::closed);
  EXPECT_EQ(child->wait().exit_code, 5);
  EXPECT_EQ(child->wait().exit_code, 5);
  EXPECT_FALSE(child->send("anybody?"));
}

TEST(ChildProcessTest, KillIsSeenAsASignal) {
  auto child = ChildProcess::spawn(worker("sleep 60"));
  ASSERT_TRUE(child.ok());
  child->kill();
  EXPECT_EQ(child->wait().signal, SIGKILL);
}

TEST(ChildProcessTest, DestructionEndsTheChild) {
  pid_t pid = 0;
  {
    auto child = ChildProcess::spawn(worker("sleep 60"));
    ASSERT_TRUE(child.ok());
    ChildProcess moved = std::move(*child);
    pid = moved.pid();
    EXPECT_TRUE(alive(pid));
  }
  EXPECT_FALSE(alive(pid));
}

TEST(ChildProcessTest, WritesItsPrintingToTheLog) {
  const auto log = std::filesystem::temp_directory_path() / ("warpsmith_log_" + std::to_string(getpid()));
  auto options = worker("echo printed; echo complained >&2");
  options.log = log;
  auto child = ChildProcess::spawn(options);
  ASSERT_TRUE(child.ok());
  EXPECT_TRUE(child->wait().success());
  std::ifstream file(log);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "printed\ncomplained\n");
  std::filesystem::remove(log);
}

TEST(ChildProcessTest, DiesWithItsParent) {
  // The child is a shell that becomes a parent's stand-in: it is killed, and its own worker must go too. A process of
  // its own is needed, since the parent here is this test.
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    auto child = ChildProcess::spawn(worker("sleep 60"));
    const pid_t pid = child.ok() ? child->pid() : 0;
    [[maybe_unused]] const ssize_t put = write(report[1], &pid, sizeof pid);
    pause();
    _exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(report[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  close(report[0]);
  close(report[1]);
  ASSERT_GT(grandchild, 0);
  ::kill(middle, SIGKILL);
  EXPECT_TRUE(dies_soon(grandchild));
}

}  // namespace
}  // namespace warpsmith
