// What the CUDA driver knows of the calling thread, asked without linking it.
#pragma once

#include <optional>

#include "warpsmith/hgemm.h"

namespace warpsmith::interposer {

// Number of the device of the calling thread's context; nothing without a context or a driver.
std::optional<int> current_device();

// True also where the driver cannot tell.
bool is_capturing(cudaStream_t stream);

// While one lives, its thread may do what would spoil a stream capture of another thread (allocate, load modules).
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_;
};

}  // namespace warpsmith::interposer
