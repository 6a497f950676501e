// The judge keeps its own A, B, C (GateSteps) beside the shared ones: poison goes from its C to the shared one before a
// call, results come back after it, and judging never looks at memory that the host can still reach.
#include "audit/cuda/audit_backend.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "evaluate/gates.h"

namespace warpsmith::audit {

using cuda::CudaError;

namespace {

constexpr auto kLateWait = std::chrono::milliseconds(30);

}  // namespace

AuditBackend::AuditBackend(const Machine& machine, const Problem& problem, cuda::ReferenceMaker& references,
                           SharedOperands& operands, cudaStream_t stream)
    : machine_(machine),
      problem_(problem),
      operands_(operands),
      stream_(stream),
      steps_(problem, machine, 0, references, stream),
      row_(static_cast<std::size_t>(problem.n) * sizeof(std::uint16_t)),
      hash_(sizeof(unsigned long long)) {
  steps_.set_workspace(0, false);
}

template <class Body>
Status AuditBackend::guarded(Body body) {
  try {
    body();
    return ok_status();
  } catch (const CudaError& error) {
    return error.out_of_memory() ? environment_error(error.what()) : failure(error.what());
  }
}

Status AuditBackend::fill(InputKind kind, std::uint64_t seed) {
  return guarded([&] { steps_.arrange(kind, seed); });
}

// One call on the shared operands, between copies of C. Precondition: A, B and the workspace are ready there.
void AuditBackend::call(const cuda::OperandSet& pristine) {
  const cuda::OperandSet shared = operands_.gate();
  const auto bytes = static_cast<std::size_t>(problem_.m * problem_.n) * sizeof(std::uint16_t);
  check(cudaMemcpyAsync(shared.c, pristine.c, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  if (exchanged_rows_) operands_.swap_rows_of_a(exchanged_rows_->first, exchanged_rows_->second);
  check(cudaStreamSynchronize(stream_), "preparing a call");
  if (const Status known = host_->register_table(operands_.gate_table()); !known) {
    throw CudaError(known.error().message, false);
  }
  const auto reply = host_->run("gate", 0, 1);
  if (!reply) throw CudaError(reply.error().message, false);
  check(cudaMemcpyAsync(pristine.c, shared.c, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "reading C");
  host_->look();
  if (reply->code != 0) {
    refusal_ = reply->code;
    throw CudaError(fmt::format("the entry returned {}", reply->code), false);
  }
  if (exchanged_rows_) operands_.swap_rows_of_a(exchanged_rows_->first, exchanged_rows_->second);
  surroundings_ = operands_.check_surroundings();
}

cuda::Observation AuditBackend::run_and_look(const GateStep& step) {
  const InputSpec spec{step.kind, step.seed, problem_.m, problem_.n, problem_.k, problem_.element};
  if (step.place == GateStep::Place::fresh) operands_.place();
  if (step.place == GateStep::Place::fresh || step.place == GateStep::Place::kept) operands_.fill(spec);
  if (step.place == GateStep::Place::fresh || step.place == GateStep::Place::repeat) {
    operands_.poison_workspace(step.poison);
  }
  steps_.run(step, [&](const cuda::OperandSet& pristine, void*) { call(pristine); });
  return steps_.look(step.criterion, step.poison);
}

GateObservation AuditBackend::run_step(const GateStep& step) {
  GateObservation seen;
  last_ = step;
  const Status placed = guarded([&] {
    if (step.place == GateStep::Place::fresh) steps_.arrange(step.kind, step.seed);
    if (step.place == GateStep::Place::kept) steps_.refill(step.kind, step.seed);
  });
  if (!placed) {
    seen.fault = placed.error().message;
    return seen;
  }
  cuda::Observation left{};
  const Status ran = guarded([&] { left = run_and_look(step); });
  if (!ran) {
    seen.crash = ran.error().message;
    return seen;
  }
  const Status described = guarded([&] { seen = steps_.describe(left, step.criterion); });
  if (!described) seen.fault = described.error().message;
  if (!surroundings_.passed) seen.untouched = surroundings_;
  return seen;
}

CheckReport AuditBackend::check_exchanged_rows(std::uint16_t poison) {
  CheckReport report{true, {}, 0, 0};
  if (problem_.m < 2 || !problem_.a_is_k_major()) return report;
  const auto draw = draw_seed();
  const auto rows = static_cast<std::uint64_t>(problem_.m);
  const auto first = static_cast<std::int64_t>(draw % rows);
  const auto second = static_cast<std::int64_t>((draw % rows + 1 + (draw >> 32) % (rows - 1)) % rows);
  exchanged_rows_ = {first, second};
  const auto bytes = static_cast<std::size_t>(problem_.n) * sizeof(std::uint16_t);
  const Status ran = guarded([&] {
    GateStep step = last_;
    step.place = GateStep::Place::repeat;
    step.poison = poison;
    steps_.run(step, [&](const cuda::OperandSet& pristine, void*) {
      call(pristine);
      // Back in order, C is what it was without the exchange.
      const auto copy = [&](void* to, const void* from) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
      };
      copy(row_.data(), pristine.c + first * problem_.n);
      copy(pristine.c + first * problem_.n, pristine.c + second * problem_.n);
      copy(pristine.c + second * problem_.n, row_.data());
    });
    report = steps_.describe(steps_.look(step.criterion, step.poison), step.criterion).judged;
  });
  exchanged_rows_.reset();
  if (!ran) return {false, ran.error().message, 0, 0};
  if (!report.passed) {
    report.detail = fmt::format("with rows {} and {} of A exchanged in place: {}", first, second, report.detail);
  }
  return report;
}

CheckReport AuditBackend::check_late_writes() {
  CheckReport report{true, {}, 0, 0};
  if (problem_.m * problem_.n < 4) return report;  // the hash is over groups of four
  const Status looked = guarded([&] {
    const auto hash = [&] {
      unsigned long long value = 0;
      check(cudaMemsetAsync(hash_.data(), 0, sizeof value, stream_), "cudaMemsetAsync");
      const std::int64_t words = problem_.m * problem_.n / 4 * 4;
      cuda::hash_slab(operands_.gate().c, words, words, words, 1, hash_.as<unsigned long long>(), stream_);
      check(cudaMemcpyAsync(&value, hash_.data(), sizeof value, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
      check(cudaStreamSynchronize(stream_), "reading C");
      return value;
    };
    const auto at_once = hash();
    std::this_thread::sleep_for(kLateWait);
    report.passed = hash() == at_once;
  });
  if (!looked) return {false, looked.error().message, 0, 0};
  if (!report.passed) report.detail = "C changed after the call had been said to be done";
  return report;
}

}  // namespace warpsmith::audit
