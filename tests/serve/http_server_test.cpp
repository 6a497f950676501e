// The HTTP server against clients that are wrong, hostile, slow or many.
#include "serve/http_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "client.h"

namespace warpsmith::serve {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::Client;

// Echoes bodies; "/slow" answers when it is told to.
class Echo final : public HttpHandler {
 public:
  HttpResponse admit(const HttpRequest& head) override {
    if (head.path == "/refused") return {401, "refused"};
    return {};
  }
  void handle(HttpRequest request, Reply reply) override {
    if (request.path == "/slow") {
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(reply));
      changed_.notify_all();
      return;
    }
    reply({200, request.method + " " + request.path + " " + request.query + "|" + request.authorization + "|" +
                    request.body});
  }
  HttpResponse refuse(int status, const std::string& reason) override { return {status, reason}; }

  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return held_.size() >= count; })) << "no request came";
  }
  void release(std::size_t count) {
    wait_for(count);
    const std::lock_guard lock(mutex_);
    for (const Reply& reply : held_) reply({200, "late"});
    held_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Reply> held_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.most_body_bytes = 1000;
    options_.most_header_bytes = 2000;
    options_.most_connections = 8;
    start();
  }
  void start() {
    server_.reset();
    auto server = HttpServer::start(options_, echo_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }
  int port() const { return server_->port(); }
  void expect_alive() {
    Client client(port());
    EXPECT_EQ(client.ask("GET", "/alive").status, 200);
  }
  void wait_for_connections(int most) {
    for (int i = 0; i < 500 && server_->connections() > most; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_LE(server_->connections(), most);
  }

  Echo echo_;
  HttpOptions options_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersOneRequestAfterAnother) {
  Client client(port());
  EXPECT_EQ(client.ask("GET", "/a?b=c").body, "GET /a b=c||");
  EXPECT_EQ(client.ask("POST", "/x", "{}", "Authorization: Bearer t\r\n").body, "POST /x |Bearer t|{}");
  client.send(Client::request("GET", "/1") + Client::request("POST", "/2", "two") + Client::request("GET", "/3"));
  EXPECT_EQ(client.receive().body, "GET /1 ||");
  EXPECT_EQ(client.receive().body, "POST /2 ||two");
  EXPECT_EQ(client.receive().body, "GET /3 ||");
  client.send("GET /last HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.receive().body, "GET /last ||");
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServerTest, TakesChunksAndAsksForLargeBodies) {
  Client client(port());
  client.send("POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.receive().body, "POST /c ||abcde");
  client.send("POST /e HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  client.send("body");
  EXPECT_EQ(client.receive().body, "POST /e ||body");
}

TEST_F(HttpServerTest, LimitsHeadsAndBodies) {
  {
    Client client(port());
    client.send("POST /x HTTP/1.1\r\nContent-Length: 1001\r\n\r\n");
    const Answer answer = client.receive();
    EXPECT_EQ(answer.status, 413);
    EXPECT_NE(answer.body.find("1000 bytes"), std::string::npos);
    EXPECT_TRUE(client.closed());
  }
  {
    Client client(port());
    std::string chunks = "POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 20; ++i) chunks += "64\r\n" + std::string(100, 'x') + "\r\n";
    client.send(chunks);
    EXPECT_EQ(client.receive().status, 413);
  }
  {
    Client client(port());
    client.send("GET /x HTTP/1.1\r\nX: " + std::string(5000, 'y') + "\r\n\r\n");
    EXPECT_EQ(client.receive().status, 431);
  }
  {
    Client client(port());
    client.send("GET /" + std::string(100'000, 'z'));
    EXPECT_EQ(client.receive().status, 431);
  }
  expect_alive();
}

TEST_F(HttpServerTest, RefusesBeforeItReadsABody) {
  Client client(port());
  client.send("POST /refused HTTP/1.1\r\nContent-Length: 900\r\n\r\n");  // and no body
  EXPECT_EQ(client.receive().status, 401);
  EXPECT_TRUE(client.closed());
  Client again(port());
  EXPECT_EQ(again.ask("GET", "/refused").status, 401);
  EXPECT_EQ(again.ask("GET", "/x").status, 200) << "nothing was left unread";
}

TEST_F(HttpServerTest, NonsenseGetsAReason) {
  for (const char* bytes : {"\r\n\r\n\r\n", "HELLO\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                            "GET /\x01 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nbroken header\r\n\r\n",
                            "GET / HTTP/1.1\r\n: x\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
                            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                            "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}) {
    Client client(port());
    client.send(bytes);
    client.end_of_input();
    const Answer answer = client.receive();
    EXPECT_GE(answer.status, 400) << bytes;
    EXPECT_LT(answer.status, 500) << bytes;
    EXPECT_FALSE(answer.body.empty()) << bytes;
  }
  expect_alive();
}

TEST_F(HttpServerTest, SurvivesDamagedRequests) {
  const std::string seed =
      Client::request("POST", "/v1/candidates?wait=3", R"({"a": [1, 2, 3]})", "Authorization: Bearer x\r\n");
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    std::string text = seed;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = static_cast<char>(random());
      } else {
        text.erase(at, 1 + random() % 30);
      }
      if (text.empty()) text = "x";
    }
    Client client(port());
    client.send(text);
    client.end_of_input();
    const int status = client.receive().status;
    EXPECT_TRUE(status == 0 || (status >= 100 && status < 500)) << status << "\n" << text;
  }
  expect_alive();
}

TEST_F(HttpServerTest, SlowClientsAreLeft) {
  options_.read_seconds = options_.idle_seconds = 0.2;
  start();
  Client silent(port()), slow(port()), idle(port()), half(port());
  slow.send("GET / HT");
  half.send("POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(idle.ask("GET", "/").status, 200);
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(slow.closed());
  EXPECT_TRUE(half.closed());
  EXPECT_TRUE(idle.closed());
  wait_for_connections(0);
  expect_alive();
}

TEST_F(HttpServerTest, TurnsAwayWhatIsTooMany) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    EXPECT_EQ(clients.back()->ask("GET", "/").status, 200);
  }
  Client late(port());
  EXPECT_EQ(late.receive().status, 503);
  clients.clear();
  wait_for_connections(1);
  expect_alive();
}

TEST_F(HttpServerTest, ClientsThatGoAwayCostNothing) {
  for (int i = 0; i < 50; ++i) {
    Client client(port());
    client.send(Client::request("GET", "/a").substr(0, static_cast<std::size_t>(i)));
  }
  // Until they are gone, which are accepted in their order, the next one is turned away.
  for (int i = 0; i < 500 && Client(port()).ask("GET", "/alive").status != 200; ++i) std::this_thread::sleep_for(10ms);
  wait_for_connections(0);
  {
    Client client(port());
    client.send(Client::request("GET", "/slow"));
    echo_.wait_for(1);
  }
  echo_.release(1);
  wait_for_connections(0);
  expect_alive();
}

TEST_F(HttpServerTest, FinishesWhatItOwes) {
  Client slow(port()), idle(port());
  EXPECT_EQ(idle.ask("GET", "/").status, 200);
  slow.send(Client::request("GET", "/slow"));
  std::thread later([this] {
    std::this_thread::sleep_for(100ms);
    echo_.release(1);
  });
  std::this_thread::sleep_for(50ms);
  const auto begin = std::chrono::steady_clock::now();
  server_->finish(20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
  later.join();
  const Answer answer = slow.receive();
  EXPECT_EQ(answer.body, "late");
  EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
  EXPECT_THROW(Client{port()}, std::runtime_error);
}

TEST(HttpServer, SaysWhereItCannotListen) {
  Echo echo;
  HttpOptions options;
  options.address = "not-an-address";
  EXPECT_EQ(HttpServer::start(options, echo).error().kind, ErrorKind::bad_input);
  options.address = "localhost";
  const auto server = HttpServer::start(options, echo);
  ASSERT_TRUE(server.ok());
  options.port = (*server)->port();
  const auto second = HttpServer::start(options, echo);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::environment);
  EXPECT_TRUE(is_loopback("localhost").value());
  EXPECT_TRUE(is_loopback("::1").value());
  EXPECT_FALSE(is_loopback("0.0.0.0").value());
  EXPECT_FALSE(is_loopback("192.168.1.2").value());
}

}  // namespace
}  // namespace warpsmith::serve
