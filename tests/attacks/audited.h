// Candidates with host code through the audit.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "audit/judge_client.h"
#include "base/result.h"
#include "catalogue.h"
#include "fate.h"

namespace warpsmith::attacks {

class Audited {
 public:
  // Error (environment): no judge, no GPU.
  static Result<Audited> start();

  // What the audit holds against it; an attack whose evidence is found, or that is heard of, was not stopped.
  Fate attack(const Attack& attack, const std::filesystem::path& library);
  // What the audit finds suspicious or wrong about a library on a problem: empty for an honest one.
  Fate examine(const std::filesystem::path& library, const Problem& problem, bool timing);

 private:
  explicit Audited(audit::JudgeClient client) : client_(std::move(client)) {}
  audit::JudgeClient client_;
};

}  // namespace warpsmith::attacks
