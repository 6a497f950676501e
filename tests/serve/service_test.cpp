// The API without sockets: paths, statuses, answers, the OpenRLHF protocol, and that its description is true.
#include "serve/service.h"

#include <gtest/gtest.h>

#include <future>
#include <set>

#include "serve/embedded.h"
#include "support.h"

namespace warpsmith::serve {
namespace {

using Json = nlohmann::json;
using testing::kProblem;

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { start(); }
  void start() {
    service_.reset();
    dispatcher_.reset();
    store_.reset();
    store_ = testing::open_store(directory_ / "queue");
    std::vector<ServedDevice> devices;
    devices.push_back({"cpu", std::make_unique<testing::ScriptedJudge>(script_)});
    dispatcher_ = Dispatcher::start(dispatch_, std::move(devices), *store_, metrics_);
    options_.site = testing::cpu_site();
    options_.devices = {"cpu"};
    service_ = std::make_unique<Service>(options_, *store_, *dispatcher_, metrics_);
  }
  void TearDown() override {
    script_.open();
    dispatcher_->drain(0);
  }

  HttpResponse ask(HttpRequest request) {
    if (request.method == "POST" && request.content_type.empty()) request.content_type = "application/json";
    HttpResponse admitted = service_->admit(request);
    if (admitted.status != 200) return admitted;
    std::promise<HttpResponse> promise;
    service_->handle(std::move(request), [&](HttpResponse response) { promise.set_value(std::move(response)); });
    return promise.get_future().get();
  }
  HttpResponse get(const std::string& path, const std::string& query = "") {
    return ask({"GET", path, query, "", "", ""});
  }
  HttpResponse post(const std::string& path, const std::string& body) { return ask({"POST", path, "", "", "", body}); }
  HttpResponse post(const std::string& path, const Json& body) { return post(path, body.dump()); }
  static Json json(const HttpResponse& response) { return Json::parse(response.body); }
  static void expect_refused(const HttpResponse& response, int status, const std::string& part) {
    EXPECT_EQ(response.status, status) << response.body;
    const std::string reason = json(response).at("error");
    EXPECT_NE(reason.find(part), std::string::npos) << reason;
  }
  static Json candidate(const std::string& recipe = "cpu") { return {{"problem", kProblem}, {"recipe", recipe}}; }

  testing::TemporaryDirectory directory_;
  testing::Script script_;
  DispatchOptions dispatch_;
  ServiceOptions options_;
  Metrics metrics_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<Service> service_;
};

TEST_F(ServiceTest, MeasuresACandidateAndSaysItAgain) {
  Json body = candidate();
  body["wait_seconds"] = 30;
  const HttpResponse response = post("/v1/candidates", body);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json result = json(response);
  EXPECT_EQ(result["state"], "done");
  EXPECT_EQ(result["duplicate"], false);
  EXPECT_EQ(result["verdict"]["kind"], "accepted");
  EXPECT_EQ(result["speedup"], 2.0);
  EXPECT_EQ(result["measured"], 1);
  const double tokens = result["tokens"];
  EXPECT_DOUBLE_EQ(result["reward"], 2 - options_.reward.alpha * 0.25 - options_.reward.beta * tokens);
  Json again = json(post("/v1/candidates", body));
  EXPECT_EQ(again["duplicate"], true);
  EXPECT_EQ(again["reward"], result["reward"]);
  EXPECT_EQ(json(get("/v1/candidates/" + result["id"].get<std::string>()))["reward"], result["reward"]);
  EXPECT_EQ(script_.order().size(), 1u);
  body["remeasure"] = true;
  again = json(post("/v1/candidates", body));
  EXPECT_EQ(again["measured"], 2);
  EXPECT_EQ(script_.order().size(), 2u);
}

TEST_F(ServiceTest, AnswersBeforeTheEndWhereNobodyWaits) {
  script_.close();
  const HttpResponse response = post("/v1/candidates", candidate());
  EXPECT_EQ(response.status, 202);
  const std::string path = "/v1/candidates/" + json(response)["id"].get<std::string>();
  EXPECT_EQ(get(path).status, 202);
  EXPECT_EQ(get(path, "wait=0.05").status, 202);
  script_.open();
  EXPECT_EQ(get(path, "wait=30").status, 200);
}

TEST_F(ServiceTest, BatchesAnswerEachCandidate) {
  const Json body = {
      {"candidates", {candidate("cpu"), candidate("cpu tile=3"), candidate("cpu unroll=2"), candidate("cpu")}},
      {"wait_seconds", 30}};
  const HttpResponse response = post("/v1/candidates", body);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json results = json(response)["results"];
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0]["state"], "done");
  EXPECT_TRUE(results[1].contains("error"));
  EXPECT_EQ(results[3]["id"], results[0]["id"]);
  EXPECT_EQ(results[3]["duplicate"], true);
  EXPECT_EQ(script_.order().size(), 2u);
  EXPECT_EQ(post("/v1/candidates", {{"candidates", {candidate("gpu"), 3}}}).status, 422);
}

TEST_F(ServiceTest, RefusesWithAReason) {
  expect_refused(get("/"), 404, "/v1/candidates");
  expect_refused(get("/v1/candidates"), 405, "POST");
  expect_refused(post("/healthz", std::string()), 405, "GET");
  expect_refused(ask({"DELETE", "/v1/candidates/abc", "", "", "", ""}), 405, "GET");
  expect_refused(ask({"POST", "/v1/candidates", "", "", "text/plain", "{}"}), 415, "application/json");
  expect_refused(ask({"POST", "/get_reward", "", "", "application/x-www-form-urlencoded", "{}"}), 415,
                 "application/json");
  EXPECT_EQ(ask({"POST", "/v1/candidates", "", "", "Application/JSON; charset=utf-8", "{"}).status, 400);
  expect_refused(get("/v1/candidates/nothing"), 404, "nothing");
  expect_refused(get("/v1/candidates/x", "wait=-1"), 422, "wait=SECONDS");
  expect_refused(get("/v1/candidates/x", "wait=nan"), 422, "wait=SECONDS");
  expect_refused(get("/v1/candidates/x", "wait=1e9"), 422, "wait=SECONDS");
  expect_refused(get("/v1/candidates/x", "file=/etc/passwd"), 422, "wait=SECONDS");
  expect_refused(post("/v1/candidates", std::string("{")), 400, "not JSON");
  expect_refused(post("/v1/candidates", std::string(100, '[')), 400, "levels");
  expect_refused(post("/v1/candidates", Json::array()), 422, "no object");
  expect_refused(post("/v1/candidates", {{"candidates", Json::array()}}), 422, "1 to");
  expect_refused(post("/v1/candidates", {{"candidates", {candidate()}}, {"priority", 1}}), 422, "wait_seconds");
  expect_refused(post("/v1/candidates", {{"candidates", Json::array_t(1025, candidate())}}), 422, "1 to 1024");
  Json body = candidate();
  body["wait_seconds"] = 1e9;
  expect_refused(post("/v1/candidates", body), 422, "wait_seconds");
  body = candidate();
  body["device"] = "cuda:7";
  expect_refused(post("/v1/candidates", body), 422, "accepted: cpu");
}

TEST_F(ServiceTest, AsksForTheToken) {
  options_.token = Token::of("a-token-of-mine-123").value();
  start();
  for (const char* path : {"/v1/candidates/x", "/v1/devices", "/metrics", "/nowhere"}) {
    HttpRequest request{"GET", path, "", "", "", ""};
    const HttpResponse refused = ask(request);
    expect_refused(refused, 401, "token");
    request.authorization = "Bearer a-token-of-yours-12";
    EXPECT_EQ(ask(request).status, 401);
    request.authorization = "Bearer a-token-of-mine-123";
    EXPECT_NE(ask(request).status, 401) << path;
  }
  EXPECT_EQ(ask({"POST", "/get_reward", "", "", "", "{}"}).status, 401);
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/openapi.json").status, 200);
}

TEST_F(ServiceTest, AFullQueueSaysSo) {
  dispatch_.most_queued = 2;
  script_.close();
  start();
  EXPECT_EQ(post("/v1/candidates", candidate("cpu")).status, 202);
  script_.wait_for(1);
  const Json more = {{"candidates", {candidate("cpu unroll=1"), candidate("cpu unroll=2"), candidate("cpu unroll=8")}}};
  HttpResponse response = post("/v1/candidates", more);
  expect_refused(response, 429, "full");
  EXPECT_EQ(response.headers.front().first, "Retry-After");
  EXPECT_EQ(post("/v1/candidates", candidate("cpu")).status, 202) << "a duplicate needs no room";
}

TEST_F(ServiceTest, DrainingAcceptsNothing) {
  service_->begin_drain();
  EXPECT_EQ(get("/healthz").status, 503);
  expect_refused(post("/v1/candidates", candidate()), 503, "ending");
  EXPECT_EQ(get("/v1/devices").status, 200);
}

std::string answer(const std::string& recipe) {
  return "## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```recipe\n" + recipe + "\n```";
}

TEST_F(ServiceTest, SpeaksOpenRlhf) {
  script_.answer = [](const Job& job) {
    Outcome outcome = testing::accepted_outcome();
    if (job.name.find("unroll=1") != std::string::npos) {
      outcome.verdict.outcome = verdict::Wrong{{"exact", false, "bad", 0}};
    }
    return outcome;
  };
  const std::string prompt = "<|user|>Write a kernel.<|assistant|>";
  const Json body = {{"query",
                      {prompt + answer("cpu unroll=2") + "<|im_end|>", prompt + answer("cpu unroll=1"),
                       prompt + "no idea<|im_end|>", prompt + answer("cpu unroll=2")}},
                     {"prompts", {prompt, prompt, prompt, prompt}},
                     {"labels", {kProblem, {{"problem", kProblem}}, kProblem, kProblem}}};
  const HttpResponse response = post("/get_reward", body);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json result = json(response);
  EXPECT_EQ(result["verdicts"], (Json{"accepted", "wrong", "malformed", "accepted"}));
  ASSERT_EQ(result["rewards"].size(), 4u);
  EXPECT_GT(result["rewards"][0], 1.9);
  EXPECT_LT(result["rewards"][1], 0);
  EXPECT_LT(result["rewards"][2], 0);
  EXPECT_EQ(result["rewards"][3], result["rewards"][0]);
  EXPECT_DOUBLE_EQ(result["scores"][0], 2.0 / 3);
  EXPECT_EQ(result["scores"][1], 0.0);
  for (const char* name : {"accepted", "speedup", "difference", "tokens"}) {
    EXPECT_EQ(result["extra_logs"][name].size(), 4u) << name;
    for (const Json& value : result["extra_logs"][name]) EXPECT_TRUE(value.is_number());
  }
  EXPECT_EQ(script_.order().size(), 2u);
  EXPECT_EQ(post("/get_reward", {{"query", {"nothing at all"}}, {"labels", {kProblem}}}).status, 200);
}

TEST_F(ServiceTest, OpenRlhfWithoutLabelsTakesTheServersProblem) {
  const Json body = {{"query", {answer("cpu")}}, {"prompts", nullptr}};
  expect_refused(post("/get_reward", body), 422, "label 0: no problem is named");
  service_.reset();
  options_.site.problem = parse_problem(kProblem).value();
  service_ = std::make_unique<Service>(options_, *store_, *dispatcher_, metrics_);
  EXPECT_EQ(post("/get_reward", body).status, 200);
  expect_refused(post("/get_reward", {{"query", "text"}}), 422, "'query'");
  expect_refused(post("/get_reward", {{"query", Json::array()}}), 422, "'query'");
  expect_refused(post("/get_reward", {{"query", {1}}}), 422, "query or prompt 0");
  expect_refused(post("/get_reward", {{"query", {"a"}}, {"labels", {"x", "y"}}}), 422, "'labels'");
  expect_refused(post("/get_reward", {{"query", {"a"}}, {"labels", {7}}}), 422, "label 0");
  expect_refused(post("/get_reward", {{"query", {"a"}}, {"prompts", {7}}}), 422, "prompt 0");
  expect_refused(post("/get_reward", {{"query", {"a"}}, {"labels", {"64x64"}}}), 422, "label 0");
}

TEST_F(ServiceTest, NoRewardIsBetterThanAWrongOne) {
  script_.answer = [](const Job&) -> Result<Outcome> { return environment_error("no GPU"); };
  dispatch_.pause_seconds = 0.01;
  start();
  const Json body = {{"query", {answer("cpu")}}, {"labels", {kProblem}}};
  expect_refused(post("/get_reward", body), 503, "ask again");
  script_.answer = [](const Job&) { return testing::accepted_outcome(); };
  EXPECT_EQ(post("/get_reward", body).status, 200) << "asking again measures again";

  options_.reward_wait_seconds = 0.05;
  script_.close();
  start();
  const Json slow = {{"query", {answer("cpu unroll=2"), "x"}}, {"labels", {kProblem, kProblem}}};
  expect_refused(post("/get_reward", slow), 503, "1 of 2 candidates");
}

TEST_F(ServiceTest, CountsWhatHappens) {
  Json body = candidate();
  body["wait_seconds"] = 30;
  post("/v1/candidates", body);
  post("/v1/candidates", body);
  get("/nowhere");
  const HttpResponse response = get("/metrics");
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4");
  for (const char* line :
       {"warpsmith_requests_total{path=\"/v1/candidates\",status=\"200\"} 2\n",
        "warpsmith_requests_total{path=\"other\",status=\"404\"} 1\n",
        "warpsmith_submissions_total{result=\"queued\"} 1\n", "warpsmith_submissions_total{result=\"duplicate\"} 1\n",
        "warpsmith_verdicts_total{kind=\"accepted\"} 1\n", "warpsmith_queue{device=\"cpu\",state=\"queued\"} 0\n",
        "warpsmith_wait_seconds_count 1\n", "warpsmith_judging_seconds_count{device=\"cpu\"} 1\n",
        "warpsmith_draining 0\n"}) {
    EXPECT_NE(response.body.find(line), std::string::npos) << line << response.body;
  }
  const Json devices = json(get("/v1/devices"));
  EXPECT_EQ(devices["devices"][0]["name"], "cpu");
  EXPECT_EQ(devices["devices"][0]["queued"], 0);
}

// Every path and status that the tests above met is in the description, and what it calls required is there.
TEST_F(ServiceTest, DescribesItself) {
  const Json api = json(get("/openapi.json"));
  EXPECT_EQ(api["openapi"], "3.0.3");
  std::set<std::string> paths;
  for (const auto& [path, item] : api["paths"].items()) paths.insert(path);
  EXPECT_EQ(paths, (std::set<std::string>{"/get_reward", "/healthz", "/metrics", "/openapi.json", "/v1/candidates",
                                          "/v1/candidates/{id}", "/v1/devices"}));
  const Json& schemas = api["components"]["schemas"];
  const auto expect_members = [&](const char* schema, const Json& value) {
    for (const Json& name : schemas[schema]["required"]) EXPECT_TRUE(value.contains(name)) << schema << name;
    for (const auto& [name, member] : value.items()) {
      EXPECT_TRUE(schemas[schema]["properties"].contains(name)) << schema << " lacks " << name;
    }
  };
  Json body = candidate();
  body["wait_seconds"] = 30;
  body["deadline_seconds"] = 100;
  expect_members("Result", json(post("/v1/candidates", body)));
  expect_members("RewardAnswer", json(post("/get_reward", {{"query", {answer("cpu")}}, {"labels", {kProblem}}})));
  expect_members("Health", json(get("/healthz")));
  expect_members("Error", json(get("/nowhere")));
  const std::string text = api.dump();
  for (std::size_t at = 0; (at = text.find("#/components/", at)) != std::string::npos; ++at) {
    const std::string pointer = text.substr(at + 1, text.find('"', at) - at - 1);
    EXPECT_TRUE(api.contains(Json::json_pointer(pointer))) << pointer;
  }
}

}  // namespace
}  // namespace warpsmith::serve
