// The reasons for which a tiny or skinny kernel cannot be built or run.
#include "recipe/direct_rules.h"

#include <fmt/format.h>

namespace warpsmith::direct {

Reason check_architecture(const Machine& machine) {
  if (machine.compute_capability >= 80) return std::nullopt;
  return fmt::format("mma.m16n8k16 needs compute capability 8.0, and {} has {}.{}", machine.name,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_cluster(const DirectKnobs& knobs, const Machine& machine) {
  if (knobs.split == 1 || machine.compute_capability >= 90) return std::nullopt;
  return fmt::format("split={} needs clusters, which compute capability {}.{} lacks", knobs.split,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_dependents(const DirectKnobs& knobs, const Machine& machine) {
  if (knobs.pdl == kDirectPdlNone || machine.compute_capability >= 90) return std::nullopt;
  return fmt::format("pdl={} needs programmatic dependent launch, which compute capability {}.{} lacks", knobs.pdl,
                     machine.compute_capability / 10, machine.compute_capability % 10);
}

Reason check_threads(const DirectKnobs& knobs) {
  if (knobs.threads() <= kDirectMostThreads) return std::nullopt;
  return fmt::format("{} warps in a block; at most {}", knobs.threads() / 32, kDirectMostThreads / 32);
}

namespace {

Reason check_registers(const DirectKnobs& knobs, int operands) {
  const int limit = direct_register_limit(knobs.threads());
  if (operands + knobs.accumulators() <= limit) return std::nullopt;
  return fmt::format("operands take {} registers per thread and sums {}; {} fit with {} threads", operands,
                     knobs.accumulators(), limit, knobs.threads());
}

}  // namespace

Reason check_registers(const DirectKnobs& knobs) { return check_registers(knobs, knobs.operand_registers()); }

Reason check_class_registers(const DirectKnobs& knobs, const Problem& problem) {
  return check_registers(knobs, direct_operand_registers(knobs, problem));
}

Reason check_shared_memory(const DirectKnobs& knobs, const Machine& machine) {
  if (knobs.smem_bytes() <= machine.smem_bytes_per_block) return std::nullopt;
  return fmt::format("needs {} bytes of shared memory per block; {} are there", knobs.smem_bytes(),
                     machine.smem_bytes_per_block);
}

Reason check_accumulator(const Problem& problem) {
  if (problem.accumulator == AccumulatorType::f32 || problem.element == ElementType::f16) return std::nullopt;
  return "mma sums products of bf16 elements in f32 only";
}

Reason check_depth(const DirectKnobs& knobs, const Problem& problem) {
  if (direct_shares_depth(knobs, problem)) return std::nullopt;
  return fmt::format("{} warps that load {} of k each share {}: some would be idle", knobs.warps_k * knobs.split,
                     knobs.tile_k, problem.k);
}

Reason check_ahead(const DirectKnobs& knobs, const Problem& problem) {
  const std::int64_t rounds = direct_rounds(knobs, problem);
  if (knobs.ahead < rounds) return std::nullopt;
  return fmt::format("ahead={} needs more than {} rounds of loads along K", knobs.ahead, rounds);
}

}  // namespace warpsmith::direct
