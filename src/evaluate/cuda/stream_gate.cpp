// A kernel that waits for a word of host memory.
#include "evaluate/cuda/stream_gate.h"

#include "evaluate/cuda/device_work.h"

namespace warpsmith::cuda {

StreamGate::StreamGate() {
  check(cudaHostAlloc(opened_.out(), sizeof(unsigned), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  *static_cast<unsigned*>(opened_.get()) = ticket_;
}

StreamGate::Hold StreamGate::close(cudaStream_t stream) {
  void* seen_by_device = nullptr;
  check(cudaHostGetDevicePointer(&seen_by_device, opened_.get(), 0), "cudaHostGetDevicePointer");
  hold_stream_until(static_cast<const unsigned*>(seen_by_device), ++ticket_, kLongestUs, stream);
  return {static_cast<volatile unsigned*>(opened_.get()), ticket_};
}

}  // namespace warpsmith::cuda
