// Tells whether timed launches have changed device memory that is not theirs to write: a result that a kernel kept
// there would still be there in the next batch, which times the same operands. Throws CudaError.
#pragma once

#include <cstdint>
#include <map>

#include "evaluate/cuda/cuda_handles.h"

namespace warpsmith::cuda {

class MemoryWatch {
 public:
  explicit MemoryWatch(cudaStream_t stream);

  // Nothing is known: others than timed launches may write.
  void forget() { known_.clear(); }
  // Takes watched memory that is not known yet to be as it should be. Costs nothing where there is none. Of more memory
  // than kMostBytes a sample is looked at, blocks of 2 KiB that nobody can foresee: a kernel that keeps results of many
  // timed sets writes many.
  void look();
  // Bytes of the known buffers that no longer hold what look() saw, in whole buffers. Waits.
  std::size_t changed_bytes();

  static constexpr std::size_t kMostBytes = 512 << 20;

 private:
  struct Seen {
    std::size_t bytes = 0;
    unsigned long long hash = 0;
  };
  // All that is watched now; there is room for their hashes.
  std::map<void*, std::size_t> list();
  std::map<void*, Seen> hashes_of(const std::map<void*, std::size_t>& ranges);

  cudaStream_t stream_;
  std::uint64_t key_ = 0;
  double share_ = 1;  // of the blocks
  DeviceBuffer hashes_;
  std::map<void*, Seen> known_;
  std::uint64_t looked_at_ = 0;  // watched_memory_version() then
};

}  // namespace warpsmith::cuda
