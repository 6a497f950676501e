// What the foreign process is given, in one piece of shared memory: a gate area, in which A, B, C and the workspace lie
// among red zones at places that change, and a timing area with many operand sets. The judge fills and reads all of it;
// the foreign process learns offsets. Throws cuda::CudaError.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "audit/cuda/shared_memory.h"
#include "evaluate/backend.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/cuda/gate_operands.h"
#include "evaluate/cuda/timing_operands.h"
#include "problem/problem.h"

namespace warpsmith::audit {

class SharedOperands {
 public:
  static std::size_t bytes_needed(const Problem& problem, std::int64_t workspace_bytes, int sets);

  // `timing` holds the values of the timed sets; they are copied.
  SharedOperands(SharedMemory& memory, const Problem& problem, std::int64_t workspace_bytes,
                 cuda::TimingOperands& timing, cudaStream_t stream);

  // --- gate area ---
  void place();  // somewhere else, red zones painted, workspace cleared
  void fill(const InputSpec& spec);
  void poison_workspace(std::uint16_t pattern);
  cuda::OperandSet gate() const { return {region(kA), region(kB), region(kC)}; }
  CheckReport check_surroundings();  // red zones as painted, A and B as filled
  // Two calls of which the second reads, as its A or its B, memory that the first writes as its C. The gate area is
  // laid out for them; place() lays it out for gates again. The other operands, and the second C, are of timed sets.
  struct Chain {
    cuda::OperandSet first, second;
    std::int64_t shared_words = 0;  // written by the first and read by the second
  };
  // shift: from the first word of C to the first word of the operand, a multiple of kAlignWords below m * n.
  Chain chain(cuda::Matrix through, std::int64_t shift) const;
  // Ready for a run: the first C, and all of the second, hold `pattern`.
  void prepare_chain(const Chain& chain, cuda::Matrix through, std::uint16_t pattern);
  nlohmann::json chain_table(const Chain& chain) const;
  // Different shifts that are worth trying: heads of both, and ever shorter tails of C under heads of the operand.
  std::vector<std::int64_t> chain_shifts(cuda::Matrix through) const;
  // A hash of the second C with the padding behind it, added to *hash.
  void queue_output_hash(const Chain& chain, unsigned long long* hash) const;

  // Exchanges two rows of A. Precondition: A is stored row by row.
  void swap_rows_of_a(std::int64_t first, std::int64_t second);

  // --- timing area ---
  int sets() const { return sets_; }
  cuda::OperandSet timed(int set) const;
  // Every C, and the workspace, hold `pattern` afterwards.
  void poison_timed(std::uint16_t pattern);
  // Queues a count of the words that hold `pattern` in all C, padding included, whatever was written.
  void queue_poison_count(std::uint16_t pattern, cuda::Totals* totals) const;
  // The count where exactly `written` sets have been written.
  std::int64_t poison_left(int written) const { return c_stride_ * sets_ - written * problem_.m * problem_.n; }
  void read_inputs(int set, unsigned* sink) const;  // into the L2 cache
  CheckReport check_timed_inputs(const cuda::TimingOperands& timing);

  // Arguments of the command "table". Warm: A and B of one set with the C of each.
  nlohmann::json gate_table() const;
  nlohmann::json timed_table(bool cold) const;
  std::uint64_t offset_of(const void* address) const;

 private:
  enum Region { kA, kB, kC, kWorkspace, kRegions };
  std::uint16_t* base() const { return static_cast<std::uint16_t*>(memory_.data()); }
  std::uint16_t* region(int index) const { return base() + begin_[static_cast<std::size_t>(index)]; }
  nlohmann::json table_head(std::uint64_t workspace) const;
  static constexpr std::int64_t kChainWorkspace = 0;  // where it begins in the gate area, in words
  std::int64_t chain_begin() const;                   // of C, behind the workspace
  int chained_set() const { return sets_ > 1 ? 1 : 0; }
  template <class Visit>
  void for_each_zone(Visit visit) const;
  cuda::Totals read_totals();

  SharedMemory& memory_;
  Problem problem_;
  cudaStream_t stream_;
  std::array<std::int64_t, kRegions> words_{}, begin_{};
  std::array<int, kRegions> order_{kA, kB, kC, kWorkspace};
  std::int64_t gate_words_ = 0;
  int sets_ = 1;
  std::int64_t a_stride_ = 0, b_stride_ = 0, c_stride_ = 0;  // words; the stacks of A, B, C follow the gate area
  std::uint64_t key_ = 0;
  InputSpec spec_;
  cuda::DeviceBuffer totals_, row_;
};

}  // namespace warpsmith::audit
