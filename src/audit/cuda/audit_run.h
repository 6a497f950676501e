// Audits on one device. Runs in the judge.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "audit/judge_client.h"
#include "audit/report_card.h"
#include "base/result.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith::audit {

class Auditor {
 public:
  virtual ~Auditor() = default;
  virtual const Machine& machine() const = 0;
  // Error: environment, when the machine cannot do it; everything that a candidate does is in the report.
  virtual Result<ProblemReport> audit(const std::filesystem::path& object, const Problem& problem,
                                      const AuditOptions& options, const StageNotice& notice) = 0;
};

// Error (environment): no such device.
Result<std::unique_ptr<Auditor>> make_auditor(int device);

}  // namespace warpsmith::audit
