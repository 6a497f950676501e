// Tells whether timed launches have changed device memory that is not theirs to write: a result that a kernel kept
// there would still be there in the next batch, which times the same operands. Throws CudaError.
#pragma once

#include <cstdint>
#include <vector>

#include "evaluate/cuda/cuda_handles.h"

namespace warpsmith::cuda {

class MemoryWatch {
 public:
  // most_bytes: of more memory a sample is looked at, blocks of 2 KiB that nobody can foresee; a kernel that keeps
  // results of many timed sets writes many.
  explicit MemoryWatch(cudaStream_t stream, std::size_t most_bytes = 128 << 20);

  // Others than timed launches may write, but into nothing that is fixed: of that, what it held before stays known.
  void forget();
  // Takes watched memory that is not known yet to be as it should be. Costs nothing where there is none. After
  // forget(): the bytes, in whole buffers, of what stayed known and no longer holds what it did; until there are none,
  // or accept(). Otherwise 0.
  std::size_t look();
  // Bytes of the known buffers that no longer hold what look() saw, in whole buffers. Waits.
  std::size_t changed_bytes();
  // Whatever is there now is as it should be.
  void accept();

 private:
  struct Seen {
    void* begin = nullptr;
    WatchedRange range;
    unsigned long long hash = 0;
  };
  // Drops what was freed from known_. Returns what is watched and not known, without hashes.
  std::vector<Seen> refresh();
  // Bytes of the known buffers whose hashes, the first of `now`, are others.
  std::size_t changed_bytes(const std::vector<unsigned long long>& now) const;
  std::vector<unsigned long long> hashes_of(const std::vector<Seen>& places);

  cudaStream_t stream_;
  std::size_t most_bytes_;
  std::uint64_t key_ = 0;
  double share_ = 0;  // of the blocks; 0: nothing was looked at yet
  DeviceBuffer hashes_;
  std::vector<Seen> known_;
  std::uint64_t looked_at_ = 0;  // watched_memory_version() then
  bool forgot_ = true;
};

}  // namespace warpsmith::cuda
