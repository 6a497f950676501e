// The judge's device: what outlives a problem, and how candidates are hosted on this machine.
#include "audit/cuda/audit_run.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "audit/cuda/host_session.h"
#include "audit/cuda/problem_audit.h"
#include "evaluate/cuda/cublas_baselines.h"
#include "evaluate/cuda/graph_timer.h"
#include "evaluate/cuda/machine_facts.h"

namespace warpsmith::audit {

using cuda::check;
using cuda::CudaError;

namespace {

constexpr double kReferenceShare = 0.3;  // of the device's memory

class CudaAuditor final : public Auditor {
 public:
  explicit CudaAuditor(int device)
      : device_(device),
        machine_(cuda::describe_device(device)),
        clocks_(device),
        stream_(cuda::make_stream()),
        baseline_workspace_(cuda::kBaselineWorkspaceBytes),
        timer_(stream_.get(), machine_.l2_bytes) {
    check(cublasCreate(cublas_.out()), "cublasCreate");
    check(cublasLtCreate(cublaslt_.out()), "cublasLtCreate");
    check(cublasCreate(baseline_cublas_.out()), "cublasCreate");
    check(cublasSetStream(baseline_cublas_.get(), stream_.get()), "cublasSetStream");
    check(cublasSetWorkspace(baseline_cublas_.get(), baseline_workspace_.data(), baseline_workspace_.bytes()),
          "cublasSetWorkspace");
    references_.emplace(cublas_.get(), stream_.get());
  }

  const Machine& machine() const override { return machine_; }

  Result<ProblemReport> audit(const std::filesystem::path& object, const Problem& problem, const AuditOptions& options,
                              const StageNotice& notice) override {
    HostFactory::Options host_options;
    host_options.device = device_;
    host_options.sandbox = options.sandbox;
    host_options.readable = readable(object, options);
    host_options.limit_seconds = options.limit_seconds;
    host_options.known = known_[options.sandbox ? 1 : 0];
    HostFactory hosts(std::move(host_options));
    try {
      const auto kind = hosts.sharing();
      if (!kind) return kind.error();
      known_[options.sandbox ? 1 : 0] = hosts.known();
      std::size_t free_bytes = 0, total_bytes = 0;
      check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
      references_->reset(static_cast<std::size_t>(kReferenceShare * static_cast<double>(total_bytes)));
      return audit_problem({device_, machine_, clocks_, stream_.get(), baseline_cublas_.get(), cublaslt_.get(),
                            baseline_workspace_, timer_, *references_},
                           hosts, object, problem, options, notice);
    } catch (const std::runtime_error& error) {
      if (!cuda::context_is_lost()) return failed(problem, error.what());
      return environment_error(fmt::format("the judge's own device context is lost: {}", error.what()));
    }
  }

 private:
  static std::vector<std::string> readable(const std::filesystem::path& object, const AuditOptions& options) {
    std::vector<std::string> paths = options.readable;
    paths.push_back(object.string());
    return paths;
  }

  static ProblemReport failed(const Problem& problem, const std::string& why) {
    ProblemReport report;
    report.problem = problem;
    report.status = Outcome::failed;
    report.detail = why;
    return report;
  }

  int device_;
  Machine machine_;
  cuda::ClockReader clocks_;
  cuda::Stream stream_;
  cuda::CublasHandle cublas_, baseline_cublas_;
  cuda::CublasLtHandle cublaslt_;
  cuda::DeviceBuffer baseline_workspace_;
  cuda::GraphTimer timer_;
  std::optional<cuda::ReferenceMaker> references_;
  std::array<std::optional<HostFactory::Known>, 2> known_;  // [sandbox]
};

}  // namespace

Result<std::unique_ptr<Auditor>> make_auditor(int device) {
  if (const Status started = cuda::start_device(device); !started) return started.error();
  try {
    return std::unique_ptr<Auditor>(std::make_unique<CudaAuditor>(device));
  } catch (const CudaError& error) {
    return environment_error(fmt::format("CUDA device {} cannot be used: {}", device, error.what()));
  }
}

}  // namespace warpsmith::audit
