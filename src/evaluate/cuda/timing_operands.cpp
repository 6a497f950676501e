// Allocation and filling of the timed sets.
#include "evaluate/cuda/timing_operands.h"

#include <algorithm>
#include <random>
#include <utility>

#include "evaluate/gates.h"

namespace warpsmith::cuda {

namespace {

constexpr std::int64_t kAlignElements = 128;  // 256 bytes
constexpr double kReferenceShare = 0.15;      // of free memory
constexpr double kOperandShare = 0.5;         // of free memory, for every layout that may be asked for

// Sets of more are not worth fetching ahead: the L2 cache does not hold them. And the gaps have to fit into memory.
constexpr std::int64_t kScatteredSetBytes = 64LL << 20, kScatteredBytes = 5LL << 29;
constexpr Factors kTimedFactors = {1, 0.5F};  // of scaled problems
constexpr std::uint16_t kGap = 0x7fab;        // between rows: NaN
constexpr std::int64_t kWidestGap = 4;        // strides from one scattered set to the next, at most

std::int64_t align(std::int64_t elements) { return (elements + kAlignElements - 1) / kAlignElements * kAlignElements; }

}  // namespace

TimingOperands::TimingOperands(const Problem& problem, std::uint64_t seed, int launches, ReferenceMaker& references,
                               cudaStream_t stream)
    : problem_(problem), stream_(stream) {
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  const std::int64_t a = problem.a_extent(), b = problem.b_extent(), c = problem.c_extent();
  const auto share = [&](double part, double bytes) { return part * static_cast<double>(free_bytes) / bytes; };
  const double for_references =
      share(kReferenceShare, static_cast<double>(ReferenceStack::bytes_of(problem.m * problem.n)));
  const double for_operands = share(kOperandShare, sizeof(std::uint16_t) * static_cast<double>(2 * a + 2 * b + c));
  count_ = static_cast<int>(std::clamp(std::min(for_references, for_operands), 1.0, std::max(1.0, 1.0 * launches)));
  c_ = allocate(c, Spacing::dense, Contents::changing);
  std::vector<InputSpec> specs;
  for (int set = 0; set < count_; ++set) {
    specs.push_back({InputKind::normal, inputs::mix(seed + 0x1000 + static_cast<std::uint64_t>(set)), problem.m,
                     problem.n, problem.k, problem.element});
  }
  references_ = references.make_stack(std::move(specs));
}

TimingOperands::Stack TimingOperands::allocate(std::int64_t elements, Spacing spacing, Contents contents) const {
  Stack stack;
  stack.stride = align(elements);
  const std::int64_t bytes = stack.stride * static_cast<std::int64_t>(sizeof(std::uint16_t));
  const bool scattered =
      spacing == Spacing::scattered && bytes <= kScatteredSetBytes && bytes * count_ <= kScatteredBytes;
  std::mt19937_64 generator(draw_seed());
  std::uniform_int_distribution<std::int64_t> gap(2, kWidestGap);
  std::int64_t end = 0;  // in strides
  for (int set = 0; set < count_; ++set) {
    stack.offsets.push_back(end * stack.stride);
    end += scattered ? gap(generator) : 1;
  }
  stack.memory = DeviceBuffer(static_cast<std::size_t>(end * bytes), contents);
  return stack;
}

const TimingOperands::Stack& TimingOperands::filled(Matrix matrix, bool k_major) {
  Stack& stack = (matrix == Matrix::a ? a_ : b_)[k_major ? 1 : 0];
  if (stack.stride != 0) return stack;
  // Any layout that stores the matrix so.
  const bool is_a = matrix == Matrix::a;
  const Problem stored =
      stored_as(problem_, is_a ? (k_major ? Layout::nn : Layout::nt) : (k_major ? Layout::tn : Layout::nn));
  const std::int64_t elements = is_a ? stored.a_extent() : stored.b_extent();
  const std::int64_t ld = is_a ? stored.a_ld() : stored.b_ld();
  Stack made = allocate(elements, Spacing::scattered, Contents::fixed);
  for (int set = 0; set < count_; ++set) {
    if (!problem_.packed()) set_pattern(made.at(set), elements, kGap, stream_);
    fill_input(spec(set), matrix, k_major, made.at(set), stream_, ld);
  }
  stack = std::move(made);
  return stack;
}

OperandSet TimingOperands::operands(Layout layout, int inputs, int output) {
  Problem as_stored = problem_;
  as_stored.layout = layout;
  OperandSet set{filled(Matrix::a, as_stored.a_is_k_major()).at(inputs),
                 filled(Matrix::b, as_stored.b_is_k_major()).at(inputs), c_.at(output)};
  if (problem_.scaled()) {
    set.alpha = kTimedFactors.alpha;
    set.beta = kTimedFactors.beta;
  }
  return set;
}

Judging TimingOperands::judging() const {
  return {Criterion::bound, problem_.accumulator, problem_.scaled(), kTimedFactors, spec(0).seed, problem_.c_ld()};
}

void TimingOperands::poison(int first, int sets, std::uint16_t pattern) {
  set_pattern(c_.at(first), c_.stride * sets, pattern, stream_);
  fill_old_outputs(first, sets);
}

void TimingOperands::poison_all(int sets, std::uint16_t pattern) {
  set_pattern(c_.memory.as<std::uint16_t>(), static_cast<std::int64_t>(c_.memory.bytes() / 2), pattern, stream_);
  fill_old_outputs(0, sets);
}

void TimingOperands::fill_old_outputs(int first, int sets) {
  if (!problem_.scaled()) return;
  for (int set = first; set < first + sets; ++set) {
    fill_output(spec(0), problem_.c_ld(), c_.at(set), stream_);
  }
}

}  // namespace warpsmith::cuda
