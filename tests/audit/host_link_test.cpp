// The judge's end of the talk against a host that lies, dies, hangs, floods: each is a fault with its name, in bounded
// time and memory, and an honest one is served.
#include "audit/host_link.h"

#include <gtest/gtest.h>

#include <chrono>

namespace warpsmith::audit {
namespace {

HostLink start(const std::string& behaviour, HostLimits limits = {}) {
  HostLink::Options options;
  options.host = {WARPSMITH_FAKE_HOST, behaviour};
  options.limits = limits;
  auto link = HostLink::start(options);
  if (!link) throw EnvironmentError(link.error().message);
  return std::move(*link);
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(HostLink, ServesAnHonestHost) {
  HostLink link = start("honest");
  for (int i = 0; i < 3; ++i) {
    const auto reply = link.ask("run", {{"count", 1}}, 10);
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->body.at("code"), 0);
    EXPECT_GT(reply->seconds, 0);
  }
  EXPECT_EQ(link.take_stray_lines(), 0);
  EXPECT_FALSE(link.last_fault().has_value());
  ASSERT_TRUE(link.facts().has_value());
  EXPECT_EQ(link.facts()->threads, 1);
}

TEST(HostLink, KeepsItsOwnClock) {
  HostLink link = start("slow");
  const auto reply = link.ask("run", nlohmann::json::object(), 10);
  ASSERT_TRUE(reply.ok());
  EXPECT_GE(reply->seconds, 0.2);  // whatever the reply claims
}

struct Fault {
  const char* behaviour;
  HostFault fault;
  const char* words;
};

class HostFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(HostFaults, AreNamedAndEndTheProcess) {
  HostLimits limits;
  limits.threads = 20;
  limits.memory_bytes = 256 << 20;
  HostLink link = start(GetParam().behaviour, limits);
  // Only who hangs is waited for in full; a machine with other work may take long over the rest.
  const double patience = GetParam().fault == HostFault::hung ? 1.5 : 8;
  const double seconds = seconds_of([&] {
    const auto reply = link.ask("run", nlohmann::json::object(), patience);
    ASSERT_FALSE(reply.ok());
    EXPECT_NE(reply.error().message.find(GetParam().words), std::string::npos) << reply.error().message;
    EXPECT_LT(reply.error().message.size(), 400u);
    EXPECT_EQ(reply.error().message.find('\n'), std::string::npos);
  });
  EXPECT_LT(seconds, 10);
  ASSERT_TRUE(link.last_fault().has_value());
  EXPECT_EQ(to_string(*link.last_fault()), to_string(GetParam().fault));
  EXPECT_FALSE(link.ask("run", nlohmann::json::object(), 1).ok());
}

INSTANTIATE_TEST_SUITE_P(All, HostFaults,
                         ::testing::Values(Fault{"dies", HostFault::died, "signal 6"},
                                           Fault{"exits", HostFault::died, "exit code 0"},
                                           Fault{"hangs", HostFault::hung, "no answer within 1.5 s"},
                                           Fault{"closes", HostFault::lied, "closed the channel"},
                                           Fault{"floods", HostFault::flooded, "nobody asked for"},
                                           Fault{"endless-line", HostFault::lied, "closed the channel"},
                                           Fault{"threads", HostFault::greedy, "threads"},
                                           Fault{"hoards", HostFault::greedy, "MiB"}));

TEST(HostLink, NoticesForgedAnswers) {
  HostLink link = start("forges");
  ASSERT_TRUE(link.ask("run", nlohmann::json::object(), 10).ok());
  // The second answer comes right behind the first; the next command does not take it for its own.
  const auto reply = link.ask("run", nlohmann::json::object(), 10);
  ASSERT_TRUE(reply.ok());
  EXPECT_GE(link.take_stray_lines(), 1);
}

TEST(HostLink, TakesNoAnswerForAnother) {
  HostLink link = start("guesses");
  ASSERT_TRUE(link.ask("run", nlohmann::json::object(), 10).ok());
  EXPECT_EQ(link.take_stray_lines(), 5);
  EXPECT_EQ(link.take_stray_lines(), 0);
}

TEST(HostLink, SurvivesGarbage) {
  HostLink link = start("garbles");
  ASSERT_TRUE(link.ask("run", nlohmann::json::object(), 10).ok());
  EXPECT_EQ(link.take_stray_lines(), 5);
}

TEST(HostLink, RunsItsHostUnderTheLauncher) {
  HostLink::Options options;
  options.launcher = WARPSMITH_SANDBOX;
  options.launcher_arguments = {"--scratch", "/tmp", "--no-namespaces", "--readable", WARPSMITH_FAKE_HOST};
  options.host = {WARPSMITH_FAKE_HOST, "honest"};
  auto link = HostLink::start(options);
  ASSERT_TRUE(link.ok()) << link.error().message;
  EXPECT_TRUE(link->ask("run", nlohmann::json::object(), 10).ok());
  EXPECT_TRUE(link->confinement().has(measure::kNoNewPrivileges));
  EXPECT_GT(link->pid(), 0);
}

TEST(HostLink, SaysWhyItCannotStart) {
  HostLink::Options options;
  options.host = {"/nonexistent/host"};
  const auto link = HostLink::start(options);
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.error().kind, ErrorKind::environment);
}

}  // namespace
}  // namespace warpsmith::audit
