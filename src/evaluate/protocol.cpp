// JSON forms of the worker's messages.
#include "evaluate/protocol.h"

namespace warpsmith {

void to_json(nlohmann::json& json, const WorkerRequest& request) {
  json = {{"operation", request.operation},
          {"problem", request.problem},
          {"seed", request.seed},
          {"effort", request.effort},
          {"binary", request.binary},
          {"key", request.key},
          {"launch", request.launch},
          {"order_nondeterministic", request.order_nondeterministic},
          {"nondeterminism_reason", request.nondeterminism_reason},
          {"best_us", request.best_us},
          {"too_slow_us", request.too_slow_us}};
  if (!request.survey.is_null()) json["survey"] = request.survey;
  if (!request.task.is_null()) json["task"] = request.task;
}

void from_json(const nlohmann::json& json, WorkerRequest& request) {
  json.at("operation").get_to(request.operation);
  json.at("problem").get_to(request.problem);
  json.at("seed").get_to(request.seed);
  json.at("effort").get_to(request.effort);
  json.at("binary").get_to(request.binary);
  json.at("key").get_to(request.key);
  request.launch = json.at("launch");
  json.at("order_nondeterministic").get_to(request.order_nondeterministic);
  json.at("nondeterminism_reason").get_to(request.nondeterminism_reason);
  json.at("best_us").get_to(request.best_us);
  json.at("too_slow_us").get_to(request.too_slow_us);
  request.survey = json.value("survey", nlohmann::json());
  request.task = json.value("task", nlohmann::json());
}

void to_json(nlohmann::json& json, const ComparisonReport& report) {
  json = {{"gates", report.gates},
          {"crash", report.crash},
          {"subjects", report.subjects},
          {"versions", report.versions},
          {"baseline_choices", report.baseline_choices}};
  if (report.score) json["score"] = *report.score;
}

void from_json(const nlohmann::json& json, ComparisonReport& report) {
  json.at("gates").get_to(report.gates);
  json.at("crash").get_to(report.crash);
  json.at("subjects").get_to(report.subjects);
  json.at("versions").get_to(report.versions);
  report.baseline_choices = json.at("baseline_choices");
  report.score.reset();
  if (const auto score = json.find("score"); score != json.end()) report.score = score->get<PairedScore>();
}

nlohmann::json error_to_json(const Error& error) {
  return {{"kind", static_cast<int>(error.kind)}, {"message", error.message}};
}

Error error_from_json(const nlohmann::json& json) {
  const int kind = json.at("kind").get<int>();
  const bool known = kind >= 0 && kind <= static_cast<int>(ErrorKind::failed);
  return {known ? static_cast<ErrorKind>(kind) : ErrorKind::failed, json.at("message").get<std::string>()};
}

}  // namespace warpsmith
