// The HTTP/1.1 server (Boost.Beast): connections, their limits and time limits. Knows nothing of what is served.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/http.h"

namespace warpsmith::serve {

struct HttpOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any that is free
  int threads = 4;
  std::uint64_t most_body_bytes = 16 << 20;
  std::uint32_t most_header_bytes = 16 << 10;
  int most_connections = 512;
  double read_seconds = 30;  // for a request to arrive whole, and for an answer to be taken
  double idle_seconds = 60;  // between the requests of a connection
};

class HttpServer {
 public:
  // Listens at once. The handler must outlive it. Error: bad_input for an address that is none; environment for one
  // that cannot be listened on.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, HttpHandler& handler);
  virtual ~HttpServer() = default;  // drops all connections

  virtual int port() const = 0;
  virtual int connections() const = 0;
  // No further connections, none kept alive; returns when every request has its answer, or after so many seconds.
  virtual void finish(double seconds) = 0;
};

// The address as asio reads it, "localhost" included; whether it is this machine's own. Error: bad_input.
Result<bool> is_loopback(const std::string& address);

}  // namespace warpsmith::serve
