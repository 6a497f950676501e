// Allocation and filling of the timed sets.
#include "evaluate/cuda/timing_operands.h"

#include <algorithm>

namespace warpsmith::cuda {

namespace {

constexpr std::int64_t kAlignElements = 128;  // 256 bytes
constexpr double kReferenceShare = 0.15;      // of free memory
constexpr double kOperandShare = 0.5;         // of free memory, for every layout that may be asked for

std::int64_t align(std::int64_t elements) { return (elements + kAlignElements - 1) / kAlignElements * kAlignElements; }

}  // namespace

TimingOperands::TimingOperands(const Problem& problem, std::uint64_t seed, int launches, ReferenceMaker& references,
                               cudaStream_t stream)
    : problem_(problem), stream_(stream) {
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  const std::int64_t a = problem.m * problem.k, b = problem.k * problem.n, c = problem.m * problem.n;
  const auto share = [&](double part, double bytes) { return part * static_cast<double>(free_bytes) / bytes; };
  const double for_references = share(kReferenceShare, 2.0 * sizeof(double) * static_cast<double>(c));
  const double for_operands = share(kOperandShare, sizeof(std::uint16_t) * static_cast<double>(2 * a + 2 * b + c));
  count_ = static_cast<int>(std::clamp(std::min(for_references, for_operands), 1.0, std::max(1.0, 1.0 * launches)));
  c_ = allocate(c);
  for (int set = 0; set < count_; ++set) {
    const InputSpec spec{InputKind::normal, inputs::mix(seed + 0x1000 + static_cast<std::uint64_t>(set)),
                         problem.m,         problem.n,
                         problem.k,         problem.element};
    references_.push_back(references.make(spec));
  }
}

TimingOperands::Stack TimingOperands::allocate(std::int64_t elements) const {
  Stack stack;
  stack.stride = align(elements);
  stack.memory = DeviceBuffer(static_cast<std::size_t>(stack.stride * count_) * sizeof(std::uint16_t));
  return stack;
}

const TimingOperands::Stack& TimingOperands::filled(Matrix matrix, bool k_major) {
  Stack& stack = (matrix == Matrix::a ? a_ : b_)[k_major ? 1 : 0];
  if (stack.stride != 0) return stack;
  Stack made = allocate(matrix == Matrix::a ? problem_.m * problem_.k : problem_.k * problem_.n);
  for (int set = 0; set < count_; ++set) fill_input(reference(set).spec, matrix, k_major, made.at(set), stream_);
  stack = std::move(made);
  return stack;
}

OperandSet TimingOperands::operands(Layout layout, int inputs, int output) {
  Problem as_stored = problem_;
  as_stored.layout = layout;
  return {filled(Matrix::a, as_stored.a_is_k_major()).at(inputs),
          filled(Matrix::b, as_stored.b_is_k_major()).at(inputs), c_.at(output)};
}

void TimingOperands::poison(int first, int sets, std::uint16_t pattern) {
  set_pattern(c_.at(first), c_.stride * sets, pattern, stream_);
}

}  // namespace warpsmith::cuda
