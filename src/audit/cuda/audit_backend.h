// A Backend whose candidate runs in another process: the gates run over it unchanged. Operands are laid out in shared
// memory, the host is told to call, and C is taken from there the moment it says "done".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "audit/cuda/host_session.h"
#include "audit/cuda/shared_operands.h"
#include "evaluate/backend.h"
#include "evaluate/cuda/gate_steps.h"

namespace warpsmith::audit {

// CUDA errors and host faults inside; Backend's edge turns them into Errors.
class AuditBackend final : public Backend {
 public:
  AuditBackend(const Machine& machine, const Problem& problem, cuda::ReferenceMaker& references,
               SharedOperands& operands, cudaStream_t stream);

  // The process that the next steps run in.
  void use(HostSession* host) { host_ = host; }
  // What the entry returned when it last did not return 0.
  std::optional<int> refusal() const { return refusal_; }

  const Machine& machine() const override { return machine_; }
  GateObservation run_step(const GateStep& step) override;

  // Beside the gates: with two rows of A exchanged in place, nothing else changed, C follows. A result that was kept
  // and is handed out again because the inputs look the same does not. The last step's data and addresses are used.
  CheckReport check_exchanged_rows(std::uint16_t poison);
  // C does not change any more once the call was said to be done.
  CheckReport check_late_writes();

  // The gates' data comes with their steps.
  Status prepare(const Problem&, std::uint64_t) override { return ok_status(); }
  Status load(const Artifact&, const nlohmann::json&) override { return unused(); }
  void unload() override {}
  Status fill(InputKind kind, std::uint64_t seed) override;
  Status run_once(std::uint16_t) override { return unused(); }
  CheckReport check(Criterion) override { return {false, "not used", 0, 0}; }
  CheckReport check_untouched() override { return {false, "not used", 0, 0}; }
  std::uint64_t output_hash() override { return 0; }
  std::int64_t count_equal_to(std::uint16_t) override { return 0; }

  // Timing is the audit's own.
  Result<std::vector<std::string>> open_baselines() override { return failure("not used"); }
  std::string baseline_detail(int) override { return {}; }
  Result<double> arm(int, bool, bool) override { return failure("not used"); }
  Result<double> time_batch(int, bool, bool) override { return failure("not used"); }
  int launches_per_batch(int, bool, bool) override { return 0; }
  Status ready_call(int, bool) override { return unused(); }
  Result<double> call(int, bool) override { return failure("not used"); }
  double clock_mhz() override { return 0; }
  Result<CheckReport> check_timed_outputs(int) override { return failure("not used"); }

 private:
  static void check(cudaError_t status, const char* call) { cuda::check(status, call); }
  static Status unused() { return failure("steps of the audit are run by run_step()"); }
  template <class Body>
  Status guarded(Body body);
  void call(const cuda::OperandSet& pristine);
  cuda::Observation run_and_look(const GateStep& step);

  const Machine& machine_;
  Problem problem_;
  SharedOperands& operands_;
  cudaStream_t stream_;
  cuda::GateSteps steps_;
  HostSession* host_ = nullptr;
  std::optional<int> refusal_;
  std::optional<std::pair<std::int64_t, std::int64_t>> exchanged_rows_;
  CheckReport surroundings_;
  GateStep last_;
  cuda::DeviceBuffer row_, hash_;
};

}  // namespace warpsmith::audit
