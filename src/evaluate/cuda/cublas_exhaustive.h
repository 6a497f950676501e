// The strongest bar that cuBLASLt can be: every configuration of every algorithm it has for a GEMM, not only those that
// its heuristic offers.
#pragma once

#include <memory>

#include "evaluate/backend.h"
#include "evaluate/cuda/cublas_baselines.h"

namespace warpsmith::cuda {

// "cublaslt-exhaustive-nn" or "-tn": the fastest right one found within `seconds`. Configurations are timed in random
// order, so that a search that ends early has seen a fair sample; detail() says how many there were. Partial sums are
// kept in FP32 (reduction in the output's type is not tried). Null: none is right. Throws CudaError.
std::unique_ptr<Baseline> search_cublaslt(const Problem& problem, Layout layout, cublasLtHandle_t cublaslt,
                                          const DeviceBuffer& workspace, double seconds, const TimeBaseline& time,
                                          const WorkProgress& progress);

}  // namespace warpsmith::cuda
