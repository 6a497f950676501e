// The evaluator's backend for CUDA devices.
#pragma once

#include <memory>

#include "base/result.h"
#include "evaluate/backend.h"

namespace warpsmith {

// Error: environment, when there is no usable device of that ordinal.
Result<std::unique_ptr<Backend>> make_cuda_backend(int device);

}  // namespace warpsmith
