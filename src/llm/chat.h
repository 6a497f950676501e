// Chat completions of any OpenAI-compatible endpoint, streamed or not: what is sent, what comes back in whichever form,
// and the patience in between (back-off on 429 and 5xx, Retry-After, limits).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "llm/http.h"

namespace warpsmith::llm {

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct ChatRequest {
  std::string model;
  std::vector<Message> messages;
  double temperature = 0.8;
  std::int64_t max_tokens = 8192;
};

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  bool estimated = false;  // the server did not say: a quarter of the bytes
};

Usage operator+(const Usage& a, const Usage& b);

struct ChatReply {
  std::string text;
  std::string finish_reason;  // "stop", "length"; empty: the server did not say
  Usage usage;
};

struct ChatFailure {
  enum class Kind {
    refused,      // 4xx: asking again is pointless
    overloaded,   // 429
    server,       // 5xx
    unreachable,  // no connection, or it broke
    timed_out,
    tls,
    too_large,
    malformed,  // not a chat completion
    truncated,  // a stream that ended early
    stopped,
  };
  Kind kind = Kind::server;
  std::string message;                // one line
  int status = 0;                     // of HTTP; 0: none
  std::optional<double> retry_after;  // seconds, as the server asked
  std::string partial;                // text that had arrived
};
std::string_view to_string(ChatFailure::Kind kind);

// One request with its repetitions, for the transcript. No field ever holds the key, unless it is too short to be one.
struct Exchange {
  ChatRequest request;
  std::variant<ChatReply, ChatFailure> outcome = ChatFailure{};
  int attempts = 0;  // HTTP requests made
  double seconds = 0;
  Usage lost;  // an estimate of what attempts without an answer have cost: the model was reached, nobody counted
  // Of the answer and of what was lost before it.
  Usage usage() const;
  const ChatReply* reply() const { return std::get_if<ChatReply>(&outcome); }
  const ChatFailure* failure() const { return std::get_if<ChatFailure>(&outcome); }
};

// The body of a reply, JSON or server-sent events, whichever it is. Tokens that the server does not count are
// estimated.
std::variant<ChatReply, ChatFailure> parse_completion(std::string_view body, bool complete);
// Seconds of Retry-After (a number or an HTTP date) or retry-after-ms; nullopt: neither is there.
std::optional<double> retry_after_seconds(const HttpReply& reply, std::int64_t now_unix);

// Shorter keys are stand-ins ("EMPTY", "x") for servers that want any; a model's text may well hold them.
inline constexpr std::size_t kLeastSecretBytes = 8;

struct ChatOptions {
  std::string url;  // up to and including "/v1"; "/chat/completions" is added where it is missing
  std::string key;  // sent as a bearer token; empty: none. With kLeastSecretBytes or more it is taken out of replies
  bool stream = true;
  int max_attempts = 5;  // of one request
  double first_wait_seconds = 1, longest_wait_seconds = 60;
  double patience_seconds = 300;  // a server that asks for more is given up
  double connect_seconds = 15, silence_seconds = 180, total_seconds = 900;
  std::size_t max_reply_bytes = 4 << 20;
};

// Thread-safe.
class ChatClient {
 public:
  using Sleep = std::function<void(double seconds, const std::atomic<bool>& stop)>;
  // Error (bad_input): a URL or a key that cannot be one.
  static Result<std::unique_ptr<ChatClient>> make(ChatOptions options, std::shared_ptr<const HttpTransport> transport,
                                                  Sleep sleep = {});

  // deadline_seconds: from now; waiting beyond it is not begun. may_send: asked before every HTTP request,
  // with what this exchange has lost so far.
  Exchange complete(const ChatRequest& request, double deadline_seconds,
                    const std::function<bool(const Usage& lost)>& may_send, const std::atomic<bool>& stop);

  const std::string& url() const { return url_; }

 private:
  ChatClient(ChatOptions options, std::string url, std::shared_ptr<const HttpTransport> transport, Sleep sleep);
  // One request on its way.
  struct Attempt {
    std::set<std::string> fields;  // optional ones that it sends
    bool refused_field = false;    // one of them is what the server does not take
    bool reached = false;          // the model may have worked, and is paid for it
    std::size_t received = 0;      // bytes of text that had arrived
  };
  std::string body_of(const ChatRequest& request, Attempt& attempt) const;
  std::variant<ChatReply, ChatFailure> send(const ChatRequest& request, double seconds, const std::atomic<bool>& stop,
                                            Attempt& attempt);
  std::variant<ChatReply, ChatFailure> read(const HttpOutcome& outcome, const ChatRequest& request, Attempt& attempt);
  ChatFailure refusal(const HttpReply& reply, Attempt& attempt);
  void adapt(const std::string& words, Attempt& attempt);
  Usage lost_by(const ChatRequest& request, const Attempt& attempt) const;
  std::string without_key(std::string text) const;

  ChatOptions options_;
  std::string url_;
  std::shared_ptr<const HttpTransport> transport_;
  Sleep sleep_;
  mutable std::mutex mutex_;
  std::set<std::string> unknown_fields_;  // optional fields of a request that the server does not take
};

}  // namespace warpsmith::llm
