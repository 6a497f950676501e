// Holds what is queued on a stream until all of it is there, so that none of it waits for the host.
#pragma once

#include "evaluate/cuda/cuda_handles.h"

namespace warpsmith::cuda {

class StreamGate {
 public:
  StreamGate();

  // Queues the hold. What is queued behind it runs once the result has been destroyed, or kLongestUs later.
  class [[nodiscard]] Hold {
   public:
    Hold(volatile unsigned* opened, unsigned ticket) : opened_(opened), ticket_(ticket) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { *opened_ = ticket_; }

   private:
    volatile unsigned* opened_;
    unsigned ticket_;
  };
  Hold close(cudaStream_t stream);

  // A host that is kept from opening it, or waits for the stream meanwhile, is not waited for any longer.
  static constexpr double kLongestUs = 2e4;

 private:
  Owner<void*, &cudaFreeHost> opened_;  // the last ticket that was let through; the device reads it
  unsigned ticket_ = 0;
};

}  // namespace warpsmith::cuda
