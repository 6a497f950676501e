// Service: the API. From requests to the dispatcher and back; docs/serve.md and openapi.json describe what it speaks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/dispatcher.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/store.h"
#include "serve/submission.h"
#include "serve/token.h"
#include "train/config.h"

namespace warpsmith::serve {

struct ServiceOptions {
  Site site;
  std::vector<std::string> devices;
  std::optional<Token> token;  // absent: everybody who reaches the port is admitted
  train::RewardConfig reward{.beta = kDefaultBeta};
  std::size_t most_candidates = 1024;  // in one request
  double most_wait_seconds = 600;      // that a request may ask for
  double reward_wait_seconds = 170;    // of /get_reward: trainers give up after 180
};

class Service final : public HttpHandler {
 public:
  // Store, dispatcher and metrics must outlive it.
  Service(ServiceOptions options, Store& store, Dispatcher& dispatcher, Metrics& metrics);

  HttpResponse admit(const HttpRequest& head) override;
  void handle(HttpRequest request, Reply reply) override;
  HttpResponse refuse(int status, const std::string& reason) override;

  // From now on nothing is accepted.
  void begin_drain() { draining_ = true; }
  void count_connections(std::function<int()> count) { connections_ = std::move(count); }

 private:
  struct Route;
  static const std::vector<Route>& routes();
  static const Route* find_route(const std::string& path);

  void health(const HttpRequest& request, const Reply& reply);
  void show_metrics(const HttpRequest& request, const Reply& reply);
  void show_openapi(const HttpRequest& request, const Reply& reply);
  void show_devices(const HttpRequest& request, const Reply& reply);
  void submit(const HttpRequest& request, const Reply& reply);
  void look(const HttpRequest& request, const Reply& reply);
  void get_reward(const HttpRequest& request, const Reply& reply);

  // A completion: the candidate in it, or why there is none.
  struct Completion {
    std::string id;  // of its candidate
    std::int64_t tokens = 0;
    std::string complaint;
  };

  Result<Submission> read(const nlohmann::json& candidate) const;
  // Why nothing was accepted; nullopt: `acceptance` has the receipts.
  std::optional<HttpResponse> accept(const std::vector<Submission>& submissions, Acceptance& acceptance);
  Result<nlohmann::json> describe(const std::string& id);
  HttpResponse answer_completions(const std::vector<Completion>& completions);

  const ServiceOptions options_;
  Store& store_;
  Dispatcher& dispatcher_;
  Metrics& metrics_;
  std::atomic<bool> draining_{false};
  std::function<int()> connections_;
};

// {"error": reason}
HttpResponse error_response(int status, const std::string& reason);
HttpResponse json_response(int status, const nlohmann::json& json);
// Replies with what `make` returns, or with 500 where it throws.
void answer_with(const HttpHandler::Reply& reply, const std::function<HttpResponse()>& make);

}  // namespace warpsmith::serve
