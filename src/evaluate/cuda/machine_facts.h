// What the evaluator knows of a CUDA device, and its clock while it works.
#pragma once

#include <string>
#include <vector>

#include "problem/machine.h"

namespace warpsmith::cuda {

// Makes `device` the current one and starts it. Error (environment): there is none, or it cannot be used.
Status start_device(int device);

// Throws CudaError. The peaks are upper bounds: no kernel on the device can beat them.
Machine describe_device(int device);

// Ordinals of the other devices with the same name. Throws CudaError.
std::vector<int> devices_like(int device);

// SM clocks through NVML, which is opened at run time; where it is missing, mhz() is 0.
class ClockReader {
 public:
  explicit ClockReader(int device);
  double mhz() const;
  std::vector<std::string> throttle_reasons() const;  // "power cap", "thermal" ...; none where NVML does not say
  std::string driver_version() const;                 // "580.159.03"; empty: unknown

 private:
  void* library_ = nullptr;  // stays open for the life of the process
  void* device_ = nullptr;
};

}  // namespace warpsmith::cuda
