// One stream, in order: hash, poison, scrub, launch, judge, hash, read.
#include "evaluate/cuda/gate_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "evaluate/gates.h"

namespace warpsmith::cuda {

namespace {

constexpr std::uint16_t kChainFiller = 0x3c00;  // what operands of the chain hold beyond C: 1 in f16, small in bf16
constexpr double kLongChainFlops = 8.6e9;       // 2^33: beyond it launches overlap for long, and once is enough
constexpr int kShortChains = 4;

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

Judging GateSteps::judging(Criterion criterion) const {
  return {criterion, problem_.accumulator, problem_.scaled(), factors_, operands_.contents().seed, problem_.c_ld()};
}

void GateSteps::run(const GateStep& step, const Launch& launch) {
  factors_ = problem_.scaled() ? step.factors : Factors{};
  auto* before = observation_.as<unsigned long long>(offsetof(Observation, slab_before));
  check(cudaMemsetAsync(before, 0, sizeof *before, stream_), "cudaMemsetAsync");
  operands_.queue_hash(before);
  const bool keeps_workspace = step.place == GateStep::Place::kept || step.place == GateStep::Place::stale;
  if (!keeps_workspace) workspace_.poison(step.poison);
  if (step.place == GateStep::Place::stale) {
    operands_.scatter_poison(step.poison, step.holes);
  } else {
    operands_.poison_output(step.poison);
  }
  if (factors_.beta != 0) operands_.fill_old_output();
  scrub_shared_memory(multiprocessors_, smem_bytes_, stream_);
  OperandSet operands = operands_.operands();
  operands.alpha = factors_.alpha;
  operands.beta = factors_.beta;
  launch(operands, workspace_.data());
}

Observation GateSteps::look(Criterion criterion, std::uint16_t poison) {
  auto* observation = observation_.as<Observation>();
  clear_observation(observation, stream_);
  inspect_output(operands_.operands().c, reference_->masked(), reference_->spec, judging(criterion), poison,
                 observation, stream_);
  operands_.queue_gap_check(observation);
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
  report.precision = {static_cast<std::int64_t>(totals.misrounded), problem_.m * problem_.n,
                      misrounding_limit(problem_.k, problem_.element, problem_.accumulator)};
  if (report.passed) return report;
  if (!references_.intact(*reference_)) {
    throw CudaError("the memory of the FP64 reference was written to, by this candidate or one before it", false);
  }
  const auto index = static_cast<std::int64_t>(totals.first);
  const MaskedReference masked = reference_->masked();
  const auto unmask = [&](const std::uint64_t* values, int which) {
    return double_from_bits(read(values + index, stream_) ^ reference_mask(masked.key, index, which));
  };
  const std::int64_t row = index / problem_.n, column = index % problem_.n;
  const std::uint16_t got = read(operands_.operands().c + row * problem_.c_ld() + column, stream_);
  const ElementType type = problem_.element;
  const Expected expected = expected_element(reference_->spec, judging(criterion), row, column, unmask(masked.c64, 0),
                                             unmask(masked.magnitudes, 1));
  const AcceptableRange range = acceptable_range(criterion, expected, type);
  const std::string allowed =
      range.nan ? "NaN" : fmt::format("{} to {}", element_text(range.lo, type), element_text(range.hi, type));
  report.detail = fmt::format("{} of {} elements wrong, the first at ({}, {}): got {}, expected {:g}, allowed {}{}",
                              totals.bad, problem_.m * problem_.n, row, column, element_text(got, type), expected.value,
                              allowed, factors_text());
  return report;
}

std::string GateSteps::factors_text() const {
  if (!problem_.scaled()) return {};
  return fmt::format("; alpha {:g}, beta {:g}", static_cast<double>(factors_.alpha),
                     static_cast<double>(factors_.beta));
}

// Uniform data: its chained results stay finite, and so differ from what poison makes of them, up to K = 2^16. A scaled
// problem's launches are plain ones, alpha 1 and beta 0.
CheckReport GateSteps::check_dependent_launch(const Launch& separate, const Launch& dependent) {
  const std::int64_t most = std::max({problem_.a_extent(), problem_.b_extent(), problem_.c_extent()});
  const auto bytes = static_cast<std::size_t>((most + 3) / 4 * 4) * sizeof(std::uint16_t);
  if (chain_x_.bytes() == 0) {
    chain_x_ = DeviceBuffer(bytes);
    chain_y_ = DeviceBuffer(bytes);
  }
  operands_.refill(spec_of(InputKind::uniform, draw_seed()));
  const ChainHashes expected = run_chain(separate, true);
  CheckReport report{true, {}, 0, 0};
  const int chains = problem_.flops() < kLongChainFlops ? kShortChains : 1;
  for (int i = 0; i < chains && report.passed; ++i) {
    const ChainHashes got = run_chain(dependent, false);
    report.passed = got.x == expected.x && got.y == expected.y;
    if (report.passed) continue;
    report.bad = 1;
    report.detail = fmt::format(
        "as a programmatic dependent launch, the {} of three launches that read each other's results leaves other bits "
        "than after a synchronisation: operands are read, or C is written, before the launch before is done",
        got.y == expected.y ? "third" : "second");
  }
  return report;
}

GateSteps::ChainHashes GateSteps::run_chain(const Launch& launch, bool wait) {
  auto *x = chain_x_.as<std::uint16_t>(), *y = chain_y_.as<std::uint16_t>();
  const auto words = static_cast<std::int64_t>(chain_x_.bytes() / sizeof(std::uint16_t));
  const OperandSet given = operands_.operands();
  for (std::uint16_t* buffer : {x, y}) set_pattern(buffer, words, kChainFiller, stream_);
  set_pattern(x, problem_.c_extent(), kPoisonPatterns[0], stream_);
  fill_input(operands_.contents(), Matrix::a, problem_.a_is_k_major(), y, stream_, problem_.a_ld());
  workspace_.poison(kPoisonPatterns[0]);
  const OperandSet chain[] = {{y, given.b, x}, {x, given.b, y}, {given.a, y, x}};
  if (wait) {
    for (const OperandSet& operands : chain) {
      launch(operands, workspace_.data());
      check(cudaStreamSynchronize(stream_), "launching in a chain");
    }
  } else {
    const StreamGate::Hold hold = gate_.close(stream_);
    for (const OperandSet& operands : chain) launch(operands, workspace_.data());
  }
  auto* hashes = observation_.as<ChainHashes>();
  check(cudaMemsetAsync(hashes, 0, sizeof *hashes, stream_), "cudaMemsetAsync");
  hash_slab(x, words, 0, 0, 0, &hashes->x, stream_);
  hash_slab(y, words, 0, 0, 0, &hashes->y, stream_);
  return read(hashes, stream_);
}

CheckReport GateSteps::describe_surroundings(const Observation& seen) {
  if (seen.slab_after != seen.slab_before) return operands_.describe_damage();
  CheckReport report;
  report.detail = workspace_.describe(seen);
  if (seen.output_gaps.bad != 0) {
    const auto first = static_cast<std::int64_t>(seen.output_gaps.first);
    report.detail = fmt::format("between the rows of C: {} elements changed, the first after row {}, {} beyond its end",
                                seen.output_gaps.bad, first / problem_.c_ld(), first % problem_.c_ld() - problem_.n);
  }
  report.passed = report.detail.empty();
  return report;
}

}  // namespace warpsmith::cuda
