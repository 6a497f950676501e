// The audit of one candidate on one problem, stage by stage: watched calls, gates, order on the stream, kept results,
// timing. Each stage adds to the report; the first that shows the candidate wrong ends it.
#pragma once

#include <filesystem>

#include "audit/cuda/host_session.h"
#include "audit/judge_client.h"
#include "audit/report_card.h"
#include "base/result.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/graph_timer.h"
#include "evaluate/cuda/machine_facts.h"
#include "evaluate/cuda/reference.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith::audit {

// The judge's own means, which outlive a problem.
struct JudgeDevice {
  int ordinal;
  const Machine& machine;
  const cuda::ClockReader& clocks;
  cudaStream_t stream;
  cublasHandle_t baseline_cublas;
  cublasLtHandle_t cublaslt;
  const cuda::DeviceBuffer& baseline_workspace;
  cuda::GraphTimer& timer;
  cuda::ReferenceMaker& references;
};

// Precondition: hosts.sharing() succeeded. Error: environment. Throws cuda::CudaError where the judge's own work fails.
Result<ProblemReport> audit_problem(const JudgeDevice& device, HostFactory& hosts, const std::filesystem::path& object,
                                    const Problem& problem, const AuditOptions& options, const StageNotice& notice);

}  // namespace warpsmith::audit
