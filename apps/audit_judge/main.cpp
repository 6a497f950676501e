// warpsmith-audit-judge: the trusted side of an audit. It owns operands, references, clocks and verdicts, and starts
// the confined process that runs the foreign kernel. Exit code 3: no usable device.
#include <sys/prctl.h>

#include <charconv>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "audit/cuda/audit_run.h"
#include "audit/judge_client.h"
#include "base/subprocess.h"
#include "evaluate/protocol.h"

namespace {

using nlohmann::json;
using namespace warpsmith;

constexpr int kEnvironmentFault = 3;

json answer(audit::Auditor& auditor, const json& request, ParentChannel& channel) {
  if (request.at("operation") == "machine") return {{"done", auditor.machine()}};
  const auto problem = parse_problem(request.at("problem").get<std::string>());
  if (!problem) return {{"error", error_to_json(problem.error())}};
  const auto report = auditor.audit(request.at("object").get<std::string>(), *problem,
                                    request.at("options").get<audit::AuditOptions>(), [&](const std::string& stage) {
                                      channel.send(json{{"stage", stage}}.dump());
                                    });
  if (!report) return {{"error", error_to_json(report.error())}};
  return {{"done", *report}};
}

// The parent's first request is answered with what is missing.
int report(const Error& error) {
  std::cerr << "warpsmith-audit-judge: " << error.message << "\n";
  ParentChannel channel;
  std::string request;
  if (channel.receive(request)) channel.send(json{{"error", error_to_json(error)}}.dump());
  return kEnvironmentFault;
}

}  // namespace

int main(int argc, char** argv) {
  int device = 0;
  if (argc == 3 && std::strcmp(argv[1], "--device") == 0) {
    std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), device);
  } else if (argc != 1) {
    std::cerr << "usage: warpsmith-audit-judge [--device ORDINAL]\n";
    return 2;
  }
  auto auditor = audit::make_auditor(device);
  if (!auditor) return report(auditor.error());
  prctl(PR_SET_DUMPABLE, 0);  // no other process of this user can look into it
  ParentChannel channel;
  for (std::string line; channel.receive(line);) {
    json reply;
    try {
      reply = answer(**auditor, json::parse(line), channel);
    } catch (const std::exception& error) {
      reply = {{"error", error_to_json(environment_error(error.what()))}};
    }
    if (!channel.send(reply.dump(-1, ' ', false, json::error_handler_t::replace))) break;
  }
  return 0;
}
