// The archive outlives its writers: killed at any moment, two at once, or with a full disk.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "archive/archive.h"
#include "fixtures.h"

namespace warpsmith {
namespace {

using testing::make_accepted;
using testing::make_scope;
using testing::open_archive;
using testing::TemporaryDirectory;

// A forked writer that acknowledges attempt numbers over a pipe; each attempt carries its number as its seed.
class Writer {
 public:
  explicit Writer(const std::function<void(const std::function<void(std::uint64_t)>&)>& body) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      body([&](std::uint64_t number) {
        if (write(ends[1], &number, sizeof number) != sizeof number) _exit(4);
      });
      _exit(0);
    }
    close(ends[1]);
    fd_ = ends[0];
  }
  ~Writer() {
    ::kill(pid_, SIGKILL);
    wait();
    close(fd_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }

  // Waits for the end; the exit code, or -1 when a signal ended it.
  int wait() {
    if (!ended_) waitpid(pid_, &status_, 0);
    ended_ = true;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

  // Everything acknowledged, once the writer has ended. Numbers are written whole: 8 bytes fit a pipe's atomic write.
  std::vector<std::uint64_t> acknowledged() const {
    std::vector<std::uint64_t> numbers;
    std::uint64_t number = 0;
    while (read(fd_, &number, sizeof number) == sizeof number) numbers.push_back(number);
    return numbers;
  }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

// Records attempts numbered from `first` until the end of `count`, acknowledging each after record() returned.
void record_numbers(const std::filesystem::path& path, std::uint64_t first, std::uint64_t count,
                    const std::function<void(std::uint64_t)>& acknowledge) {
  auto archive = Archive::open(path);
  if (!archive) _exit(2);
  for (std::uint64_t number = first; number < first + count; ++number) {
    AttemptRecord attempt = make_accepted(fmt::format("cpu tile={}", number), 1.0 + static_cast<double>(number));
    attempt.seed = number;
    if (!(*archive)->record(make_scope(), attempt)) _exit(3);
    acknowledge(number);
  }
}

std::set<std::uint64_t> recorded_numbers(Archive& archive) {
  std::set<std::uint64_t> numbers;
  const auto history = archive.history(make_scope());
  EXPECT_TRUE(history.ok()) << history.error().message;
  for (const AttemptRecord& attempt : history.value()) {
    EXPECT_TRUE(numbers.insert(attempt.seed).second) << "recorded twice: " << attempt.seed;
  }
  return numbers;
}

TEST(Kill, LosesNothingThatWasAcknowledged) {
  const TemporaryDirectory directory;
  const auto path = directory / "archive.db";
  std::mt19937_64 random(1);
  std::set<std::uint64_t> acknowledged;
  constexpr int kRounds = 30;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Writer writer([&](const auto& acknowledge) { record_numbers(path, round * 1'000'000, 1'000'000, acknowledge); });
    std::this_thread::sleep_for(std::chrono::microseconds(5'000 + random() % 75'000));
    writer.kill();
    EXPECT_EQ(writer.wait(), -1) << "ended by itself";
    for (const std::uint64_t number : writer.acknowledged()) acknowledged.insert(number);

    const auto archive = open_archive(path);
    const Status sound = archive->check_integrity();
    ASSERT_TRUE(sound.ok()) << sound.error().message;
    const auto recorded = recorded_numbers(*archive);
    for (const std::uint64_t number : acknowledged) ASSERT_TRUE(recorded.count(number)) << number;
    // At most one attempt a round was committed without its acknowledgement getting out.
    EXPECT_LE(recorded.size(), acknowledged.size() + round + 1);
  }
  EXPECT_GT(acknowledged.size(), std::size_t{kRounds});
}

TEST(Kill, WhileTheArchiveIsBeingCreated) {
  const TemporaryDirectory directory;
  std::mt19937_64 random(2);
  for (int round = 0; round < 40; ++round) {
    const auto path = directory / fmt::format("archive-{}", round);
    Writer writer([&](const auto& acknowledge) { record_numbers(path, 0, 1'000'000, acknowledge); });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
    writer.kill();
    writer.wait();
    const auto acknowledged = writer.acknowledged();
    const auto archive = Archive::open(path);
    ASSERT_TRUE(archive.ok()) << archive.error().message;
    ASSERT_TRUE((*archive)->check_integrity().ok());
    const auto recorded = recorded_numbers(**archive);
    for (const std::uint64_t number : acknowledged) EXPECT_TRUE(recorded.count(number)) << number;
  }
}

TEST(Concurrency, ProcessesShareOneArchive) {
  const TemporaryDirectory directory;
  const auto path = directory / "archive.db";
  constexpr std::uint64_t kEach = 150;
  // Nobody made the file beforehand: creation races too.
  std::vector<std::unique_ptr<Writer>> writers;
  for (std::uint64_t w = 0; w < 3; ++w) {
    writers.push_back(
        std::make_unique<Writer>([&](const auto& acknowledge) { record_numbers(path, w * 1000, kEach, acknowledge); }));
  }
  for (const auto& writer : writers) {
    EXPECT_EQ(writer->wait(), 0);
    EXPECT_EQ(writer->acknowledged().size(), kEach);
  }
  const auto archive = open_archive(path);
  EXPECT_EQ(recorded_numbers(*archive).size(), 3 * kEach);
  EXPECT_EQ(archive->scopes().value().size(), 1u);
  EXPECT_TRUE(archive->check_integrity().ok());
}

TEST(Concurrency, AReaderSeesAnotherProcesssRecords) {
  const TemporaryDirectory directory;
  const auto path = directory / "archive.db";
  const auto archive = open_archive(path);
  Writer writer([&](const auto& acknowledge) { record_numbers(path, 0, 5, acknowledge); });
  ASSERT_EQ(writer.wait(), 0);
  EXPECT_EQ(recorded_numbers(*archive).size(), 5u);
}

// A limit on the size of files stands in for a full disk: writes beyond it fail in the same place.
TEST(DiskFull, IsAnEnvironmentErrorAndKeepsOldRecords) {
  const TemporaryDirectory directory;
  const auto path = directory / "archive.db";
  {
    const auto archive = open_archive(path);
    for (std::uint64_t number = 0; number < 20; ++number) {
      AttemptRecord attempt = make_accepted("cpu", 2);
      attempt.seed = 1'000'000 + number;
      ASSERT_TRUE(archive->record(make_scope(), attempt).ok());
    }
  }
  Writer writer([&](const auto& acknowledge) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{200'000, 200'000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
    auto archive = Archive::open(path);
    if (!archive) _exit(11);
    for (std::uint64_t number = 0; number < 10'000; ++number) {
      AttemptRecord attempt = make_accepted("cpu", 2);
      attempt.seed = number;
      const Status status = (*archive)->record(make_scope(), attempt);
      if (status.ok()) {
        acknowledge(number);
        continue;
      }
      if (status.error().kind != ErrorKind::environment) _exit(12);
      if (status.error().message.find(fmt::format("archive {}", path.string())) == std::string::npos) _exit(13);
      // Reading goes on.
      const auto history = (*archive)->history(make_scope());
      _exit(history.ok() && history->size() == 20 + number ? 20 : 14);
    }
    _exit(15);
  });
  EXPECT_EQ(writer.wait(), 20);
  const auto acknowledged = writer.acknowledged();
  EXPECT_GT(acknowledged.size(), 10u);
  const auto archive = open_archive(path);
  EXPECT_TRUE(archive->check_integrity().ok());
  const auto recorded = recorded_numbers(*archive);
  EXPECT_EQ(recorded.size(), 20 + acknowledged.size());
  for (const std::uint64_t number : acknowledged) EXPECT_TRUE(recorded.count(number)) << number;
  EXPECT_TRUE(archive->record(make_scope(), make_accepted("cpu", 1)).ok()) << "space again";
}

}  // namespace
}  // namespace warpsmith
