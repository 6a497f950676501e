// Requests as JSON, replies from JSON or server-sent events, and when to ask again.
#include "llm/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/text.h"

namespace warpsmith::llm {

namespace {

using Kind = ChatFailure::Kind;
using Clock = std::chrono::steady_clock;
using Outcome = std::variant<ChatReply, ChatFailure>;

constexpr std::size_t kQuotedBytes = 300;  // of a server's words in a message

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ChatFailure fail(Kind kind, std::string message, std::string partial = {}) {
  return {kind, std::move(message), 0, std::nullopt, std::move(partial)};
}

// The text of `content`: a string, null, or a list of parts.
std::string text_of(const nlohmann::json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (!content->is_array()) return text;
  for (const auto& part : *content) {
    if (part.is_object() && part.contains("text") && part["text"].is_string()) text += part["text"].get<std::string>();
  }
  return text;
}

// "error" as an object with a message, or as a string.
std::optional<std::string> error_in(const nlohmann::json& json) {
  const auto error = json.find("error");
  if (error == json.end() || error->is_null()) return std::nullopt;
  if (error->is_object() && error->contains("message") && (*error)["message"].is_string()) {
    return (*error)["message"].get<std::string>();
  }
  return error->is_string() ? error->get<std::string>() : error->dump();
}

std::int64_t count_in(const nlohmann::json& usage, const char* name) {
  const auto value = usage.find(name);
  const std::int64_t count = value != usage.end() && value->is_number_integer() ? value->get<std::int64_t>() : 0;
  return std::max<std::int64_t>(count, 0);
}

// Takes over what one JSON object of a reply says; `part` is "message" or, in a stream, "delta".
void take(const nlohmann::json& json, const char* part, ChatReply& reply) {
  if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object()) {
    reply.usage = {count_in(*usage, "prompt_tokens"), count_in(*usage, "completion_tokens"), false};
  }
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty() || !choices->front().is_object()) return;
  const nlohmann::json& choice = choices->front();
  if (choice.contains(part) && choice[part].is_object()) reply.text += text_of(choice[part]);
  if (choice.contains("finish_reason") && choice["finish_reason"].is_string()) {
    reply.finish_reason = choice["finish_reason"].get<std::string>();
  }
}

Outcome parse_whole(std::string_view body) {
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fail(Kind::malformed, "the reply is no JSON object: " + printable(body, 80));
  }
  if (const auto error = error_in(json)) return fail(Kind::server, printable(*error, kQuotedBytes));
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty() || !choices->front().is_object() ||
      !choices->front().contains("message")) {
    return fail(Kind::malformed, "the reply has no choices[0].message: " + printable(body, 80));
  }
  ChatReply reply;
  take(json, "message", reply);
  return reply;
}

// Server-sent events: "data:" lines, joined up to a blank line; [DONE] ends them.
class EventStream {
 public:
  // False: no more is wanted.
  bool take_line(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) return dispatch();
    if (line.rfind("data:", 0) != 0) return true;  // comments, event names
    line.remove_prefix(std::min<std::size_t>(line.size(), line.substr(5, 1) == " " ? 6 : 5));
    if (!data_.empty()) data_.push_back('\n');
    data_.append(line);
    return true;
  }

  Outcome finish() {
    dispatch();
    if (failure_) return *failure_;
    if (events_ == 0) return fail(Kind::malformed, "the stream holds no event");
    if (!done_ && reply_.finish_reason.empty()) {
      return fail(Kind::truncated, fmt::format("the stream ended after {} bytes of text", reply_.text.size()),
                  reply_.text);
    }
    return std::move(reply_);
  }

 private:
  bool dispatch() {
    if (data_.empty() || done_ || failure_) return !done_ && !failure_;
    const std::string data = std::exchange(data_, {});
    if (data == "[DONE]") {
      done_ = true;
      return false;
    }
    const nlohmann::json json = nlohmann::json::parse(data, nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
      failure_ = fail(Kind::malformed, "an event of the stream is no JSON object: " + printable(data, 80), reply_.text);
    } else if (const auto error = error_in(json)) {
      failure_ = fail(Kind::server, printable(*error, kQuotedBytes), reply_.text);
    } else {
      ++events_;
      take(json, "delta", reply_);
    }
    return !failure_;
  }

  ChatReply reply_;
  std::optional<ChatFailure> failure_;
  std::string data_;
  std::int64_t events_ = 0;
  bool done_ = false;
};

Outcome parse_stream(std::string_view body) {
  EventStream stream;
  while (!body.empty()) {
    const std::size_t end = std::min(body.find('\n'), body.size());
    if (!stream.take_line(body.substr(0, end))) break;
    body.remove_prefix(std::min(end + 1, body.size()));
  }
  return stream.finish();
}

ChatFailure from_http(const HttpFailure& failure) {
  const auto kind = [&] {
    switch (failure.kind) {
      case HttpFailure::Kind::timed_out:
        return Kind::timed_out;
      case HttpFailure::Kind::tls:
        return Kind::tls;
      case HttpFailure::Kind::too_large:
        return Kind::too_large;
      case HttpFailure::Kind::stopped:
        return Kind::stopped;
      default:
        return Kind::unreachable;
    }
  }();
  return fail(kind, failure.message);
}

bool worth_repeating(const ChatFailure& failure) {
  switch (failure.kind) {
    case Kind::overloaded:
    case Kind::server:
    case Kind::unreachable:
    case Kind::timed_out:
    case Kind::truncated:
      return true;
    default:
      return false;
  }
}

// Where nobody counts: a quarter of the bytes.
std::int64_t tokens_in(std::size_t bytes) { return static_cast<std::int64_t>(bytes / 4 + 1); }
std::int64_t prompt_estimate(const ChatRequest& request) {
  std::size_t bytes = 0;
  for (const Message& message : request.messages) bytes += message.content.size();
  return tokens_in(bytes);
}

void sleep_for(double seconds, const std::atomic<bool>& stop) {
  const auto start = Clock::now();
  while (!stop.load() && seconds_since(start) < seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(0.1, seconds - seconds_since(start))));
  }
}

// Half of it fixed, half drawn, so that many clients do not come back together.
double jittered(double seconds) {
  thread_local std::minstd_rand engine(std::random_device{}());
  return seconds * (0.5 + 0.5 * std::generate_canonical<double, 24>(engine));
}

}  // namespace

Usage operator+(const Usage& a, const Usage& b) {
  return {a.prompt_tokens + b.prompt_tokens, a.completion_tokens + b.completion_tokens, a.estimated || b.estimated};
}

Usage Exchange::usage() const { return reply() != nullptr ? reply()->usage + lost : lost; }

std::string_view to_string(ChatFailure::Kind kind) {
  switch (kind) {
    case Kind::refused:
      return "refused";
    case Kind::overloaded:
      return "overloaded";
    case Kind::server:
      return "server error";
    case Kind::unreachable:
      return "unreachable";
    case Kind::timed_out:
      return "timed out";
    case Kind::tls:
      return "TLS";
    case Kind::too_large:
      return "too large";
    case Kind::malformed:
      return "malformed";
    case Kind::truncated:
      return "truncated";
    case Kind::stopped:
      return "stopped";
  }
  return "";
}

Outcome parse_completion(std::string_view body, bool complete) {
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return fail(complete ? Kind::malformed : Kind::truncated, "the reply is empty");
  }
  const bool whole = body[first] == '{';
  if (whole && !complete) return fail(Kind::truncated, fmt::format("the reply ended after {} bytes", body.size()));
  return whole ? parse_whole(body) : parse_stream(body);
}

std::optional<double> retry_after_seconds(const HttpReply& reply, std::int64_t now_unix) {
  const auto number = [](const std::string& text) -> std::optional<double> {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != 0 || !std::isfinite(value) || value < 0) return std::nullopt;
    return value;
  };
  if (const auto header = reply.headers.find("retry-after-ms"); header != reply.headers.end()) {
    if (const auto value = number(header->second)) return *value / 1e3;
  }
  const auto header = reply.headers.find("retry-after");
  if (header == reply.headers.end()) return std::nullopt;
  if (const auto value = number(header->second)) return value;
  std::tm date{};
  if (strptime(header->second.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date) == nullptr) return std::nullopt;
  return std::max(0.0, static_cast<double>(timegm(&date) - now_unix));
}

Result<std::unique_ptr<ChatClient>> ChatClient::make(ChatOptions options,
                                                     std::shared_ptr<const HttpTransport> transport, Sleep sleep) {
  auto url = parse_url(options.url);
  if (!url) return url.error();
  const bool odd =
      std::any_of(options.key.begin(), options.key.end(), [](char byte) { return byte <= ' ' || byte > '~'; });
  if (odd) return bad_input("the key holds characters that no key has; accepted: printable ASCII without blanks");
  constexpr std::string_view kEndpoint = "/chat/completions";
  while (!url->path.empty() && url->path.back() == '/') url->path.pop_back();
  const bool whole = url->path.size() >= kEndpoint.size() &&
                     url->path.compare(url->path.size() - kEndpoint.size(), kEndpoint.size(), kEndpoint) == 0;
  if (!whole) url->path += kEndpoint;
  return std::unique_ptr<ChatClient>(new ChatClient(std::move(options), url->text(), std::move(transport),
                                                    sleep ? std::move(sleep) : Sleep(sleep_for)));
}

ChatClient::ChatClient(ChatOptions options, std::string url, std::shared_ptr<const HttpTransport> transport,
                       Sleep sleep)
    : options_(std::move(options)), url_(std::move(url)), transport_(std::move(transport)), sleep_(std::move(sleep)) {}

std::string ChatClient::body_of(const ChatRequest& request, Attempt& attempt) const {
  const std::lock_guard lock(mutex_);
  const auto takes = [&](const char* field) {
    if (unknown_fields_.count(field) != 0) return false;
    attempt.fields.insert(field);
    return true;
  };
  nlohmann::json body = {{"model", request.model}, {"messages", nlohmann::json::array()}, {"stream", options_.stream}};
  for (const Message& message : request.messages) {
    body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  if (takes("temperature")) body["temperature"] = request.temperature;
  body[takes("max_tokens") ? "max_tokens" : "max_completion_tokens"] = request.max_tokens;
  if (options_.stream && takes("stream_options")) body["stream_options"] = {{"include_usage", true}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ChatClient::without_key(std::string text) const {
  constexpr std::string_view kInstead = "[key]";
  const std::string& key = options_.key;
  if (key.size() < kLeastSecretBytes) return text;
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + kInstead.size())) {
    text.replace(at, key.size(), kInstead);
  }
  return text;
}

// A reply with a status of 300 or more.
ChatFailure ChatClient::refusal(const HttpReply& reply, Attempt& attempt) {
  const nlohmann::json json = nlohmann::json::parse(reply.body, nullptr, false);
  std::string words = reply.body;
  if (json.is_object()) {
    if (const auto error = error_in(json)) words = *error;
  }
  if (reply.status == 400 || reply.status == 422) adapt(words, attempt);
  ChatFailure failure;
  const bool busy = reply.status == 429;
  failure.kind = busy ? Kind::overloaded : reply.status >= 500 || reply.status == 408 ? Kind::server : Kind::refused;
  failure.status = reply.status;
  failure.message =
      fmt::format("HTTP {}{}{}", reply.status, words.empty() ? "" : ": ", printable(without_key(words), kQuotedBytes));
  if (reply.status < 400) failure.message = fmt::format("HTTP {}: redirects are not followed", reply.status);
  failure.retry_after = retry_after_seconds(reply, std::time(nullptr));
  return failure;
}

Outcome ChatClient::send(const ChatRequest& request, double seconds, const std::atomic<bool>& stop, Attempt& attempt) {
  HttpRequest http;
  http.url = url_;
  http.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}};
  if (!options_.key.empty()) http.headers.emplace_back("Authorization", "Bearer " + options_.key);
  http.body = body_of(request, attempt);
  http.connect_seconds = options_.connect_seconds;
  http.silence_seconds = options_.silence_seconds;
  http.total_seconds = std::min(options_.total_seconds, seconds);
  http.max_reply_bytes = options_.max_reply_bytes;
  Outcome outcome = read(transport_->post(http, stop), request, attempt);
  if (auto* failure = std::get_if<ChatFailure>(&outcome)) {
    failure->message = without_key(std::move(failure->message));
    failure->partial = without_key(std::move(failure->partial));
  } else {
    ChatReply& completion = std::get<ChatReply>(outcome);
    completion.text = without_key(std::move(completion.text));
  }
  return outcome;
}

Outcome ChatClient::read(const HttpOutcome& outcome, const ChatRequest& request, Attempt& attempt) {
  if (const auto* failure = std::get_if<HttpFailure>(&outcome)) {
    attempt.reached = failure->sent;
    attempt.received = failure->received_bytes;
    return from_http(*failure);
  }
  const HttpReply& reply = std::get<HttpReply>(outcome);
  if (reply.status < 200 || reply.status > 299) return refusal(reply, attempt);
  Outcome parsed = parse_completion(reply.body, reply.complete);
  if (auto* failure = std::get_if<ChatFailure>(&parsed)) {
    failure->status = reply.status;
    attempt.reached = true;
    attempt.received = failure->partial.empty() ? reply.body.size() : failure->partial.size();
    return parsed;
  }
  ChatReply& completion = std::get<ChatReply>(parsed);
  if (completion.usage.prompt_tokens == 0 && completion.usage.completion_tokens == 0) {
    completion.usage = {prompt_estimate(request), tokens_in(completion.text.size()), true};
  }
  return parsed;
}

// Whether the server named an optional field of the request as its trouble, which later requests then leave out. Other
// requests with that field may be on their way: each of them is told so by its own refusal.
void ChatClient::adapt(const std::string& words, Attempt& attempt) {
  const std::lock_guard lock(mutex_);
  for (const std::string& field : attempt.fields) {
    if (words.find(field) == std::string::npos) continue;
    unknown_fields_.insert(field);
    attempt.refused_field = true;
  }
}

// Of a whole answer nothing is seen before its end, so that all of it may be lost; of a stream what has arrived.
Usage ChatClient::lost_by(const ChatRequest& request, const Attempt& attempt) const {
  if (!attempt.reached) return {};
  const bool unseen = !options_.stream && attempt.received == 0;
  const std::int64_t arrived = std::min(tokens_in(attempt.received), request.max_tokens);
  return {prompt_estimate(request), unseen ? request.max_tokens : arrived, true};
}

Exchange ChatClient::complete(const ChatRequest& request, double deadline_seconds,
                              const std::function<bool(const Usage&)>& may_send, const std::atomic<bool>& stop) {
  const auto start = Clock::now();
  Exchange exchange{request, ChatFailure{Kind::stopped, "the budget is spent", 0, {}, {}}, 0, 0, {}};
  double wait = options_.first_wait_seconds;
  while (!stop.load() && seconds_since(start) < deadline_seconds && may_send(exchange.lost)) {
    ++exchange.attempts;
    Attempt attempt;
    exchange.outcome = send(request, deadline_seconds - seconds_since(start), stop, attempt);
    const ChatFailure* failure = exchange.failure();
    if (failure == nullptr) break;
    exchange.lost = exchange.lost + lost_by(request, attempt);
    if (attempt.refused_field) continue;
    if (!worth_repeating(*failure) || exchange.attempts >= options_.max_attempts) break;
    const double seconds = failure->retry_after.value_or(jittered(wait));
    wait = std::min(2 * wait, options_.longest_wait_seconds);
    if (seconds > options_.patience_seconds || seconds_since(start) + seconds > deadline_seconds) break;
    sleep_(seconds, stop);
  }
  exchange.seconds = seconds_since(start);
  return exchange;
}

}  // namespace warpsmith::llm
