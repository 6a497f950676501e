// The operands of the gates: A, B, C and a workspace in one allocation, everything between them painted red.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "evaluate/backend.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/device_work.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

// Device addresses that a launch works on.
struct OperandSet {
  std::uint16_t* a = nullptr;
  std::uint16_t* b = nullptr;
  std::uint16_t* c = nullptr;
};

class GateOperands {
 public:
  GateOperands(const Problem& problem, std::int64_t workspace_bytes, cudaStream_t stream);

  // Places the four regions anew (order and 256-byte aligned offsets follow `run`), paints the red zones, fills A and
  // B.
  void arrange(const InputSpec& spec, std::uint64_t run);
  OperandSet operands() const { return {region(0), region(1), region(2)}; }
  std::uint16_t* workspace() const { return region(3); }
  std::int64_t workspace_bytes() const { return words_[3] * 2; }

  void poison(std::uint16_t pattern, bool zero_workspace);
  // Red zones, A and B as arrange() left them; a workspace that must stay cleared is.
  CheckReport check_untouched(bool zero_workspace);

 private:
  static constexpr int kRegions = 4;  // A, B, C, workspace
  std::uint16_t* region(int index) const { return slab_.as<std::uint16_t>() + begin_[static_cast<std::size_t>(index)]; }
  Totals read_totals();
  // Calls visit(begin, end, name) for every red zone, in words from the slab's start.
  template <class Visit>
  void for_each_zone(Visit visit) const;

  Problem problem_;
  cudaStream_t stream_;
  std::int64_t zone_words_ = 0, slab_words_ = 0;
  std::array<std::int64_t, kRegions> words_{}, begin_{};
  std::array<int, kRegions> order_{0, 1, 2, 3};
  InputSpec spec_;
  std::uint64_t key_ = 0;
  DeviceBuffer slab_, totals_;
};

}  // namespace warpsmith::cuda
