// HttpTransport over sockets, for hosts without libcurl whose model server is near: HTTP/1.1 without TLS and proxies.
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "llm/http.h"

namespace warpsmith::llm {

namespace {

using Kind = HttpFailure::Kind;
using Clock = std::chrono::steady_clock;

constexpr double kPollSeconds = 0.1;  // between looks at the stop flag
constexpr std::size_t kMaxHeadBytes = 64 << 10;

// A connected socket with the request's limits on everything that waits.
class Connection {
 public:
  Connection(const HttpRequest& request, const std::atomic<bool>& stop) : request_(request), stop_(stop) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }

  std::optional<HttpFailure> connect_to(const Url& url);
  std::optional<HttpFailure> send_all(std::string_view bytes);
  // Appends what comes next; `ended`: the other side closed.
  std::optional<HttpFailure> receive(std::string& bytes, bool& ended);

 private:
  std::optional<HttpFailure> wait_for(short events, double seconds);
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  static HttpFailure broken() { return {Kind::broken, std::strerror(errno)}; }

  const HttpRequest& request_;
  const std::atomic<bool>& stop_;
  Clock::time_point start_ = Clock::now();
  int fd_ = -1;
};

std::optional<HttpFailure> Connection::wait_for(short events, double seconds) {
  const double limit = std::min(elapsed() + seconds, request_.total_seconds);
  for (;;) {
    if (stop_.load()) return HttpFailure{Kind::stopped, "stopped"};
    const double left = limit - elapsed();
    if (!(left > 0)) return HttpFailure{Kind::timed_out, fmt::format("no answer within {:.0f} s", elapsed())};
    pollfd entry{fd_, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min(left, kPollSeconds) * 1e3) + 1);
    if (ready > 0) return std::nullopt;
    if (ready < 0 && errno != EINTR) return broken();
  }
}

std::optional<HttpFailure> Connection::connect_to(const Url& url) {
  std::string host = url.host;
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(url.port).c_str(), &hints, &found); error != 0) {
    return HttpFailure{Kind::cannot_connect, fmt::format("{}: {}", printable(host, 100), gai_strerror(error))};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  std::string reason = "no address";
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (fd_ >= 0) close(fd_);
    fd_ = socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol);
    if (fd_ < 0) return broken();
    int error = connect(fd_, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (auto failure = wait_for(POLLOUT, request_.connect_seconds)) return failure;
      socklen_t size = sizeof error;
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return std::nullopt;
    reason = std::strerror(error);
  }
  return HttpFailure{Kind::cannot_connect, fmt::format("{} port {}: {}", printable(host, 100), url.port, reason)};
}

std::optional<HttpFailure> Connection::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    if (auto failure = wait_for(POLLOUT, request_.silence_seconds)) return failure;
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return broken();
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return std::nullopt;
}

std::optional<HttpFailure> Connection::receive(std::string& bytes, bool& ended) {
  if (auto failure = wait_for(POLLIN, request_.silence_seconds)) return failure;
  char buffer[16 << 10];
  const ssize_t count = recv(fd_, buffer, sizeof buffer, 0);
  if (count < 0 && errno != EAGAIN && errno != EINTR) return broken();
  ended = count == 0;
  if (count > 0) bytes.append(buffer, static_cast<std::size_t>(count));
  return std::nullopt;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& byte : result) byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  return result;
}

// Status and headers of "HTTP/1.1 200 OK\r\n...". False: no such thing.
bool parse_head(std::string_view head, HttpReply& reply) {
  const std::size_t space = head.find(' ');
  if (head.rfind("HTTP/1.", 0) != 0 || space == std::string_view::npos) return false;
  std::from_chars(head.data() + space + 1, head.data() + head.size(), reply.status);
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::size_t first = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
    reply.headers[lower(line.substr(0, colon))] = line.substr(first, line.find_last_not_of(" \t") + 1 - first);
  }
  return reply.status >= 100 && reply.status < 600;
}

enum class Progress { more, done, malformed };

// Takes whole chunks (RFC 9112, 7.1) off the front of `raw`.
Progress take_chunks(std::string& raw, std::string& body) {
  for (;;) {
    const std::size_t end = raw.find("\r\n");
    if (end == std::string::npos) return raw.size() > 1024 ? Progress::malformed : Progress::more;
    std::size_t size = 0;
    const auto [stop, error] = std::from_chars(raw.data(), raw.data() + end, size, 16);
    if (error != std::errc() || stop == raw.data() || size > (std::size_t{1} << 32)) return Progress::malformed;
    if (size == 0) return Progress::done;
    if (raw.size() < end + 2 + size + 2) return Progress::more;
    body.append(raw, end + 2, size);
    raw.erase(0, end + 2 + size + 2);
  }
}

class PlainTransport final : public HttpTransport {
 public:
  std::string name() const override { return "plain HTTP (there is no libcurl)"; }

  HttpOutcome post(const HttpRequest& request, const std::atomic<bool>& stop) const override {
    const auto url = parse_url(request.url);
    if (!url) return HttpFailure{Kind::broken, url.error().message};
    if (url->tls) return HttpFailure{Kind::tls, "https:// needs libcurl (libcurl.so.4), and there is none"};
    Connection connection(request, stop);
    if (auto failure = connection.connect_to(*url)) return *failure;
    std::string head = fmt::format("POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Length: {}\r\nConnection: close\r\n",
                                   url->path, url->host, url->port, request.body.size());
    for (const auto& [name, value] : request.headers) head += name + ": " + value + "\r\n";
    if (auto failure = connection.send_all(head + "\r\n" + request.body)) return *failure;
    HttpReply reply;
    HttpOutcome outcome = receive(request, connection, reply);
    if (auto* failure = std::get_if<HttpFailure>(&outcome)) {
      failure->sent = reply.status < 300;
      failure->received_bytes = reply.body.size();
    }
    return outcome;
  }

 private:
  static HttpOutcome receive(const HttpRequest& request, Connection& connection, HttpReply& reply) {
    std::string raw;
    bool ended = false;
    std::size_t head = std::string::npos;
    while (head == std::string::npos) {
      if (ended || raw.size() > kMaxHeadBytes) return HttpFailure{Kind::broken, "the server sent no HTTP headers"};
      if (auto failure = connection.receive(raw, ended)) return *failure;
      head = raw.find("\r\n\r\n");
    }
    if (!parse_head(std::string_view(raw).substr(0, head + 2), reply)) {
      return HttpFailure{Kind::broken, "the server does not speak HTTP/1"};
    }
    raw.erase(0, head + 4);
    const auto encoding = reply.headers.find("transfer-encoding");
    const bool chunked = encoding != reply.headers.end() && lower(encoding->second) == "chunked";
    const auto length = reply.headers.find("content-length");
    for (;;) {
      if (chunked) {
        const Progress progress = take_chunks(raw, reply.body);
        if (progress == Progress::malformed) return HttpFailure{Kind::broken, "the server's chunks are malformed"};
        if (progress == Progress::done) return reply;
      } else {
        reply.body += raw;
        raw.clear();
        if (length != reply.headers.end() && reply.body.size() >= std::strtoull(length->second.c_str(), nullptr, 10)) {
          return reply;
        }
      }
      if (reply.body.size() + raw.size() > request.max_reply_bytes) {
        return HttpFailure{Kind::too_large, fmt::format("the reply exceeds {} bytes", request.max_reply_bytes)};
      }
      if (ended) {
        reply.complete = !chunked && length == reply.headers.end();
        return reply;
      }
      if (auto failure = connection.receive(raw, ended)) return *failure;
    }
  }
};

}  // namespace

std::unique_ptr<HttpTransport> open_plain() { return std::make_unique<PlainTransport>(); }

}  // namespace warpsmith::llm
