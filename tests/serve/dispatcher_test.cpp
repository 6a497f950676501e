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
