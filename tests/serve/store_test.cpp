// The store: who is queued, in which order, what becomes of them, and that nothing is lost when the process is killed.
#include "serve/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "archive/sqlite.h"
#include "support.h"

namespace warpsmith::serve {
namespace {

using testing::numbered;
using testing::open_store;
using testing::TemporaryDirectory;

constexpr std::int64_t kMost = 1000;

std::vector<Receipt> accept(Store& store, const std::vector<Submission>& submissions) {
  const auto acceptance = store.accept(submissions, kMost);
  EXPECT_TRUE(acceptance.ok()) << acceptance.error().message;
  return acceptance->receipts;
}

Job claim(Store& store, const std::string& device = "cpu") {
  const auto job = store.claim(device);
  EXPECT_TRUE(job.ok()) << job.error().message;
  return job->value_or(Job{});
}

JobState state(Store& store, const std::string& id) { return store.state(id).value().value(); }

TEST(Store, AnEqualCandidateIsQueuedOnce) {
  const TemporaryDirectory directory;
  const auto store = open_store(directory / "queue");
  const Submission one = numbered(0);
  auto receipts = accept(*store, {one, numbered(1), one});
  ASSERT_EQ(receipts.size(), 3u);
  EXPECT_FALSE(receipts[0].duplicate);
  EXPECT_FALSE(receipts[1].duplicate);
  EXPECT_TRUE(receipts[2].duplicate);
  EXPECT_TRUE(accept(*store, {one})[0].duplicate) << "while it waits";
  EXPECT_EQ(claim(*store).id, one.id);
  receipts = accept(*store, {one});
  EXPECT_TRUE(receipts[0].duplicate) << "while it runs";
  EXPECT_EQ(receipts[0].state, JobState::running);
  ASSERT_TRUE(store->finish(one.id, R"({"x":1})").ok());
  receipts = accept(*store, {one});
  EXPECT_TRUE(receipts[0].duplicate) << "when it is done";
  EXPECT_EQ(receipts[0].state, JobState::done);
  EXPECT_EQ(store->find(one.id)->value().measured, 1);
  EXPECT_EQ(store->find(one.id)->value().outcome, R"({"x":1})");

  Submission again = one;
  again.remeasure = true;
  receipts = accept(*store, {again});
  EXPECT_FALSE(receipts[0].duplicate);
  EXPECT_EQ(claim(*store).id, numbered(1).id) << "it is the last one now";
  EXPECT_EQ(claim(*store).id, one.id);
  ASSERT_TRUE(store->finish(one.id, "{}").ok());
  EXPECT_EQ(store->find(one.id)->value().measured, 2);
}

TEST(Store, HighPrioritiesThenNearDeadlinesThenFirstCome) {
  const TemporaryDirectory directory;
  const auto store = open_store(directory / "queue");
  std::vector<Submission> list;
  for (int i = 0; i < 6; ++i) list.push_back(numbered(i));
  list[2].priority = 5;
  list[3].deadline_seconds = 1000;
  list[4].deadline_seconds = 500;
  list[5].priority = -1;
  accept(*store, list);
  list[1].priority = 9;  // a duplicate raises what waits, and never lowers it
  EXPECT_TRUE(accept(*store, {list[1]})[0].duplicate);
  list[1].priority = -50;
  EXPECT_TRUE(accept(*store, {list[1]})[0].duplicate);
  for (const int expected : {1, 2, 4, 3, 0, 5})
    EXPECT_EQ(claim(*store).id, list[static_cast<std::size_t>(expected)].id);
  EXPECT_EQ(claim(*store).id, "");
}

TEST(Store, DeadlinesPass) {
  const TemporaryDirectory directory;
  const auto store = open_store(directory / "queue");
  Submission hasty = numbered(0), patient = numbered(1);
  hasty.deadline_seconds = 0.01;
  patient.deadline_seconds = 0.01;
  accept(*store, {hasty, patient});
  patient.deadline_seconds = 100;
  EXPECT_TRUE(accept(*store, {patient})[0].duplicate);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(claim(*store).id, patient.id) << "the other one is too late";
  EXPECT_EQ(store->expire().value(), std::vector<std::string>{hasty.id});
  EXPECT_EQ(state(*store, hasty.id), JobState::expired);
  hasty.deadline_seconds.reset();
  EXPECT_FALSE(accept(*store, {hasty})[0].duplicate) << "asking again queues again";
  EXPECT_EQ(claim(*store).id, hasty.id);
}

TEST(Store, AFullQueueTakesAllOrNothing) {
  const TemporaryDirectory directory;
  const auto store = open_store(directory / "queue");
  ASSERT_EQ(store->accept({numbered(0), numbered(1)}, 3)->receipts.size(), 2u);
  EXPECT_TRUE(store->accept({numbered(2), numbered(3)}, 3)->receipts.empty());
  EXPECT_FALSE(store->find(numbered(2).id)->has_value());
  EXPECT_EQ(store->accept({numbered(2), numbered(0)}, 3)->receipts.size(), 2u);
  EXPECT_EQ(store->accept({numbered(1)}, 3)->receipts.size(), 1u) << "duplicates need no room";
}

TEST(Store, AFailingEnvironmentIsTriedAFewTimes) {
  const TemporaryDirectory directory;
  const auto store = open_store(directory / "queue");
  const Submission one = numbered(0);
  accept(*store, {one});
  for (int attempt = 1; attempt < kMostTries; ++attempt) {
    claim(*store);
    EXPECT_EQ(store->give_up(one.id, "no GPU").value(), JobState::queued);
  }
  claim(*store);
  EXPECT_EQ(store->give_up(one.id, "no GPU").value(), JobState::failed);
  EXPECT_EQ(store->find(one.id)->value().outcome, "no GPU");
  EXPECT_EQ(claim(*store).id, "");
  EXPECT_FALSE(accept(*store, {one})[0].duplicate);
  EXPECT_EQ(claim(*store).tries, 1);
  ASSERT_TRUE(store->release(one.id).ok());
  EXPECT_EQ(claim(*store).tries, 1) << "what was not begun is no try";
}

TEST(Store, DevicesShareTheWork) {
  const TemporaryDirectory directory;
  {
    const auto store = open_store(directory / "queue", {"cuda:0", "cuda:1"});
    Submission chosen = numbered(0);
    chosen.device = "cuda:1";
    accept(*store, {chosen, numbered(1), numbered(2), numbered(3)});
    EXPECT_EQ(store->counts().value().at("cuda:0").first, 2);
    EXPECT_EQ(store->counts().value().at("cuda:1").first, 2);
    EXPECT_EQ(claim(*store, "cuda:1").id, chosen.id);
    EXPECT_EQ(store->counts().value().at("cuda:1"), (std::pair<std::int64_t, std::int64_t>{1, 1}));
  }
  const auto store = open_store(directory / "queue", {"cuda:0"});
  EXPECT_EQ(store->counts().value().at("cuda:0").first, 4) << "a device that is gone leaves its work";
}

TEST(Store, JobsWaitForTheMachineThatTheyAreFor) {
  const TemporaryDirectory directory;
  const Site cpu = testing::cpu_site(), gpu = testing::cuda_site();
  Site more_threads = cpu;
  more_threads.threads = cpu.threads + 1;
  const auto on = [](const Site& site, const char* recipe) {
    return read_submission({{"problem", testing::kProblem}, {"recipe", recipe}}, site).value();
  };
  const Submission for_gpu = on(gpu, "sm90"), running = on(gpu, "sm80");
  {
    const auto store = open_store(directory / "queue", {"cuda:0", "cuda:1"}, gpu);
    Submission chosen = for_gpu;
    chosen.device = "cuda:1";
    accept(*store, {running});
    EXPECT_EQ(claim(*store, "cuda:0").id, running.id);
    accept(*store, {chosen});
    EXPECT_TRUE(store->elsewhere()->empty());
  }
  {
    const auto store = open_store(directory / "queue", {"cpu"}, cpu);
    EXPECT_EQ(store->elsewhere()->size(), 1u);
    EXPECT_EQ(store->elsewhere()->begin()->second, 2);
    EXPECT_NE(store->elsewhere()->begin()->first.find(gpu.machine.name), std::string::npos);
    EXPECT_EQ(store->counts()->size(), 1u) << "no device of another machine is shown";
    EXPECT_EQ(store->counts()->at("cpu").first, 0);
    EXPECT_EQ(claim(*store, "cpu").id, "");
    EXPECT_EQ(claim(*store, "cuda:1").id, "") << "a device of the same name is no better";
    EXPECT_EQ(store->accept({numbered(0)}, 1)->queued, 1) << "others take no place in this one's queue";
    EXPECT_EQ(claim(*store).id, numbered(0).id);
    ASSERT_TRUE(store->release(numbered(0).id).ok());
  }
  {
    const auto store = open_store(directory / "queue", {"cpu"}, more_threads);
    EXPECT_EQ(claim(*store).id, "") << "another number of threads is another site";
    EXPECT_EQ(store->elsewhere()->size(), 2u);
  }
  const auto store = open_store(directory / "queue", {"cuda:0", "cuda:1"}, gpu);
  EXPECT_EQ(claim(*store, "cuda:1").id, for_gpu.id) << "its own device, untouched by the servers in between";
  EXPECT_EQ(claim(*store, "cuda:0").id, running.id);
}

// As version 1 left it: no site, which the identities of the jobs give away.
TEST(Store, OpensAnOlderQueue) {
  const TemporaryDirectory directory;
  const auto path = directory / "queue";
  const Submission here = numbered(0), done = numbered(1);
  const Submission there =
      read_submission({{"problem", testing::kProblem}, {"recipe", "sm90"}}, testing::cuda_site()).value();
  {
    sqlite::Database old(path, "queue");
    old.execute(
        "CREATE TABLE jobs(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, device TEXT NOT NULL, problem TEXT NOT "
        "NULL, name TEXT NOT NULL, source TEXT NOT NULL, descriptor TEXT NOT NULL, tokens INTEGER NOT NULL, priority "
        "INTEGER NOT NULL, deadline REAL NOT NULL, state TEXT NOT NULL, tries INTEGER NOT NULL, measured INTEGER NOT "
        "NULL, accepted REAL NOT NULL, finished REAL, outcome TEXT NOT NULL);"
        "CREATE INDEX jobs_in_order ON jobs(state, device, priority DESC, deadline, seq);"
        "CREATE TABLE baselines(machine TEXT NOT NULL, problem TEXT NOT NULL, time_us REAL NOT NULL, name TEXT NOT "
        "NULL, PRIMARY KEY(machine, problem));"
        "PRAGMA application_id = 2004054321; PRAGMA user_version = 1");
    const auto insert = [&](const Submission& one, const char* device, const char* state) {
      old.execute("INSERT INTO jobs VALUES(NULL, '" + one.id + "', '" + device + "', '" + testing::kProblem + "', '" +
                  one.name + "', '', '', 3, 0, 1e300, '" + state + "', 1, 0, 5, NULL, '{}')");
    };
    insert(here, "cpu", "running");
    insert(there, "cuda:0", "queued");
    insert(done, "cpu", "done");
  }
  {
    const auto store = open_store(path);
    EXPECT_EQ(state(*store, here.id), JobState::queued);
    EXPECT_EQ(state(*store, done.id), JobState::done);
    EXPECT_TRUE(accept(*store, {done})[0].duplicate);
    ASSERT_EQ(store->elsewhere()->size(), 1u);
    EXPECT_EQ(store->elsewhere()->begin()->second, 1);
    EXPECT_EQ(claim(*store).id, here.id);
    EXPECT_EQ(claim(*store).id, "") << "what is not known to be this machine's stays";
    ASSERT_TRUE(store->finish(here.id, "{}").ok());
  }
  const auto store = open_store(path, {"cuda:0"}, testing::cuda_site());
  EXPECT_TRUE(store->elsewhere()->empty());
  EXPECT_EQ(claim(*store, "cuda:0").id, there.id);
}

TEST(Store, KeepsWhatSpeedUpsReferTo) {
  const TemporaryDirectory directory;
  {
    const auto store = open_store(directory / "queue");
    EXPECT_FALSE(store->reference("m", "p")->has_value());
    ASSERT_TRUE(store->keep_reference("m", "p", {12.5, "openblas"}).ok());
  }
  const auto store = open_store(directory / "queue");
  EXPECT_EQ(store->reference("m", "p")->value().time_us, 12.5);
  EXPECT_EQ(store->reference("m", "p")->value().name, "openblas");
  EXPECT_FALSE(store->reference("m", "q")->has_value());
}

TEST(Store, RefusesForeignFilesAndASecondServer) {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& name) {
    const auto store = Store::open(directory / name, testing::cpu_site(), {"cpu"});
    EXPECT_FALSE(store.ok());
    return store ? std::string() : store.error().message;
  };
  std::ofstream(directory / "text") << "hello";
  EXPECT_NE(refused("text").find("another kind of file"), std::string::npos);
  ASSERT_TRUE(Archive::open(directory / "archive").ok());
  EXPECT_NE(refused("archive").find("is not a queue"), std::string::npos);
  const auto store = open_store(directory / "queue");
  EXPECT_NE(refused("queue").find("belongs to a server that runs"), std::string::npos);
}

// A server that is killed while it accepts and measures: each acceptance that it reported is there afterwards, once.
TEST(Store, LosesNothingWhenKilled) {
  const TemporaryDirectory directory;
  const auto path = directory / "queue";
  std::mt19937 random(3);
  std::vector<bool> acknowledged(45, false), finished(45, false);
  for (int round = 0; round < 12; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto store = open_store(path);
      for (int i = round * 7 % 45;; i = (i + 1) % 45) {
        if (!store->accept({numbered(i)}, kMost)) _exit(1);
        if (write(ends[1], &i, sizeof i) != sizeof i) _exit(1);
        const auto job = store->claim("cpu");
        if (job && *job && i % 3 == 0 && !store->finish((*job)->id, "{}")) _exit(1);
        if (job && *job && i % 3 == 1 && !store->release((*job)->id)) _exit(1);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 40));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ends[1]);
    for (int i = 0; read(ends[0], &i, sizeof i) == sizeof i;) acknowledged[static_cast<std::size_t>(i)] = true;
    close(ends[0]);
    const auto store = open_store(path);
    for (std::size_t i = 0; i < acknowledged.size(); ++i) {
      if (!acknowledged[i]) continue;
      const auto job = store->find(numbered(static_cast<int>(i)).id);
      ASSERT_TRUE(job.ok() && job->has_value()) << i;
      EXPECT_NE((*job)->state, JobState::running);
      EXPECT_TRUE(!finished[i] || (*job)->state == JobState::done) << i;
      finished[i] = (*job)->state == JobState::done;
    }
  }
  EXPECT_GT(std::count(acknowledged.begin(), acknowledged.end(), true), 5);
}

TEST(Store, ACandidateThatEndsTheServerEachTimeIsGivenUp) {
  const TemporaryDirectory directory;
  const auto path = directory / "queue";
  accept(*open_store(path), {numbered(0)});
  for (int round = 0; round < kMostTries; ++round) {
    const auto store = open_store(path);
    EXPECT_EQ(claim(*store).tries, round + 1);
  }
  const auto store = open_store(path);
  EXPECT_EQ(state(*store, numbered(0).id), JobState::failed);
}

}  // namespace
}  // namespace warpsmith::serve
