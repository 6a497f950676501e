// Stands in for warpsmith-audit-judge where no GPU is: every problem is right. Writes the problems that it was asked
// for into `judged` beside itself; where `answers` is there, it holds how many are answered before the machine fails.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "audit/report_card.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "evaluate/protocol.h"

namespace {

using nlohmann::json;
using namespace warpsmith;

json answer(const json& request, int& answers) {
  if (request.at("operation") == "machine") {
    Machine machine;
    machine.name = "fake";
    machine.kind = "cuda";
    machine.compute_capability = 90;
    return {{"done", machine}};
  }
  std::ofstream(executable_dir() / "judged", std::ios::app)
      << request.at("object").get<std::string>() << " " << request.at("problem").get<std::string>() << "\n";
  if (answers-- == 0) return {{"error", error_to_json(environment_error("the device is gone"))}};
  audit::ProblemReport report;
  report.problem = parse_problem(request.at("problem").get<std::string>()).value();
  report.status = audit::Outcome::right;
  report.checks = {"gates"};
  return {{"done", report}};
}

}  // namespace

int main() {
  int answers = -1;
  std::ifstream(executable_dir() / "answers") >> answers;
  ParentChannel channel;
  for (std::string line; channel.receive(line);) {
    if (!channel.send(answer(json::parse(line), answers).dump())) break;
  }
  return 0;
}
