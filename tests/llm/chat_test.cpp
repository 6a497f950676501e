// The client against a real server over real sockets, with everything that servers do: through libcurl and through the
// plain transport.
#include "llm/chat.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>

#include "scripted_server.h"

namespace warpsmith::llm {
namespace {

using Kind = ChatFailure::Kind;

const std::atomic<bool> kGoOn{false};
bool always(const Usage&) { return true; }

ChatRequest question() {
  ChatRequest request;
  request.model = "scripted";
  request.messages = {{"system", "Answer."}, {"user", "What is 6 times 7? \xff"}};
  return request;
}

// Waits are counted, not waited.
struct Client {
  explicit Client(ChatOptions options, std::shared_ptr<const HttpTransport> transport) {
    auto made = ChatClient::make(std::move(options), std::move(transport),
                                 [this](double seconds, const std::atomic<bool>&) { waits.push_back(seconds); });
    EXPECT_TRUE(made) << made.error().message;
    client = std::move(*made);
  }
  Exchange ask(double deadline = 60) { return client->complete(question(), deadline, always, kGoOn); }
  std::unique_ptr<ChatClient> client;
  std::vector<double> waits;
};

class Chat : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const HttpTransport> transport() const {
    if (GetParam() == std::string("plain")) return open_plain();
    auto curl = open_curl();
    EXPECT_TRUE(curl) << curl.error().message;
    return std::move(*curl);
  }
  Client client(const ScriptedServer& server, const std::function<void(ChatOptions&)>& change = {}) const {
    ChatOptions options;
    options.url = server.url();
    if (change) change(options);
    return Client(options, transport());
  }
};

TEST_P(Chat, ReadsStreamsAndWholeAnswers) {
  const std::string text = "## Code\nna\xc3\xafve \"quotes\"\n```\ncpu\n```\n";
  for (const bool stream : {true, false}) {
    const ScriptedServer server(nlohmann::json::array({{{"answer", text}, {"piece", 3}, {"finish", "length"}},
                                                       {{"answer", "x"}, {"no_usage", true}, {"parts", true}}}));
    Client it = client(server, [&](ChatOptions& options) { options.stream = stream; });
    const Exchange exchange = it.ask();
    ASSERT_NE(exchange.reply(), nullptr) << exchange.failure()->message;
    EXPECT_EQ(exchange.reply()->text, text);
    EXPECT_EQ(exchange.reply()->finish_reason, "length");
    EXPECT_FALSE(exchange.reply()->usage.estimated);
    EXPECT_GT(exchange.reply()->usage.prompt_tokens, 0);
    EXPECT_EQ(exchange.attempts, 1);
    const Exchange second = it.ask();
    ASSERT_NE(second.reply(), nullptr) << second.failure()->message;
    EXPECT_EQ(second.reply()->text, "x");
    EXPECT_TRUE(second.reply()->usage.estimated);
    const auto requests = server.requests();
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(requests[0]["path"], "/v1/chat/completions");
    EXPECT_EQ(requests[0]["body"]["stream"], stream);
    EXPECT_EQ(requests[0]["body"]["model"], "scripted");
    EXPECT_EQ(requests[0]["body"]["messages"][0]["role"], "system");
    EXPECT_TRUE(requests[0]["authorization"].is_null());
  }
}

TEST_P(Chat, WaitsAsTheServerAsks) {
  const ScriptedServer server(
      nlohmann::json::array({{{"status", 429}, {"headers", {{"Retry-After", "7"}}}, {"body", "slow down"}},
                             {{"status", 429}, {"headers", {{"retry-after-ms", "250"}}}},
                             {{"status", 500}, {"body", "oops\nsecond line"}},
                             {{"status", 503}},
                             {{"answer", "at last"}}}));
  Client it = client(server);
  const Exchange exchange = it.ask();
  ASSERT_NE(exchange.reply(), nullptr) << exchange.failure()->message;
  EXPECT_EQ(exchange.reply()->text, "at last");
  EXPECT_EQ(exchange.attempts, 5);
  ASSERT_EQ(it.waits.size(), 4u);
  EXPECT_EQ(it.waits[0], 7);
  EXPECT_EQ(it.waits[1], 0.25);
  EXPECT_GE(it.waits[2], 2.0);  // the wait doubles with each failure: 1, 2, 4, of which half is drawn
  EXPECT_LE(it.waits[2], 4.0);
  EXPECT_GE(it.waits[3], 4.0);
  EXPECT_LE(it.waits[3], 8.0);
}

TEST_P(Chat, GivesUp) {
  const ScriptedServer server(
      nlohmann::json::array({{{"status", 429}, {"headers", {{"Retry-After", "86400"}}}},
                             {{"status", 401}, {"body", R"({"error": {"message": "bad key {key}"}})"}},
                             {{"status", 302}, {"headers", {{"Location", "http://127.0.0.1:1/elsewhere"}}}},
                             {{"status", 500}}}));
  Client it = client(server, [](ChatOptions& options) { options.key = "sk-secret-1"; });
  const Exchange patient = it.ask();
  ASSERT_NE(patient.failure(), nullptr);
  EXPECT_EQ(patient.failure()->kind, Kind::overloaded);
  EXPECT_EQ(patient.attempts, 1) << "a day is too long";
  const Exchange refused = it.ask();
  ASSERT_NE(refused.failure(), nullptr);
  EXPECT_EQ(refused.failure()->kind, Kind::refused);
  EXPECT_EQ(refused.failure()->message, "HTTP 401: bad key [key]");
  const Exchange redirected = it.ask();
  ASSERT_NE(redirected.failure(), nullptr);
  EXPECT_EQ(redirected.failure()->message, "HTTP 302: redirects are not followed");
  const Exchange broken = it.ask();
  ASSERT_NE(broken.failure(), nullptr);
  EXPECT_EQ(broken.failure()->kind, Kind::server);
  EXPECT_EQ(broken.attempts, 5);
  EXPECT_EQ(server.requests().front()["authorization"], "Bearer sk-secret-1");
}

TEST_P(Chat, TellsTruncatedFromWhole) {
  const std::string text(400, 'x');
  for (const bool stream : {true, false}) {
    const ScriptedServer server(nlohmann::json::array({{{"answer", text}, {"cut", 120}}, {{"answer", text}}}));
    Client once = client(server, [&](ChatOptions& options) {
      options.stream = stream;
      options.max_attempts = 1;
    });
    const Exchange exchange = once.ask();
    ASSERT_NE(exchange.failure(), nullptr) << stream;
    EXPECT_EQ(exchange.failure()->kind, Kind::truncated) << exchange.failure()->message;
    EXPECT_EQ(exchange.failure()->partial, stream ? std::string(120, 'x') : std::string());
    EXPECT_NE(once.ask().reply(), nullptr);
  }
}

TEST_P(Chat, RefusesGarbage) {
  const ScriptedServer server(
      nlohmann::json::array({{{"garbage", 5 << 20}},
                             {{"garbage", 100}},
                             {{"status", 200}, {"body", "{\"choices\": []}"}},
                             {{"status", 200}, {"body", ""}},
                             {{"status", 200}, {"body", R"({"error": {"message": "overloaded inside"}})"}}}));
  Client it = client(server, [](ChatOptions& options) { options.max_attempts = 1; });
  const Exchange large = it.ask();
  ASSERT_NE(large.failure(), nullptr);
  EXPECT_EQ(large.failure()->kind, Kind::too_large);
  EXPECT_EQ(large.failure()->message, "the reply exceeds 4194304 bytes");
  for (const char* part : {"the stream holds no event", "no choices[0].message", "the reply is empty"}) {
    const Exchange exchange = it.ask();
    ASSERT_NE(exchange.failure(), nullptr);
    EXPECT_EQ(exchange.failure()->kind, Kind::malformed);
    EXPECT_NE(exchange.failure()->message.find(part), std::string::npos) << exchange.failure()->message;
  }
  EXPECT_EQ(it.ask().failure()->message, "overloaded inside");
}

TEST_P(Chat, DoesNotWaitForEver) {
  ScriptedServer server(nlohmann::json::array({{{"hang", 30}}}));
  Client it = client(server, [](ChatOptions& options) {
    options.total_seconds = 0.4;
    options.max_attempts = 2;
  });
  const auto start = std::chrono::steady_clock::now();
  const Exchange exchange = it.ask();
  ASSERT_NE(exchange.failure(), nullptr);
  EXPECT_EQ(exchange.failure()->kind, Kind::timed_out) << exchange.failure()->message;
  EXPECT_EQ(exchange.attempts, 2);
  const Exchange late = it.ask(0.2);
  EXPECT_EQ(late.failure()->kind, Kind::timed_out);
  EXPECT_EQ(late.attempts, 1) << "the deadline leaves no time for another";
  std::atomic<bool> stop{true};
  EXPECT_EQ(it.client->complete(question(), 60, always, stop).attempts, 0);
  EXPECT_EQ(it.client
                ->complete(
                    question(), 60, [](const Usage&) { return false; }, kGoOn)
                .attempts,
            0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  server.kill();
  const Exchange gone = it.ask();
  EXPECT_EQ(gone.failure()->kind, Kind::unreachable) << gone.failure()->message;
}

TEST_P(Chat, LeavesOutWhatTheServerDoesNotKnow) {
  const ScriptedServer server(nlohmann::json::array({{{"refuse_field", "stream_options"}, {"answer", "a"}},
                                                     {{"refuse_field", "max_tokens"}, {"answer", "b"}},
                                                     {{"refuse_field", "temperature"}, {"answer", "c"}}}));
  Client it = client(server);
  for (const char* text : {"a", "b", "c"}) {
    const Exchange exchange = it.ask();
    ASSERT_NE(exchange.reply(), nullptr) << exchange.failure()->message;
    EXPECT_EQ(exchange.reply()->text, text);
    EXPECT_EQ(exchange.attempts, 2);
  }
  const nlohmann::json last = server.requests().back()["body"];
  EXPECT_FALSE(last.contains("stream_options") || last.contains("max_tokens") || last.contains("temperature"));
  EXPECT_EQ(last["max_completion_tokens"], 8192);
  EXPECT_TRUE(it.waits.empty());
}

TEST_P(Chat, LosesNoTextToKeysThatAreNone) {
  const std::string text = "int x = key[1];  // EMPTY [key] token";
  for (const char* key : {"x", "e", "key", "[key]", "]", "EMPTY", "token"}) {
    for (const bool stream : {true, false}) {
      const ScriptedServer server(nlohmann::json::array({{{"answer", text}}, {{"status", 400}, {"body", text}}}));
      Client it = client(server, [&](ChatOptions& options) {
        options.key = key;
        options.stream = stream;
      });
      const Exchange exchange = it.ask();
      ASSERT_NE(exchange.reply(), nullptr) << exchange.failure()->message;
      EXPECT_EQ(exchange.reply()->text, text) << key;
      EXPECT_EQ(it.ask().failure()->message, "HTTP 400: " + text);
      EXPECT_EQ(server.requests().front()["authorization"], std::string("Bearer ") + key) << "it is sent all the same";
    }
  }
}

TEST_P(Chat, KeepsKeysToItself) {
  // The second one becomes itself again when what stands in its place is read once more.
  for (const std::string key : {"secret-8", "[key][key]"}) {
    const std::string text = "a" + key + key + "b " + key.substr(1);
    const ScriptedServer server(nlohmann::json::array({{{"answer", text}}}));
    const Exchange exchange = client(server, [&](ChatOptions& options) { options.key = key; }).ask();
    ASSERT_NE(exchange.reply(), nullptr) << exchange.failure()->message;
    EXPECT_EQ(exchange.reply()->text, "a[key][key]b " + key.substr(1));
  }
}

TEST_P(Chat, CountsWhatBrokenAnswersCost) {
  const std::string text(400, 'x');
  const std::int64_t prompt = (7 + 20) / 4 + 1;
  for (const bool stream : {true, false}) {
    const ScriptedServer server(nlohmann::json::array({{{"status", 429}, {"headers", {{"Retry-After", "0"}}}},
                                                       {{"status", 500}, {"body", text}},
                                                       {{"answer", text}, {"cut", 120}},
                                                       {{"hang", 2}},
                                                       {{"answer", text}}}));
    Client it = client(server, [&](ChatOptions& options) {
      options.stream = stream;
      options.total_seconds = 0.5;
    });
    const Exchange exchange = it.ask();
    ASSERT_NE(exchange.reply(), nullptr) << exchange.failure()->message;
    EXPECT_EQ(exchange.attempts, 5);
    EXPECT_EQ(exchange.lost.prompt_tokens, 2 * prompt) << "a refusal costs nothing";
    // A whole answer that never came may have been a long one; of what was cut off, what arrived is what is known.
    const std::int64_t of_silence = stream ? 1 : 8192;
    EXPECT_EQ(exchange.lost.completion_tokens, 120 / 4 + 1 + of_silence) << stream;
    EXPECT_TRUE(exchange.usage().estimated);
    EXPECT_EQ(exchange.usage().prompt_tokens, exchange.reply()->usage.prompt_tokens + 2 * prompt);
  }
  const ScriptedServer server(nlohmann::json::array({{{"garbage", 1 << 20}}}));
  const Exchange garbage = client(server).ask();
  EXPECT_EQ(garbage.usage().completion_tokens, 8192) << "no answer is longer than what was asked for";
  Client nobody = Client(
      [] {
        ChatOptions options;
        options.url = "http://127.0.0.1:1";
        return options;
      }(),
      transport());
  EXPECT_EQ(nobody.ask().usage().prompt_tokens, 0) << "nobody was reached";
}

INSTANTIATE_TEST_SUITE_P(Transports, Chat, ::testing::Values("curl", "plain"));

// Answers once so many requests are there at the same time; refuses those with `field`.
class PickyTransport final : public HttpTransport {
 public:
  PickyTransport(int together, std::string field) : left_(together), field_(std::move(field)) {}
  HttpOutcome post(const HttpRequest& request, const std::atomic<bool>&) const override {
    {
      std::unique_lock lock(mutex_);
      if (--left_ <= 0) all_there_.notify_all();
      all_there_.wait(lock, [this] { return left_ <= 0; });
    }
    if (request.body.find('"' + field_ + '"') != std::string::npos) {
      return HttpReply{
          400, {}, R"({"error": {"message": ")" + std::string(400, '.') + " extra field " + field_ + R"("}})"};
    }
    return HttpReply{200, {}, R"({"choices": [{"message": {"content": "well"}, "finish_reason": "stop"}]})"};
  }
  std::string name() const override { return "picky"; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable all_there_;
  mutable int left_;
  std::string field_;
};

TEST(ChatParallel, EveryRequestThatSentARefusedFieldIsRepeated) {
  for (const char* field : {"stream_options", "max_tokens", "temperature"}) {
    constexpr int kTogether = 4;
    ChatOptions options;
    options.url = "http://localhost:1/v1";
    Client it(options, std::make_shared<PickyTransport>(kTogether, field));
    std::vector<std::future<Exchange>> exchanges;
    for (int i = 0; i < kTogether; ++i) exchanges.push_back(std::async(std::launch::async, [&] { return it.ask(); }));
    for (auto& each : exchanges) {
      const Exchange exchange = each.get();
      ASSERT_NE(exchange.reply(), nullptr) << field << ": " << exchange.failure()->message;
      EXPECT_EQ(exchange.attempts, 2);
    }
    EXPECT_EQ(it.ask().attempts, 1) << "later ones know";
  }
}

// A certificate for 127.0.0.1 that signs itself.
void make_certificate(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_RSA_gen(2048), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), &X509_free);
  X509_set_version(x509.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
  X509_set_pubkey(x509.get(), pair.get());
  X509_NAME* name = X509_get_subject_name(x509.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("scripted"), -1, -1, 0);
  X509_set_issuer_name(x509.get(), name);
  for (const auto& [id, value] :
       {std::pair{NID_subject_alt_name, "IP:127.0.0.1"}, {NID_basic_constraints, "CA:TRUE"}}) {
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, id, value), &X509_EXTENSION_free);
    X509_add_ext(x509.get(), extension.get(), -1);
  }
  ASSERT_GT(X509_sign(x509.get(), pair.get(), EVP_sha256()), 0);
  const std::unique_ptr<FILE, decltype(&fclose)> certificate_file(fopen(certificate.c_str(), "w"), &fclose);
  const std::unique_ptr<FILE, decltype(&fclose)> key_file(fopen(key.c_str(), "w"), &fclose);
  ASSERT_TRUE(PEM_write_X509(certificate_file.get(), x509.get()));
  ASSERT_TRUE(PEM_write_PrivateKey(key_file.get(), pair.get(), nullptr, nullptr, 0, nullptr, nullptr));
}

TEST(ChatTls, TrustsOnlyWhatItIsToldTo) {
  const TemporaryDirectory directory;
  const auto certificate = directory / "certificate.pem", key = directory / "key.pem";
  make_certificate(certificate, key);
  const ScriptedServer server(nlohmann::json::array({{{"answer", "secure"}}}),
                              {"--tls", certificate.string(), key.string()});
  auto curl = open_curl();
  ASSERT_TRUE(curl) << curl.error().message;
  const std::shared_ptr<const HttpTransport> transport = std::move(*curl);
  ChatOptions options;
  options.url = server.url("https");
  unsetenv("CURL_CA_BUNDLE");
  unsetenv("SSL_CERT_FILE");
  const Exchange distrusted = Client(options, transport).ask();
  ASSERT_NE(distrusted.failure(), nullptr) << "a certificate that signs itself was believed";
  EXPECT_EQ(distrusted.failure()->kind, Kind::tls) << distrusted.failure()->message;
  EXPECT_EQ(distrusted.attempts, 1);
  setenv("SSL_CERT_FILE", certificate.c_str(), 1);
  const Exchange trusted = Client(options, transport).ask();
  unsetenv("SSL_CERT_FILE");
  ASSERT_NE(trusted.reply(), nullptr) << trusted.failure()->message;
  EXPECT_EQ(trusted.reply()->text, "secure");
  const Exchange plain = Client(options, open_plain()).ask();
  EXPECT_EQ(plain.failure()->kind, Kind::tls);
  // Plain HTTP where TLS is expected, and the other way round.
  options.url = server.url("http");
  EXPECT_NE(Client(options, transport).ask().failure(), nullptr);
}

// The scripted server as the proxy: it is sent whole URLs of a host that there is not.
TEST(ChatProxy, IsAskedForOtherHostsAndNotForThisOne) {
  const ScriptedServer proxy(nlohmann::json::array({{{"answer", "by the proxy"}}}));
  const ScriptedServer endpoint(nlohmann::json::array({{{"answer", "directly"}}}));
  auto curl = open_curl();
  ASSERT_TRUE(curl) << curl.error().message;
  const std::shared_ptr<const HttpTransport> transport = std::move(*curl);
  const std::string address = proxy.url().substr(0, proxy.url().rfind('/'));
  unsetenv("no_proxy");
  unsetenv("NO_PROXY");
  setenv("http_proxy", address.c_str(), 1);
  ChatOptions options;
  options.url = "http://models.invalid/v1";
  const Exchange far = Client(options, transport).ask();
  options.url = endpoint.url();
  const Exchange near = Client(options, transport).ask();
  setenv("no_proxy", "models.invalid", 1);
  options.url = "http://models.invalid/v1";
  options.max_attempts = 1;
  const Exchange excepted = Client(options, transport).ask();
  unsetenv("no_proxy");
  unsetenv("http_proxy");
  ASSERT_NE(far.reply(), nullptr) << far.failure()->message;
  EXPECT_EQ(far.reply()->text, "by the proxy");
  ASSERT_EQ(proxy.requests().size(), 1u);
  EXPECT_EQ(proxy.requests()[0]["path"], "http://models.invalid/v1/chat/completions");
  ASSERT_NE(near.reply(), nullptr) << near.failure()->message;
  EXPECT_EQ(near.reply()->text, "directly");
  ASSERT_NE(excepted.failure(), nullptr) << "no_proxy names this host, which does not exist";
}

TEST(ChatUrl, IsCheckedWithoutQuotingSecrets) {
  for (const auto& [text, whole] : {std::pair{"http://localhost:8000/v1", "http://localhost:8000/v1"},
                                    {"https://a.b/v1/", "https://a.b/v1/"},
                                    {"https://a.b:443", "https://a.b/"},
                                    {"http://[::1]:80/x", "http://[::1]/x"}}) {
    const auto url = parse_url(text);
    ASSERT_TRUE(url) << url.error().message;
    EXPECT_EQ(url->text(), whole);
  }
  for (const char* text : {"", "ftp://a", "localhost:8000", "http://", "http://:80/", "http://a:0/", "http://a:99999/",
                           "https://user:secret@a/v1", "https://a/v1?key=secret", "http://a/ b", "http://a\r\nX: y"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().message.find("secret"), std::string::npos) << url.error().message;
  }
  EXPECT_TRUE(same_origin("https://a.b/v1", "https://a.b:443/other"));
  for (const char* other : {"http://a.b/v1", "https://a.b:8443/v1", "https://c.b/v1", "https://a.b.c/v1", "a.b", ""}) {
    EXPECT_FALSE(same_origin("https://a.b/v1", other)) << other;
  }
  EXPECT_FALSE(same_origin("", "")) << "no URL has no origin";
  const auto client = ChatClient::make({.url = "http://a/v1", .key = "two words"}, open_plain());
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().message.find("two words"), std::string::npos);
}

TEST(ChatRetry, ReadsBothForms) {
  HttpReply reply;
  EXPECT_FALSE(retry_after_seconds(reply, 0));
  reply.headers["retry-after"] = "Thu, 01 Jan 1970 00:01:40 GMT";
  EXPECT_EQ(retry_after_seconds(reply, 70), 30);
  EXPECT_EQ(retry_after_seconds(reply, 200), 0);
  reply.headers["retry-after"] = "-3";
  EXPECT_FALSE(retry_after_seconds(reply, 0));
  reply.headers["retry-after"] = "2.5";
  EXPECT_EQ(retry_after_seconds(reply, 0), 2.5);
}

// Whatever bytes come, parsing ends with a value.
TEST(ChatParse, SurvivesGarbage) {
  const std::string seed = "data: {\"choices\": [{\"delta\": {\"content\": \"x\"}}]}\n\ndata: [DONE]\n\n";
  std::uint64_t state = 7;
  for (int round = 0; round < 2000; ++round) {
    std::string text = round % 2 == 0 ? seed : seed.substr(6, 44);
    for (int change = 0; change < 4; ++change) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text[(state >> 33) % text.size()] = static_cast<char>(state >> 21);
    }
    parse_completion(text, round % 3 != 0);
  }
  const std::string deep = "{\"choices\": " + std::string(200000, '[') + std::string(200000, ']') + "}";
  EXPECT_TRUE(std::holds_alternative<ChatFailure>(parse_completion(deep, true)));
}

}  // namespace
}  // namespace warpsmith::llm
