// `warpsmith serve` as a process on the CPU target: real kernels and, through a worker that swaps them in, crashing and
// wrong ones; kill -9 and restart; SIGTERM; clients that want more than a verdict.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "archive/archive.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "client.h"

namespace warpsmith::serve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::Answer;
using testing::Client;

constexpr const char* kProblem = "48x40x56 nn f16 f32";
constexpr const char* kToken = "end-to-end-token-0123456789";
const std::string kAuthorization = std::string("Authorization: Bearer ") + kToken + "\r\n";

Json candidate(const std::string& recipe) { return {{"problem", kProblem}, {"recipe", recipe}}; }

class EndToEnd : public ::testing::Test {
 protected:
  // The program beside a worker that misbehaves: a program looks for its worker where it lies itself.
  void SetUp() override {
    std::string pattern = fs::path(WARPSMITH_CLI).parent_path() / "serve-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    program_ = home_ / "warpsmith";
    fs::create_hard_link(WARPSMITH_CLI, program_);
    fs::create_symlink(WARPSMITH_TEST_WORKER, home_ / "warpsmith-worker-cpu");
  }
  void TearDown() override {
    server_.reset();
    fs::remove_all(home_);
  }

  ChildProcess::Options options(const std::vector<std::string>& more) const {
    ChildProcess::Options child;
    child.argv = {program_.string(), "serve", "--target", "cpu", "--threads", "1", "--port", "0", "--effort", "1ms"};
    child.argv.insert(child.argv.end(), more.begin(), more.end());
    child.environment = {{"WARPSMITH_DATA", (home_ / "data").string()},
                         {"WARPSMITH_CACHE", (fs::temp_directory_path() / "warpsmith-cli-test-cache").string()},
                         {"WARPSMITH_SERVE_TOKEN", kToken}};
    child.log = home_ / "log";
    return child;
  }
  std::string log() const {
    const auto text = read_file(home_ / "log");
    return text ? *text : std::string();
  }
  void start(const std::vector<std::string>& more = {}) {
    server_.reset();
    fs::remove(home_ / "log");
    auto child = ChildProcess::spawn(options(more));
    ASSERT_TRUE(child.ok()) << child.error().message;
    server_ = std::make_unique<ChildProcess>(std::move(*child));
    constexpr std::string_view kPlace = "listening on http://127.0.0.1:";
    for (int i = 0; i < 6000; ++i) {
      const std::string text = log();
      if (const std::size_t at = text.find(kPlace);
          at != std::string::npos && text.find('\n', at) != std::string::npos) {
        port_ = std::atoi(text.c_str() + at + kPlace.size());
        return;
      }
      ASSERT_FALSE(server_->wait_for(0)) << text;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << log();
  }
  Answer ask(const std::string& method, const std::string& target, const std::string& body = "") const {
    return Client(port_).ask(method, target, body, kAuthorization);
  }
  Answer post(const Json& body, const std::string& target = "/v1/candidates") const {
    return ask("POST", target, body.dump());
  }
  // How often the archive says that each candidate was measured.
  std::map<std::string, int> attempts() const {
    std::map<std::string, int> counts;
    auto archive = Archive::open(home_ / "data" / "archive.sqlite");
    EXPECT_TRUE(archive.ok());
    const auto scopes = (*archive)->scopes();
    for (const Archive::Scope& scope : *scopes) {
      const auto summaries = (*archive)->summaries(scope);
      for (const AttemptSummary& attempt : *summaries) ++counts[attempt.recipe];
    }
    return counts;
  }

  fs::path home_, program_;
  std::unique_ptr<ChildProcess> server_;
  int port_ = 0;
};

TEST_F(EndToEnd, JudgesGoodWrongCrashingAndIllegalCandidates) {
  start();
  const std::string answer =
      "<|user|>Q<|assistant|>## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```recipe\ncpu simd=avx2 "
      "tile=4x1 block=8xallx256\n```<|im_end|>";
  const Json body = {
      {"wait_seconds", 300},
      {"candidates",
       {candidate("cpu simd=avx2 tile=4x1 block=8xallx256"),
        candidate("cpu simd=avx2 tile=4x1 block=8xallx256 preload=pages"),
        candidate("cpu simd=avx2 tile=4x1 block=8xallx256 preload=b"), candidate("cpu simd=avx2 tile=4x1 threads=2"),
        candidate("cpu simd=avx3"), candidate("cpu simd=avx2 tile=4x1 block=8xallx256")}}};
  const Answer response = post(body);
  ASSERT_EQ(response.status, 200) << response.body << log();
  const Json results = response.json()["results"];
  const std::vector<std::string> expected = {"accepted", "crashed", "wrong", "illegal"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(results[i]["verdict"]["kind"], expected[i]) << results[i].dump(2);
    EXPECT_EQ(results[i]["measured"], 1);
    EXPECT_EQ(results[i]["reward"] > 0, i == 0) << results[i].dump(2);
  }
  EXPECT_NE(results[4]["error"].get<std::string>().find("avx3"), std::string::npos);
  EXPECT_EQ(results[5]["id"], results[0]["id"]);
  EXPECT_EQ(results[5]["duplicate"], true);
  EXPECT_GT(results[0]["reference_us"], 0);

  const Answer rewards = post(
      {{"query", {answer, "prose"}}, {"prompts", {"<|user|>Q<|assistant|>", "Q"}}, {"labels", {kProblem, kProblem}}},
      "/get_reward");
  ASSERT_EQ(rewards.status, 200) << rewards.body;
  EXPECT_EQ(rewards.json()["rewards"][0], results[0]["reward"]) << "the same candidate, whoever asks";
  EXPECT_LT(rewards.json()["rewards"][1], 0);
  for (const auto& [name, count] : attempts()) EXPECT_EQ(count, 1) << name;
  EXPECT_EQ(attempts().size(), 4u);
  EXPECT_NE(ask("GET", "/metrics").body.find("warpsmith_verdicts_total{kind=\"crashed\"} 1"), std::string::npos);
}

TEST_F(EndToEnd, LosesNothingWhenKilled) {
  start();
  std::vector<std::string> ids;
  for (const int block : {8, 16, 32, 48, 64, 96, 128, 192}) {
    const Answer response = post(candidate("cpu simd=avx2 tile=4x1 block=8xallx" + std::to_string(block)));
    ASSERT_TRUE(response.status == 202 || response.status == 200) << response.body;
    ids.push_back(response.json()["id"]);
  }
  ASSERT_EQ(ask("GET", "/v1/candidates/" + ids[0] + "?wait=300").status, 200);
  server_->kill();
  server_->wait();
  const auto before = attempts();
  ASSERT_GE(before.size(), 1u);
  start();
  for (const std::string& id : ids) {
    const Answer answer = ask("GET", "/v1/candidates/" + id + "?wait=300");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.json()["verdict"]["kind"], "accepted") << answer.body;
  }
  const auto after = attempts();
  EXPECT_EQ(after.size(), ids.size());
  int again = 0;
  for (const auto& [name, count] : after) again += count - 1;
  EXPECT_LE(again, 1) << "only what was in the archive and not yet in the queue";
}

TEST_F(EndToEnd, EndsGracefully) {
  start();
  Client waiting(port_);
  Json body = candidate("cpu simd=avx2 tile=4x1");
  body["wait_seconds"] = 300;
  waiting.send(Client::request("POST", "/v1/candidates", body.dump(), kAuthorization));
  ASSERT_EQ(post(candidate("cpu simd=avx2 tile=4x1 unroll=2")).status, 202);
  ::kill(server_->pid(), SIGTERM);
  const Answer answer = waiting.receive();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["state"], "done");
  EXPECT_EQ(server_->wait().exit_code, 0) << log();
  start();
  EXPECT_EQ(post(body).json()["duplicate"], true) << "nothing is forgotten";
}

TEST_F(EndToEnd, PairsWhereItIsAskedTo) {
  start({"--paired"});
  Json body = candidate("cpu simd=avx2 tile=4x1");
  body["wait_seconds"] = 300;
  const Json result = post(body).json();
  EXPECT_EQ(result["verdict"]["kind"], "accepted") << result.dump(2);
  if (result.contains("paired")) {  // else the pairs varied too much
    EXPECT_EQ(result["speedup"], result["paired"]["value"]);
    EXPECT_EQ(result["paired"]["baseline"], result["reference"]);
  }
}

// Everything below is refused, and nothing of the machine shows up in an answer.
TEST_F(EndToEnd, GivesVerdictsAndNothingElse) {
  start();
  const fs::path secret = home_ / "secret", made = home_ / "made";
  std::ofstream(secret) << "root-of-all-evil";
  const std::string code = "#include \"" + secret.string() +
                           "\"\nextern \"C\" void warpsmith_kernel() { system(\"touch " + made.string() + "\"); }";
  const std::string sections = "## Performance analysis\nx\n## Algorithm design\ny\n## Code\n";
  std::vector<Answer> answers;
  for (const Json& body :
       {Json{{"problem", kProblem}, {"source", code}, {"descriptor", {{"source", secret.string()}}}},
        Json{{"problem", kProblem}, {"answer", sections + "```cpp\n" + code + "\n```\n"}},
        Json{{"problem", kProblem}, {"answer", sections + "```recipe\ncpu simd=$(touch " + made.string() + ")\n```\n"}},
        Json{{"problem", kProblem}, {"recipe", "cpu; touch " + made.string()}},
        Json{{"problem", kProblem}, {"recipe", "file://" + secret.string()}},
        Json{{"problem", secret.string()}, {"recipe", "cpu"}},
        Json{{"problem", kProblem}, {"recipe", "cpu"}, {"device", "../../" + secret.string()}},
        Json{{"problem", kProblem}, {"recipe", "cpu"}, {"url", "http://127.0.0.1:1/"}},
        Json{{"problem", kProblem}, {"recipe", "cpu"}, {"worker", "/bin/sh"}}}) {
    answers.push_back(post(body));
    EXPECT_EQ(answers.back().status, 422) << body.dump() << answers.back().body;
  }
  for (const std::string& path : {"/v1/candidates/../../" + secret.string(), "/v1/candidates/%2e%2e/" + secret.string(),
                                  secret.string(), std::string("/v1/candidates/'%20OR%201=1--")}) {
    answers.push_back(ask("GET", path));
    EXPECT_GE(answers.back().status, 400) << path;
  }
  answers.push_back(ask("GET", "http://127.0.0.1:1/healthz"));
  EXPECT_EQ(answers.back().status, 404);
  answers.push_back(Client(port_).ask("GET", "/metrics"));
  EXPECT_EQ(answers.back().status, 401);
  for (const Answer& answer : answers) {
    EXPECT_FALSE(answer.body.empty());
    EXPECT_EQ(answer.body.find("root-of-all-evil"), std::string::npos) << answer.body;
  }
  EXPECT_FALSE(fs::exists(made));
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_EQ(log().find(kToken), std::string::npos);
  // The worker, where kernels run, has no token to find.
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto status = read_file(entry.path() / "stat");
    if (!status || status->find("(warpsmith-misb") == std::string::npos) continue;
    const auto environment = read_file(entry.path() / "environ");
    EXPECT_TRUE(!environment || environment->find(kToken) == std::string::npos);
  }
}

// Requests with bytes changed, dropped and doubled, from the request line to the last brace.
TEST_F(EndToEnd, AnswersDamagedRequestsWithAReason) {
  start();
  const std::string answer =
      "## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```recipe\ncpu unroll=3\n```";
  const std::vector<std::string> seeds = {
      Client::request("POST", "/v1/candidates", candidate("cpu unroll=3").dump(), kAuthorization),
      Client::request("POST", "/get_reward", Json{{"query", {answer}}, {"labels", {kProblem}}}.dump(), kAuthorization),
      Client::request("GET", "/v1/candidates/0123456789abcdef?wait=0.01", "", kAuthorization)};
  std::mt19937 random(11);
  std::map<int, int> statuses;
  for (int round = 0; round < 600; ++round) {
    std::string text = seeds[static_cast<std::size_t>(round) % seeds.size()];
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const std::size_t at = random() % text.size(), length = 1 + random() % 12;
      if (random() % 3 == 0) text.insert(at, text.substr(at, length));
      if (random() % 3 == 0) text.erase(at, length);
      if (random() % 2 == 0 && at < text.size()) text[at] = static_cast<char>(random());
    }
    Client client(port_);
    client.send(text);
    client.end_of_input();
    const Answer reply = client.receive();
    ++statuses[reply.status];
    ASSERT_LT(reply.status, 500) << text << reply.body;
    ASSERT_TRUE(reply.status < 400 || !reply.json().at("error").get<std::string>().empty()) << text;
  }
  EXPECT_GT(statuses[400] + statuses[401] + statuses[404] + statuses[422], 200);
  EXPECT_EQ(ask("GET", "/healthz").status, 200) << log();
}

TEST_F(EndToEnd, RefusesBadArguments) {
  const auto run = [&](const std::vector<std::string>& more, bool with_token) {
    ProcessRequest request;
    request.argv = options(more).argv;
    request.environment = options(more).environment;
    if (!with_token) request.environment.back().second = std::nullopt;
    request.limits.wall_seconds = 60;
    const auto output = run_process(request);
    EXPECT_EQ(output->status.exit_code, 2) << output->err;
    EXPECT_EQ(std::count(output->err.begin(), output->err.end(), '\n'), 1) << output->err;
    return output->err;
  };
  EXPECT_NE(run({"--host", "0.0.0.0"}, false).find("accepted with a token only"), std::string::npos);
  EXPECT_NE(run({"--host", "nowhere"}, true).find("is not an address"), std::string::npos);
  EXPECT_NE(run({"--problem", "64x64"}, true).find("accepted"), std::string::npos);
  EXPECT_NE(run({"--drain", "soon"}, true).find("is not a duration"), std::string::npos);
  std::ofstream(home_ / "token") << "a-token-that-is-long-enough";
  chmod((home_ / "token").c_str(), 0644);
  const std::string error = run({"--token-file", (home_ / "token").string()}, true);
  EXPECT_NE(error.find("mode 600"), std::string::npos);
  EXPECT_EQ(error.find("long-enough"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith::serve
