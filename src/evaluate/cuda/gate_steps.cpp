// One stream, in order: hash, poison, scrub, launch, judge, hash, read.
#include "evaluate/cuda/gate_steps.h"

#include <fmt/format.h>

#include <cstddef>

namespace warpsmith::cuda {

namespace {

std::string element_text(std::uint16_t bits, ElementType type) {
  return fmt::format("{:g} (0x{:04x})", element_to_double(bits, type), bits);
}

template <class T>
T read(const T* device, cudaStream_t stream) {
  T value{};
  check(cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return value;
}

}  // namespace

GateSteps::GateSteps(const Problem& problem, const Machine& machine, std::int64_t keep_bytes,
                     ReferenceMaker& references, cudaStream_t stream)
    : problem_(problem),
      references_(references),
      stream_(stream),
      multiprocessors_(machine.units),
      smem_bytes_(machine.smem_bytes_per_block),
      operands_(problem, keep_bytes, stream),
      workspace_(stream),
      observation_(sizeof(Observation)) {}

InputSpec GateSteps::spec_of(InputKind kind, std::uint64_t seed) const {
  return {kind, seed, problem_.m, problem_.n, problem_.k, problem_.element};
}

void GateSteps::arrange(InputKind kind, std::uint64_t seed) {
  const InputSpec spec = spec_of(kind, seed);
  reference_ = references_.get(spec);
  operands_.arrange(spec);
  workspace_.place(++placements_);
}

void GateSteps::refill(InputKind kind, std::uint64_t seed) {
  const InputSpec spec = spec_of(kind, seed);
  reference_ = references_.get(spec);
  operands_.refill(spec);
}

void GateSteps::run(GateStep::Place place, std::uint16_t poison, const Launch& launch) {
  auto* before = observation_.as<unsigned long long>(offsetof(Observation, slab_before));
  check(cudaMemsetAsync(before, 0, sizeof *before, stream_), "cudaMemsetAsync");
  operands_.queue_hash(before);
  const bool keeps_workspace = place == GateStep::Place::kept || place == GateStep::Place::stale;
  if (!keeps_workspace) workspace_.poison(poison);
  if (place == GateStep::Place::stale) {
    operands_.scatter_poison(poison);
  } else {
    operands_.poison_output(poison);
  }
  scrub_shared_memory(multiprocessors_, smem_bytes_, stream_);
  launch(operands_.operands(), workspace_.data());
}

Observation GateSteps::look(Criterion criterion, std::uint16_t poison) {
  auto* observation = observation_.as<Observation>();
  clear_observation(observation, stream_);
  inspect_output(operands_.operands().c, reference_->masked(), reference_->spec, criterion, poison, observation,
                 stream_);
  operands_.queue_hash(observation_.as<unsigned long long>(offsetof(Observation, slab_after)));
  workspace_.queue_check(observation);
  return read(observation, stream_);
}

GateObservation GateSteps::describe(const Observation& seen, Criterion criterion) {
  GateObservation result;
  result.unwritten = static_cast<std::int64_t>(seen.unwritten);
  result.hash = seen.output_hash;
  result.judged = describe_judged(seen.judged, criterion);
  result.untouched = describe_surroundings(seen);
  return result;
}

CheckReport GateSteps::describe_judged(const Totals& totals, Criterion criterion) {
  CheckReport report;
  report.bad = static_cast<std::int64_t>(totals.bad);
  report.passed = report.bad == 0;
  report.worst_error = double_from_bits(totals.worst_bits);
  if (report.passed) return report;
  if (!references_.intact(*reference_)) {
    throw CudaError("the memory of the FP64 reference was written to, by this candidate or one before it", false);
  }
  const auto index = static_cast<std::int64_t>(totals.first);
  const MaskedReference masked = reference_->masked();
  const auto unmask = [&](const std::uint64_t* values, int which) {
    return double_from_bits(read(values + index, stream_) ^ reference_mask(masked.key, index, which));
  };
  const std::uint16_t got = read(operands_.operands().c + index, stream_);
  const double expected = unmask(masked.c64, 0), magnitude = unmask(masked.magnitudes, 1);
  const ElementType type = problem_.element;
  const AcceptableRange range = acceptable_range(criterion, expected, magnitude, problem_.k, type);
  const std::string allowed =
      range.nan ? "NaN" : fmt::format("{} to {}", element_text(range.lo, type), element_text(range.hi, type));
  report.detail = fmt::format("{} of {} elements wrong, the first at ({}, {}): got {}, expected {:g}, allowed {}",
                              totals.bad, problem_.m * problem_.n, index / problem_.n, index % problem_.n,
                              element_text(got, type), expected, allowed);
  return report;
}

CheckReport GateSteps::describe_surroundings(const Observation& seen) {
  if (seen.slab_after != seen.slab_before) return operands_.describe_damage();
  CheckReport report;
  report.detail = workspace_.describe(seen);
  report.passed = report.detail.empty();
  return report;
}

}  // namespace warpsmith::cuda
