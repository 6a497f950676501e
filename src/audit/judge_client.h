// The command line's side of the talk with warpsmith-audit-judge, the trusted process that owns the device's context.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "audit/report_card.h"
#include "base/result.h"
#include "base/scratch.h"
#include "base/subprocess.h"
#include "problem/machine.h"

namespace warpsmith::audit {

struct AuditOptions {
  std::uint64_t seed = 1;
  double effort_seconds = 1;  // of timing, for each problem
  double limit_seconds = 20;  // for one step of the candidate
  std::int64_t workspace_bytes = 64 << 20;
  bool sandbox = true;
  bool timing = true;
  std::vector<std::string> readable;  // further directories that the candidate may read
};
void to_json(nlohmann::json& json, const AuditOptions& options);
void from_json(const nlohmann::json& json, AuditOptions& options);

using StageNotice = std::function<void(const std::string& stage)>;

class JudgeClient {
 public:
  // Error (environment): no judge beside the executable, or no usable device.
  static Result<JudgeClient> start(int device, const std::filesystem::path& judge = {});

  const Machine& machine() const { return machine_; }

  // A judge that does not answer in time, or dies, is replaced by a new one and gives a report that says so. Error
  // (environment): the machine cannot do it at all (no sandbox, no device any more).
  Result<ProblemReport> audit(const std::filesystem::path& object, const Problem& problem, const AuditOptions& options,
                              const StageNotice& notice);

 private:
  JudgeClient() = default;
  Status restart();
  ProblemReport gave_up(const Problem& problem, const std::string& why);

  int device_ = 0;
  std::filesystem::path judge_;
  std::optional<ScratchDirectory> scratch_;  // the judge's; outlives it
  std::optional<ChildProcess> child_;
  Machine machine_;
};

}  // namespace warpsmith::audit
