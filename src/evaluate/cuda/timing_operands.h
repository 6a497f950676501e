// The operands that are timed: several sets of N(0,1) data at different addresses, each with its reference. Every
// layout's operands hold the same values; C is shared by all.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/gate_operands.h"
#include "evaluate/cuda/reference.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

class TimingOperands {
 public:
  // `launches`: the most that one replay makes. There are as many sets, or as many as free memory allows, each with
  // data and a reference of its own.
  TimingOperands(const Problem& problem, std::uint64_t seed, int launches, ReferenceMaker& references,
                 cudaStream_t stream);

  int count() const { return count_; }
  // A and B of one set, C of another. Fills the sets of a layout at its first use.
  OperandSet operands(Layout layout, int inputs, int output);
  // How a C of these sets is judged.
  Judging judging() const;
  // What is in A and B of set `inputs`, and their product.
  const InputSpec& spec(int inputs) const { return references_.spec(inputs); }
  MaskedReference reference(int inputs) const { return references_.masked(inputs); }
  // C of `sets` sets, from set `first` on, holds `pattern` afterwards; of a scaled problem, what input_c() says of set
  // 0.
  void poison(int first, int sets, std::uint16_t pattern);
  // The same of the first `sets`; and `pattern` lies in all others and between them, so that no result is kept there.
  void poison_all(int sets, std::uint16_t pattern);

 private:
  // One matrix of every set, in one allocation.
  struct Stack {
    DeviceBuffer memory;
    std::int64_t stride = 0;            // elements, a multiple of 256 bytes
    std::vector<std::int64_t> offsets;  // of each set, elements
    std::uint16_t* at(int set) const { return memory.as<std::uint16_t>() + offsets[static_cast<std::size_t>(set)]; }
  };
  enum class Spacing { dense, scattered };
  // Scattered: no set has another one stride before or behind it, so that no launch can guess where the next one's
  // operands lie and fetch them ahead.
  Stack allocate(std::int64_t elements, Spacing spacing, Contents contents) const;
  const Stack& filled(Matrix matrix, bool k_major);
  void fill_old_outputs(int first, int sets);  // of a scaled problem

  Problem problem_;
  cudaStream_t stream_;
  int count_ = 1;
  ReferenceStack references_;
  std::array<Stack, 2> a_, b_;  // [k-major]
  Stack c_;
};

}  // namespace warpsmith::cuda
