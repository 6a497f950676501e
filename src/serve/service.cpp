// Routes, and everything but the OpenRLHF protocol.
#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <utility>

#include "archive/record_text.h"
#include "base/text.h"
#include "serve/embedded.h"

namespace warpsmith::serve {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kCandidates = "/v1/candidates/";

// "wait=12.5" of a query. nullopt: not a number of seconds.
std::optional<double> wait_of(std::string_view query) {
  constexpr std::string_view kName = "wait=";
  if (query.empty()) return 0;
  if (!query.starts_with(kName)) return std::nullopt;
  query.remove_prefix(kName.size());
  double seconds = 0;
  const auto [end, error] = std::from_chars(query.data(), query.data() + query.size(), seconds);
  if (error != std::errc() || end != query.data() + query.size()) return std::nullopt;
  return seconds;
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view kType = "application/json";
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return type.size() >= kType.size() &&
         std::equal(kType.begin(), kType.end(), type.begin(),
                    [](char a, char b) { return a == (b | 0x20) || a == b; }) &&
         type.find_first_not_of(' ', kType.size()) == std::string_view::npos;
}

// What a request to submit holds.
struct Batch {
  std::vector<Json> candidates;
  double wait_seconds = 0;
  bool single = false;  // one candidate, not a list
};

Result<Batch> read_batch(Json json, std::size_t most, double most_wait) {
  if (!json.is_object()) return bad_input("the body is no object; accepted: a candidate, or {\"candidates\": [...]}");
  Batch batch;
  if (const auto wait = json.find("wait_seconds"); wait != json.end()) {
    batch.wait_seconds = wait->is_number() ? wait->get<double>() : -1;
    if (!(batch.wait_seconds >= 0) || batch.wait_seconds > most_wait) {
      return bad_input(fmt::format("'wait_seconds' is not accepted; accepted: 0 to {:g}", most_wait));
    }
    json.erase("wait_seconds");
  }
  const auto list = json.find("candidates");
  batch.single = list == json.end();
  if (batch.single) {
    batch.candidates.push_back(std::move(json));
    return batch;
  }
  if (json.size() != 1) return bad_input("beside \"candidates\" only \"wait_seconds\" is accepted");
  if (!list->is_array() || list->empty() || list->size() > most) {
    return bad_input(fmt::format("'candidates' is not accepted; accepted: a list of 1 to {} candidates", most));
  }
  for (Json& candidate : *list) batch.candidates.push_back(std::move(candidate));
  return batch;
}

}  // namespace

HttpResponse json_response(int status, const Json& json) { return {status, record_text(json) + "\n"}; }

HttpResponse error_response(int status, const std::string& reason) {
  HttpResponse response = json_response(status, {{"error", reason}});
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"warpsmith\"");
  return response;
}

// Whatever is thrown while a request is answered concerns that request only.
static HttpResponse failed_response(const std::exception& error) {
  fmt::print(stderr, "warpsmith serve: {}\n", printable(error.what(), 200));
  return error_response(500, "the server failed; its log says why");
}

void answer_with(const HttpHandler::Reply& reply, const std::function<HttpResponse()>& make) {
  HttpResponse response;
  try {
    response = make();
  } catch (const std::exception& error) {
    response = failed_response(error);
  }
  reply(std::move(response));
}

struct Service::Route {
  const char* path;  // one that ends in '/' stands for everything below it
  const char* method;
  bool open;  // needs no token
  void (Service::*handler)(const HttpRequest&, const Reply&);
};

const std::vector<Service::Route>& Service::routes() {
  static const std::vector<Route> kRoutes = {
      {"/healthz", "GET", true, &Service::health},           {"/openapi.json", "GET", true, &Service::show_openapi},
      {"/metrics", "GET", false, &Service::show_metrics},    {"/get_reward", "POST", false, &Service::get_reward},
      {"/v1/devices", "GET", false, &Service::show_devices}, {"/v1/candidates", "POST", false, &Service::submit},
      {kCandidates.data(), "GET", false, &Service::look},
  };
  return kRoutes;
}

const Service::Route* Service::find_route(const std::string& path) {
  for (const Route& route : routes()) {
    const std::string_view pattern = route.path;
    const bool below = pattern.ends_with('/') && path.size() > pattern.size() && path.starts_with(pattern);
    if (below || path == pattern) return &route;
  }
  return nullptr;
}

Service::Service(ServiceOptions options, Store& store, Dispatcher& dispatcher, Metrics& metrics)
    : options_(std::move(options)), store_(store), dispatcher_(dispatcher), metrics_(metrics) {}

HttpResponse Service::admit(const HttpRequest& head) {
  const Route* route = find_route(head.path);
  const auto refused = [&](HttpResponse response) {
    metrics_.request(route == nullptr ? "other" : route->path, response.status);
    return response;
  };
  // Without a token the paths are not told apart.
  if ((route == nullptr || !route->open) && options_.token && !options_.token->admits(head.authorization)) {
    return refused(error_response(401, "no token, or a wrong one; accepted: Authorization: Bearer TOKEN"));
  }
  if (route == nullptr) {
    std::string paths;
    for (const Route& each : routes()) paths += fmt::format("{}{}", paths.empty() ? "" : ", ", each.path);
    return refused(error_response(404, fmt::format("there is no '{}'; accepted: {}", printable(head.path), paths)));
  }
  if (head.method != route->method) {
    HttpResponse response = error_response(
        405, fmt::format("'{}' is not accepted here; accepted: {}", printable(head.method), route->method));
    response.headers.emplace_back("Allow", route->method);
    return refused(std::move(response));
  }
  // A page of a web browser cannot send this type to another site without asking first, which is refused.
  if (head.method == "POST" && !is_json(head.content_type)) {
    return refused(error_response(415, fmt::format("content type '{}' is not accepted; accepted: application/json",
                                                   printable(head.content_type))));
  }
  return {};
}

void Service::handle(HttpRequest request, Reply reply) {
  const Route* route = find_route(request.path);
  const Reply counted = [this, path = std::string(route->path), reply = std::move(reply)](HttpResponse response) {
    metrics_.request(path, response.status);
    reply(std::move(response));
  };
  try {
    (this->*route->handler)(request, counted);
  } catch (const std::exception& error) {
    counted(failed_response(error));  // handlers reply last, so nothing has been answered yet
  }
}

HttpResponse Service::refuse(int status, const std::string& reason) {
  metrics_.request("other", status);
  return error_response(status, reason);
}

void Service::health(const HttpRequest&, const Reply& reply) {
  if (draining_) return reply(json_response(503, {{"status", "draining"}}));
  reply(json_response(200, {{"status", "ok"}}));
}

void Service::show_metrics(const HttpRequest&, const Reply& reply) {
  Metrics::Gauges gauges;
  if (auto counts = store_.counts()) gauges.queues = std::move(*counts);
  if (const auto elsewhere = store_.elsewhere()) {
    for (const auto& [site, count] : *elsewhere) gauges.elsewhere += count;
  }
  gauges.connections = connections_ ? connections_() : 0;
  gauges.draining = draining_;
  reply({200, metrics_.text(gauges), "text/plain; version=0.0.4"});
}

void Service::show_openapi(const HttpRequest&, const Reply& reply) {
  reply({200, std::string(serve_files().at("serve/openapi.json"))});
}

void Service::show_devices(const HttpRequest&, const Reply& reply) {
  const auto counts = store_.counts();
  Json list = Json::array();
  for (const std::string& name : options_.devices) {
    Json device = {{"name", name}, {"target", to_string(options_.site.target)}, {"machine", options_.site.machine}};
    if (counts && counts->count(name) != 0) {
      device["queued"] = counts->at(name).first;
      device["running"] = counts->at(name).second;
    }
    list.push_back(std::move(device));
  }
  Json json = {{"devices", std::move(list)}, {"alpha", options_.reward.alpha}, {"beta", options_.reward.beta}};
  if (options_.site.problem) json["problem"] = to_string(*options_.site.problem);
  reply(json_response(200, json));
}

Result<Submission> Service::read(const Json& candidate) const {
  auto submission = read_submission(candidate, options_.site);
  if (!submission || submission->device.empty()) return submission;
  if (std::find(options_.devices.begin(), options_.devices.end(), submission->device) == options_.devices.end()) {
    return bad_input(fmt::format("there is no device '{}'; accepted: {}", printable(submission->device),
                                 fmt::join(options_.devices, ", ")));
  }
  return submission;
}

std::optional<HttpResponse> Service::accept(const std::vector<Submission>& submissions, Acceptance& acceptance) {
  const auto count = static_cast<std::int64_t>(submissions.size());
  if (draining_) {
    metrics_.submitted("refused", count);
    return error_response(503, "the server is ending; what it has accepted is kept");
  }
  auto accepted = dispatcher_.submit(submissions);
  if (!accepted) {
    fmt::print(stderr, "warpsmith serve: {}\n", accepted.error().message);
    metrics_.submitted("refused", count);
    return error_response(503, "the queue cannot be written; the server's log says why");
  }
  if (accepted->receipts.empty() && count > 0) {
    metrics_.submitted("refused", count);
    return error_response(429, "the queue is full; ask again later");
  }
  acceptance = std::move(*accepted);
  for (const Receipt& receipt : acceptance.receipts) metrics_.submitted(receipt.duplicate ? "duplicate" : "queued");
  return std::nullopt;
}

void Service::submit(const HttpRequest& request, const Reply& reply) {
  auto json = parse_json(request.body);
  if (!json) return reply(error_response(400, json.error().message));
  auto batch = read_batch(std::move(*json), options_.most_candidates, options_.most_wait_seconds);
  if (!batch) return reply(error_response(422, batch.error().message));
  std::vector<Submission> submissions;
  Json results = Json::array();  // of each candidate: its error, or the number of its submission
  for (const Json& candidate : batch->candidates) {
    auto submission = read(candidate);
    if (!submission) {
      metrics_.submitted("malformed");
      results.push_back({{"error", submission.error().message}});
      continue;
    }
    results.push_back(submissions.size());
    submissions.push_back(std::move(*submission));
  }
  if (submissions.empty()) {
    return reply(json_response(422, batch->single ? results.front() : Json{{"results", results}}));
  }
  Acceptance acceptance;
  if (auto refused = accept(submissions, acceptance)) return reply(std::move(*refused));
  std::vector<std::string> ids;
  for (const Receipt& receipt : acceptance.receipts) ids.push_back(receipt.id);
  dispatcher_.wait_for(ids, batch->wait_seconds,
                       [this, reply, single = batch->single, results = std::move(results),
                        receipts = std::move(acceptance.receipts)](bool all) mutable {
                         answer_with(reply, [&] {
                           for (Json& result : results) {
                             if (!result.is_number()) continue;
                             const Receipt& receipt = receipts[result.get<std::size_t>()];
                             auto described = describe(receipt.id);
                             result = described ? std::move(*described) : Json{{"error", described.error().message}};
                             result["duplicate"] = receipt.duplicate;
                           }
                           return json_response(all ? 200 : 202, single ? results.front() : Json{{"results", results}});
                         });
                       });
}

void Service::look(const HttpRequest& request, const Reply& reply) {
  const std::string id = request.path.substr(kCandidates.size());
  const auto wait = wait_of(request.query);
  if (!wait || !(*wait >= 0) || *wait > options_.most_wait_seconds) {
    return reply(error_response(422, fmt::format("query '{}' is not accepted; accepted: wait=SECONDS, at most {:g}",
                                                 printable(request.query), options_.most_wait_seconds)));
  }
  const auto state = store_.state(id);
  if (!state) return reply(error_response(503, "the queue cannot be read; the server's log says why"));
  if (!*state) return reply(error_response(404, fmt::format("there is no candidate '{}'", printable(id, 64))));
  dispatcher_.wait_for({id}, *wait, [this, reply, id](bool all) {
    answer_with(reply, [&] {
      const auto described = describe(id);
      return described ? json_response(all ? 200 : 202, *described) : error_response(503, described.error().message);
    });
  });
}

Result<Json> Service::describe(const std::string& id) {
  const auto found = store_.find(id);
  if (!found) return found.error();
  if (!*found) return failure("the candidate is gone");
  const Job& job = **found;
  Json json = {{"id", job.id},          {"state", to_string(job.state)},     {"device", job.device},
               {"candidate", job.name}, {"problem", to_string(job.problem)}, {"priority", job.priority},
               {"tokens", job.tokens},  {"measured", job.measured},          {"accepted_at", job.accepted}};
  if (job.deadline) json["deadline"] = *job.deadline;
  if (job.finished) json["finished_at"] = *job.finished;
  if (job.state == JobState::failed) json["reason"] = job.outcome;
  if (job.state == JobState::expired) json["reason"] = "its deadline passed before it was measured";
  if (job.state != JobState::done) return json;
  const auto outcome = Json::parse(job.outcome).get<Outcome>();
  const Reward reward = reward_of(outcome, job.tokens, options_.reward);
  json["verdict"] = outcome.verdict;
  json["text"] = outcome.verdict.describe();
  json["reward"] = reward.reward;
  json["score"] = reward.score;
  json["speedup"] = reward.speedup;
  json["difference"] = reward.difference;
  if (outcome.paired) json["paired"] = *outcome.paired;
  json["reference"] = outcome.reference;
  json["reference_us"] = outcome.reference_us;
  return json;
}

}  // namespace warpsmith::serve
