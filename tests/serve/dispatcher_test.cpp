// The dispatcher over judges that need no device: answers, waits, priorities, retries, draining.
#include "serve/dispatcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "support.h"

namespace warpsmith::serve {
namespace {

using testing::numbered;
using testing::Script;
using namespace std::chrono_literals;

class DispatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.pause_seconds = 0.01;
    store_ = testing::open_store(directory_ / "queue");
  }
  void start(std::size_t devices = 1) {
    std::vector<ServedDevice> list;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < devices; ++i) {
      names.push_back(devices == 1 ? "cpu" : "cuda:" + std::to_string(i));
      list.push_back({names.back(), std::make_unique<testing::ScriptedJudge>(script_)});
    }
    if (devices > 1) {
      store_.reset();
      store_ = testing::open_store(directory_ / "queue", names);
    }
    dispatcher_ = Dispatcher::start(options_, std::move(list), *store_, metrics_);
  }
  std::vector<Receipt> submit(const std::vector<Submission>& submissions) {
    const auto acceptance = dispatcher_->submit(submissions);
    EXPECT_TRUE(acceptance.ok());
    return acceptance->receipts;
  }
  std::future<bool> wait(std::vector<std::string> ids, double seconds = 30) {
    auto promise = std::make_shared<std::promise<bool>>();
    auto future = promise->get_future();
    dispatcher_->wait_for(std::move(ids), seconds, [promise](bool all) { promise->set_value(all); });
    return future;
  }
  JobState state(const Submission& submission) { return store_->state(submission.id).value().value(); }

  testing::TemporaryDirectory directory_;
  DispatchOptions options_;
  Script script_;
  Metrics metrics_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(DispatcherTest, MeasuresEachCandidateOnce) {
  start();
  std::vector<std::string> ids;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      submit({numbered(i)});
      ids.push_back(numbered(i).id);
    }
  }
  EXPECT_TRUE(wait(ids).get());
  EXPECT_EQ(script_.order().size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(state(numbered(i)), JobState::done);
  EXPECT_TRUE(wait(ids).get()) << "of what has ended already";
  EXPECT_TRUE(wait({}).get());
}

TEST_F(DispatcherTest, WaitingEndsWhenTheTimeIsUp) {
  script_.close();
  start();
  submit({numbered(0)});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(wait({numbered(0).id}, 0.05).get());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_FALSE(wait({"unknown"}, 0.01).get());
  auto waiting = wait({numbered(0).id, numbered(0).id});
  script_.open();
  EXPECT_TRUE(waiting.get());
}

TEST_F(DispatcherTest, UrgentOnesOvertake) {
  script_.close();
  start();
  submit({numbered(0)});
  script_.wait_for(1);
  Submission urgent = numbered(3);
  urgent.priority = 10;
  submit({numbered(1), numbered(2), urgent});
  script_.open();
  EXPECT_TRUE(wait({numbered(1).id, numbered(2).id, urgent.id}).get());
  EXPECT_EQ(script_.order(),
            (std::vector<std::string>{numbered(0).name, urgent.name, numbered(1).name, numbered(2).name}));
}

TEST_F(DispatcherTest, DeadlinesArePassedOn) {
  script_.close();
  start();
  submit({numbered(0)});
  script_.wait_for(1);
  Submission hasty = numbered(1);
  hasty.deadline_seconds = 0.05;
  submit({hasty});
  EXPECT_TRUE(wait({hasty.id}).get()) << "expired is an end";
  EXPECT_EQ(state(hasty), JobState::expired);
  script_.open();
}

TEST_F(DispatcherTest, AFailingEnvironmentIsNoVerdict) {
  std::atomic<int> left{kMostTries - 1};
  script_.answer = [&](const Job&) -> Result<Outcome> {
    if (left-- > 0) return environment_error("the driver failed");
    return testing::accepted_outcome();
  };
  start();
  submit({numbered(0)});
  EXPECT_TRUE(wait({numbered(0).id}).get());
  EXPECT_EQ(state(numbered(0)), JobState::done);
  EXPECT_EQ(script_.order().size(), static_cast<std::size_t>(kMostTries));
  script_.answer = [](const Job&) -> Result<Outcome> { throw std::runtime_error("broken"); };
  submit({numbered(1)});
  EXPECT_TRUE(wait({numbered(1).id}).get());
  EXPECT_EQ(state(numbered(1)), JobState::failed);
  EXPECT_EQ(store_->find(numbered(1).id)->value().outcome, "broken");
}

// A store whose disk is full for a while.
class FullStore final : public Store {
 public:
  explicit FullStore(Store& store) : store_(store) {}
  std::atomic<int> failures{0};  // that are still to come, of finish() and give_up()

  Result<Acceptance> accept(const std::vector<Submission>& submissions, std::int64_t most) override {
    return store_.accept(submissions, most);
  }
  Result<std::optional<Job>> claim(const std::string& device) override { return store_.claim(device); }
  Status finish(const std::string& id, const std::string& outcome) override {
    if (failures-- > 0) return environment_error("the disk is full");
    return store_.finish(id, outcome);
  }
  Result<JobState> give_up(const std::string& id, const std::string& reason) override {
    if (failures-- > 0) return environment_error("the disk is full");
    return store_.give_up(id, reason);
  }
  Status release(const std::string& id) override { return store_.release(id); }
  Result<std::optional<Job>> find(const std::string& id) override { return store_.find(id); }
  Result<std::optional<JobState>> state(const std::string& id) override { return store_.state(id); }
  Result<std::vector<std::string>> expire() override { return store_.expire(); }
  Result<std::map<std::string, std::pair<std::int64_t, std::int64_t>>> counts() override { return store_.counts(); }
  Result<std::map<std::string, std::int64_t>> elsewhere() override { return store_.elsewhere(); }
  Result<std::optional<Reference>> reference(const std::string& machine, const std::string& problem) override {
    return store_.reference(machine, problem);
  }
  Status keep_reference(const std::string& machine, const std::string& problem, const Reference& reference) override {
    return store_.keep_reference(machine, problem, reference);
  }

 private:
  Store& store_;
};

TEST_F(DispatcherTest, AFullDiskCostsNoOutcome) {
  FullStore full(*store_);
  const auto start_on_full = [&] {
    std::vector<ServedDevice> list;
    list.push_back({"cpu", std::make_unique<testing::ScriptedJudge>(script_)});
    dispatcher_ = Dispatcher::start(options_, std::move(list), full, metrics_);
  };
  full.failures = 5;
  start_on_full();
  submit({numbered(0), numbered(1)});
  EXPECT_TRUE(wait({numbered(0).id, numbered(1).id}).get());
  EXPECT_EQ(state(numbered(0)), JobState::done);
  EXPECT_EQ(script_.count(numbered(0).name), 1) << "what was measured is kept, not measured again";

  // The same where the environment failed.
  script_.answer = [](const Job&) -> Result<Outcome> { return environment_error("no GPU"); };
  full.failures = 3;
  submit({numbered(2)});
  EXPECT_TRUE(wait({numbered(2).id}).get());
  EXPECT_EQ(state(numbered(2)), JobState::failed);
  EXPECT_EQ(script_.count(numbered(2).name), kMostTries);

  // A disk that stays full until the end: the next server measures it.
  script_.answer = [](const Job&) { return testing::accepted_outcome(); };
  full.failures = 1'000'000;
  submit({numbered(3)});
  script_.wait_for(2 + kMostTries + 1);
  dispatcher_->drain(0.05);
  EXPECT_EQ(state(numbered(3)), JobState::running);
  dispatcher_.reset();
  store_.reset();
  store_ = testing::open_store(directory_ / "queue");
  start();
  EXPECT_TRUE(wait({numbered(3).id}).get());
  EXPECT_EQ(state(numbered(3)), JobState::done);
}

TEST_F(DispatcherTest, DevicesWorkSideBySide) {
  script_.close();
  start(2);
  submit({numbered(0), numbered(1)});
  script_.wait_for(2);  // both at the same time
  script_.open();
  EXPECT_TRUE(wait({numbered(0).id, numbered(1).id}).get());
}

TEST_F(DispatcherTest, DrainsWhatIsWaitedForAndKeepsTheRest) {
  script_.close();
  start();
  submit({numbered(0)});
  script_.wait_for(1);
  submit({numbered(1), numbered(2), numbered(3)});
  auto waited = wait({numbered(1).id});
  std::thread opener([this] {
    std::this_thread::sleep_for(50ms);
    script_.open();
  });
  dispatcher_->drain(20);
  opener.join();
  EXPECT_TRUE(waited.get());
  EXPECT_EQ(state(numbered(0)), JobState::done);
  EXPECT_EQ(state(numbered(1)), JobState::done);
  EXPECT_EQ(state(numbered(3)), JobState::queued);
  EXPECT_FALSE(wait({numbered(3).id}).get()) << "at once";

  dispatcher_.reset();
  store_.reset();
  store_ = testing::open_store(directory_ / "queue");
  start();
  EXPECT_TRUE(wait({numbered(2).id, numbered(3).id}).get()) << "the next server goes on";
  EXPECT_EQ(script_.count(numbered(0).name), 1);
}

TEST_F(DispatcherTest, DrainingSendsClientsAwayInTheEnd) {
  script_.close();
  start();
  submit({numbered(0), numbered(1)});
  script_.wait_for(1);
  auto waited = wait({numbered(1).id});
  std::thread opener([this] {
    std::this_thread::sleep_for(300ms);
    script_.open();
  });
  dispatcher_->drain(0.05);
  opener.join();
  EXPECT_FALSE(waited.get());
  EXPECT_EQ(state(numbered(0)), JobState::done) << "what was being measured is finished";
  EXPECT_EQ(state(numbered(1)), JobState::queued);
}

TEST_F(DispatcherTest, ManyClientsAtOnce) {
  start();
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 16; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 30; ++i) {
        const Submission submission = numbered((c * 7 + i * 3) % 45);
        submit({submission});
        if (wait({submission.id}).get()) ++answered;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 16 * 30);
  EXPECT_EQ(script_.order().size(), 45u);
}

}  // namespace
}  // namespace warpsmith::serve
