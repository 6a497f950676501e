// How far results are from FP64: not whether they may be (that is the judge's), but the largest error and its
// percentiles, to stand beside another library's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/inputs.h"

namespace warpsmith::cuda {

// A histogram over the binades of a positive double, kErrorBins / 2048 bins each.
inline constexpr int kErrorBinBits = 18;
inline constexpr int kErrorBins = 1 << kErrorBinBits;

// What the counting kernel adds up, in device memory.
struct ErrorCounts {
  unsigned long long elements;                    // where the correctly rounded result is finite
  unsigned long long overflowed;                  // of those, results that are not
  unsigned long long largest_error, largest_ulp;  // a double's bits
  unsigned errors[kErrorBins];                    // |c - c64|
  unsigned ulps[kErrorBins];  // the same in units in the last place of c64's binade, in the element type
};

// Adds C's errors; `counts` was cleared. Throws CudaError.
void count_errors(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec, ErrorCounts* counts,
                  cudaStream_t stream);

// The largest error of the bin that holds the element of rank fraction * elements.
double error_percentile(const unsigned* bins, unsigned long long elements, double fraction);

// {"max_error", "p99_error", "max_ulp", "p99_ulp", "overflowed", "elements"}; percentiles are bins' upper edges, at
// most 0.8 % above the value. Waits. Throws CudaError.
nlohmann::json error_statistics(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec,
                                DeviceBuffer& counts, cudaStream_t stream);

}  // namespace warpsmith::cuda
