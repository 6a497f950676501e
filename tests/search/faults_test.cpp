// A search of 200 candidates while workers are killed, the driver fails, the disk fills up and the user interrupts:
// every verdict is in the archive once, and none is wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "base/hash.h"
#include "evaluate/evaluator.h"
#include "search/optimize.h"

#ifndef WARPSMITH_TEST_FAULTY_WORKER
#error "the build names the worker executable"
#endif

#include "test_machine.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kWanted = 200;

// What a recipe's candidate does, and the verdict it deserves.
struct Nature {
  const char* key;
  const char* verdict;
};
Nature nature_of(const std::string& recipe) {
  const int draw = std::stoi(sha256_hex(recipe).substr(0, 2), nullptr, 16);
  if (draw < 40) return {"zeros", "wrong"};
  if (draw < 55) return {"crashing", "crashed"};
  if (draw < 70) return {"straying", "wrong"};
  return {"honest", "accepted"};
}

// Through the real evaluator and its worker processes; nothing is compiled.
class WorkerTrials final : public Trials {
 public:
  WorkerTrials(const Problem& problem, const Machine& machine, Evaluator& evaluator)
      : problem_(problem), machine_(machine), evaluator_(evaluator) {}
  const Machine& machine() const override { return machine_; }
  int wanted() const override { return queue_.empty() ? 1 : 0; }
  void submit(const Recipe& recipe) override { queue_.push_back(recipe); }
  bool pending() const override { return !queue_.empty(); }
  Trial next(double) override {
    const Recipe recipe = queue_.front();
    queue_.erase(queue_.begin());
    Artifact artifact;
    artifact.key = nature_of(to_string(recipe)).key;
    Candidate candidate;
    candidate.launch = CpuLaunch{"kernel", 1, 0, {}};
    return {recipe, evaluator_.evaluate(problem_, candidate, artifact, 0, {0.001, 3}), artifact.key, 0};
  }

 private:
  Problem problem_;
  Machine machine_;
  Evaluator& evaluator_;
  std::vector<Recipe> queue_;
};

// Kills this process's workers at random moments for as long as it lives.
class Killer {
 public:
  Killer()
      : thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(20, 400)(random_)));
            for (const pid_t worker : workers()) {
              if (::kill(worker, SIGKILL) == 0) ++killed_;
            }
          }
        }) {}
  int killed() const { return killed_; }

 private:
  static std::vector<pid_t> workers() {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      std::ifstream file(entry.path() / "stat");
      std::string text;
      if (!std::getline(file, text)) continue;
      // pid (name) state parent ...
      const auto open = text.find('('), close = text.rfind(')');
      if (open == std::string::npos || close == std::string::npos || close + 4 > text.size()) continue;
      const bool worker = text.compare(open + 1, 11, "warpsmith-f") == 0;
      if (worker && std::atoi(text.c_str() + close + 4) == getpid()) found.push_back(std::atoi(text.c_str()));
    }
    return found;
  }

  std::atomic<int> killed_{0};
  std::mt19937 random_{std::random_device{}()};
  std::jthread thread_;
};

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-faults-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    options_.scope = {{.m = 6, .n = 10, .k = 64}, test_machine(), Target::cpu, 2};
    options_.budget_seconds = 120;
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path archive_path() const { return directory_ / "archive.sqlite"; }

  // One run of the search; its verdicts are counted as they are acknowledged.
  Result<OptimizeResult> search(Archive& archive, std::int64_t candidates, const std::atomic<bool>& stop) {
    EvaluatorOptions options;
    options.worker = WARPSMITH_TEST_FAULTY_WORKER;
    auto evaluator = Evaluator::start(options);
    if (!evaluator) return evaluator.error();
    WorkerTrials trials(options_.scope.problem, options_.scope.machine, **evaluator);
    options_.max_candidates = candidates;
    return optimize(
        options_, trials, archive, [this](const OptimizeProgress&) { ++acknowledged_; }, stop);
  }

  // The search in a process whose files may not grow beyond `bytes`: how many verdicts it acknowledged.
  std::int64_t search_on_a_small_disk(std::uint64_t bytes) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
      auto archive = Archive::open(archive_path());
      if (!archive) _exit(11);
      const auto result = search(**archive, 10'000, stop_);
      const bool said = !result.ok() && result.error().kind == ErrorKind::environment &&
                        result.error().message.find(archive_path().string()) != std::string::npos;
      if (write(ends[1], &acknowledged_, sizeof acknowledged_) != sizeof acknowledged_) _exit(12);
      _exit(said ? 20 : 13);
    }
    close(ends[1]);
    std::int64_t acknowledged = 0;
    EXPECT_EQ(read(ends[0], &acknowledged, sizeof acknowledged), static_cast<ssize_t>(sizeof acknowledged));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 20);
    return acknowledged;
  }

  fs::path directory_;
  OptimizeOptions options_;
  std::int64_t acknowledged_ = 0;
  std::atomic<bool> stop_{false};
};

std::int64_t settled(const std::vector<AttemptRecord>& history) {
  return std::count_if(history.begin(), history.end(),
                       [](const AttemptRecord& attempt) { return attempt.verdict.kind() != "failed"; });
}

TEST_F(Faults, EveryVerdictIsAccountedForAndNoneIsWrong) {
  const std::int64_t before = search_on_a_small_disk(240'000);
  EXPECT_GT(before, 5);
  auto opened = Archive::open(archive_path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Archive& archive = **opened;
  ASSERT_TRUE(archive.check_integrity().ok());
  EXPECT_EQ(archive.attempt_count().value(), before) << "what was acknowledged before the disk was full";

  int interruptions = 0, killed = 0;
  {
    Killer killer;
    std::mt19937 random(std::random_device{}());
    for (int run = 0; run < 200; ++run) {
      const auto history = archive.history(options_.scope);
      ASSERT_TRUE(history.ok());
      const std::int64_t left = kWanted - settled(*history);
      if (left <= 0) break;
      stop_ = false;
      std::jthread interrupt([&, wait = std::uniform_int_distribution<>(300, 1500)(random)] {
        std::this_thread::sleep_for(std::chrono::milliseconds(wait));
        stop_ = true;
      });
      const auto result = search(archive, left, stop_);
      // Failures in a row end a run, in words; the next one goes on.
      if (!result.ok()) {
        EXPECT_EQ(result.error().kind, ErrorKind::environment) << result.error().message;
      }
      if (result.ok() && result->interrupted) ++interruptions;
    }
    killed = killer.killed();
  }
  fmt::print("{} workers killed, {} interruptions\n", killed, interruptions);
  EXPECT_GT(killed, 0);
  EXPECT_GT(interruptions, 0);

  ASSERT_TRUE(archive.check_integrity().ok());
  const auto history = archive.history(options_.scope);
  ASSERT_TRUE(history.ok());
  EXPECT_GE(settled(*history), kWanted);
  EXPECT_GE(static_cast<std::int64_t>(history->size()), before + acknowledged_) << "a verdict was lost";
  std::map<std::string, int> verdicts;
  int driver_errors = 0;
  for (const AttemptRecord& attempt : *history) {
    if (const auto* failed = std::get_if<verdict::Failed>(&attempt.verdict.outcome)) {
      // Says what failed, and blames no candidate.
      const bool injected = failed->reason.find("injected driver error") != std::string::npos;
      driver_errors += injected ? 1 : 0;
      EXPECT_TRUE(injected || failed->reason.find("worker") != std::string::npos) << failed->reason;
      continue;
    }
    EXPECT_EQ(attempt.verdict.kind(), nature_of(attempt.recipe).verdict) << attempt.verdict.describe();
    EXPECT_EQ(++verdicts[attempt.recipe], 1) << "judged twice: " << attempt.recipe;
  }
  EXPECT_GT(driver_errors, 0);
}

}  // namespace
}  // namespace warpsmith
