// One HTTP exchange with a limit on everything: time to connect, silence, whole time, size. TLS is verified, redirects
// are not followed (they could carry a key elsewhere), proxies come from the environment as for curl.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace warpsmith::llm {

struct HttpRequest {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // sent with POST
  double connect_seconds = 15;
  double silence_seconds = 120;  // without a byte
  double total_seconds = 600;
  std::size_t max_reply_bytes = 4 << 20;
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool complete = true;  // false: the connection ended before the reply did
};

struct HttpFailure {
  enum class Kind { cannot_connect, timed_out, tls, too_large, stopped, broken };
  Kind kind = Kind::broken;
  std::string message;  // one line, without what the URL may hold of secrets
  bool sent = false;    // the request had gone out, and no status has refused it: the server may have worked on it
  std::size_t received_bytes = 0;  // of the reply's body
};
using HttpOutcome = std::variant<HttpReply, HttpFailure>;

// Thread-safe.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  // Ends early once `stop` is set.
  virtual HttpOutcome post(const HttpRequest& request, const std::atomic<bool>& stop) const = 0;
  virtual std::string name() const = 0;  // "libcurl/7.88.1 ..."
};

// Through libcurl, which is opened at run time; where there is none, an HTTP client of our own, which knows neither TLS
// nor proxies.
std::unique_ptr<HttpTransport> open_transport();
// Error: environment, when there is no libcurl.
Result<std::unique_ptr<HttpTransport>> open_curl();
std::unique_ptr<HttpTransport> open_plain();

// The parts of "http://HOST[:PORT][/PATH]" or https://. Error (bad_input): another scheme, credentials (keys belong in
// the environment), a query, characters that no URL has.
struct Url {
  bool tls = false;
  std::string host;
  int port = 0;
  std::string path;  // begins with '/'; "/" where there was none
  bool loopback() const;
  std::string text() const;
};
Result<Url> parse_url(std::string_view text);
// Whether both are URLs of one scheme, host and port: what one of them may know, the other may.
bool same_origin(std::string_view one, std::string_view other);

}  // namespace warpsmith::llm
