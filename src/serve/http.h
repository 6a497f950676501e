// HTTP as the service sees it: plain values, no library.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace warpsmith::serve {

struct HttpRequest {
  std::string method;         // "GET"
  std::string path, query;    // of the target, "/v1/candidates/abc" and "wait=5"
  std::string authorization;  // headers' values; empty: absent
  std::string content_type;
  std::string body;  // empty while only the head is there
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers{};
};

// What the HTTP server asks.
class HttpHandler {
 public:
  using Reply = std::function<void(HttpResponse)>;
  virtual ~HttpHandler() = default;
  // Looks at a request's head, before its body is read. A status other than 200 ends it.
  virtual HttpResponse admit(const HttpRequest& head) = 0;
  // Answers a request that was admitted: calls `reply` once, from any thread.
  virtual void handle(HttpRequest request, Reply reply) = 0;
  // The answer to what is no HTTP, or more of it than is accepted.
  virtual HttpResponse refuse(int status, const std::string& reason) = 0;
};

}  // namespace warpsmith::serve
