// Tasks on a CUDA device: candidates are device code, references C++ on the host or CUDA code in double precision.
#pragma once

#include <memory>

#include "problem/machine.h"
#include "task/service.h"

namespace warpsmith::task {

// `device`: the ordinal, which the worker's backend has made current.
std::unique_ptr<DeviceFactory> make_cuda_factory(const Machine& machine, int device);

}  // namespace warpsmith::task
