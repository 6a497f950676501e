// Allocation and filling of the timed sets.
#include "evaluate/cuda/timing_operands.h"

#include <algorithm>

namespace warpsmith::cuda {

namespace {

constexpr std::int64_t kAlignElements = 128;  // 256 bytes
constexpr double kReferenceShare = 0.15;      // of free memory, for the references of different data

std::int64_t align(std::int64_t elements) { return (elements + kAlignElements - 1) / kAlignElements * kAlignElements; }

}  // namespace

TimingOperands::TimingOperands(const Problem& problem, std::uint64_t seed, int launches, std::int64_t l2_bytes,
                               ReferenceMaker& references, cudaStream_t stream)
    : problem_(problem), stream_(stream) {
  const auto set_bytes = static_cast<std::int64_t>(problem.bytes());
  const auto sets_for_l2 = static_cast<int>(std::min<std::int64_t>(2 * l2_bytes / set_bytes + 2, 1 << 20));
  count_ = std::clamp(sets_for_l2, 2, std::max(launches, 2));
  c_ = allocate(problem.m * problem.n);
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  const double reference_bytes = 16.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n);
  const double affordable = kReferenceShare * static_cast<double>(free_bytes) / reference_bytes;
  const int distinct = static_cast<int>(std::clamp(affordable, 1.0, static_cast<double>(count_)));
  for (int i = 0; i < distinct; ++i) {
    const InputSpec spec{InputKind::normal, inputs::mix(seed + 0x1000 + static_cast<std::uint64_t>(i)),
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

OperandSet TimingOperands::operands(Layout layout, int set) {
  Problem as_stored = problem_;
  as_stored.layout = layout;
  return {filled(Matrix::a, as_stored.a_is_k_major()).at(set), filled(Matrix::b, as_stored.b_is_k_major()).at(set),
          c_.at(set)};
}

void TimingOperands::poison(int sets, std::uint16_t pattern) {
  set_pattern(c_.at(0), c_.stride * std::min(sets, count_), pattern, stream_);
}

}  // namespace warpsmith::cuda
