// Requests and answers, one JSON object a line: {"operation": "machine"} or {"operation": "audit", ...}; the judge
// answers with any number of {"stage": ...} and one {"done": ...} or {"error": ...}.
#include "audit/judge_client.h"

#include <fmt/format.h>

#include <chrono>

#include "base/paths.h"
#include "evaluate/protocol.h"

namespace warpsmith::audit {

namespace {

constexpr double kStartSeconds = 60;
// The judge bounds every step of the candidate itself; this is for a device that hangs under it.
constexpr double kSilentSeconds = 300;

}  // namespace

void to_json(nlohmann::json& json, const AuditOptions& options) {
  json = {{"seed", options.seed},
          {"effort_seconds", options.effort_seconds},
          {"limit_seconds", options.limit_seconds},
          {"workspace_bytes", options.workspace_bytes},
          {"sandbox", options.sandbox},
          {"timing", options.timing},
          {"readable", options.readable}};
}

void from_json(const nlohmann::json& json, AuditOptions& options) {
  json.at("seed").get_to(options.seed);
  json.at("effort_seconds").get_to(options.effort_seconds);
  json.at("limit_seconds").get_to(options.limit_seconds);
  json.at("workspace_bytes").get_to(options.workspace_bytes);
  json.at("sandbox").get_to(options.sandbox);
  json.at("timing").get_to(options.timing);
  json.at("readable").get_to(options.readable);
}

Result<JudgeClient> JudgeClient::start(int device, const std::filesystem::path& judge) {
  JudgeClient client;
  client.device_ = device;
  client.judge_ = judge.empty() ? executable_dir() / "warpsmith-audit-judge" : judge;
  if (!std::filesystem::exists(client.judge_)) {
    return environment_error(fmt::format("no {}: this build has no CUDA target", client.judge_.string()));
  }
  const Status started = client.restart();
  if (!started) return started.error();
  return client;
}

Status JudgeClient::restart() {
  child_.reset();
  ChildProcess::Options options;
  options.argv = {judge_.string(), "--device", std::to_string(device_)};
  if (const char* log = std::getenv("WARPSMITH_WORKER_LOG")) options.log = log;
  auto scratch = ScratchDirectory::create();
  if (!scratch) return scratch.error();
  scratch_ = std::move(*scratch);
  options.environment.emplace_back("TMPDIR", scratch_->path().string());
  auto spawned = ChildProcess::spawn(options);
  if (!spawned) return spawned.error();
  child_.emplace(std::move(*spawned));
  std::string line;
  if (!child_->send(R"({"operation": "machine"})") ||
      child_->receive(line, kStartSeconds) != ChildProcess::Receive::line) {
    return environment_error("warpsmith-audit-judge does not start: " +
                             child_->wait_for(1).value_or(ExitStatus{true, 0, 0}).describe());
  }
  const auto answer = nlohmann::json::parse(line);
  if (answer.contains("error")) return error_from_json(answer.at("error"));
  machine_ = answer.at("done").get<Machine>();
  return ok_status();
}

ProblemReport JudgeClient::gave_up(const Problem& problem, const std::string& why) {
  ProblemReport report;
  report.problem = problem;
  report.status = Outcome::timed_out;
  report.detail = why;
  return report;
}

Result<ProblemReport> JudgeClient::audit(const std::filesystem::path& object, const Problem& problem,
                                         const AuditOptions& options, const StageNotice& notice) {
  if (!child_) {
    if (const auto started = restart(); !started) return started.error();
  }
  const nlohmann::json request = {
      {"operation", "audit"}, {"object", object.string()}, {"problem", to_string(problem)}, {"options", options}};
  std::string stage = "start";
  child_->send(request.dump());
  for (;;) {
    std::string line;
    const auto received = child_->receive(line, kSilentSeconds + options.limit_seconds);
    if (received == ChildProcess::Receive::timeout) {
      child_.reset();
      return gave_up(problem, fmt::format("the device does not answer any more, in stage {}", stage));
    }
    if (received == ChildProcess::Receive::closed) {
      const std::string how = child_->wait_for(1).value_or(ExitStatus{}).describe();
      child_.reset();
      ProblemReport report = gave_up(problem, fmt::format("the judge ended in stage {}: {}", stage, how));
      report.status = Outcome::failed;
      return report;
    }
    const auto answer = nlohmann::json::parse(line);
    if (answer.contains("stage")) {
      stage = answer.at("stage").get<std::string>();
      if (notice) notice(stage);
    } else if (answer.contains("error")) {
      return error_from_json(answer.at("error"));
    } else {
      return answer.at("done").get<ProblemReport>();
    }
  }
}

}  // namespace warpsmith::audit
