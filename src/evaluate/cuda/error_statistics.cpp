// Reading the counts back, and percentiles of the histograms.
#include "evaluate/cuda/error_statistics.h"

#include <cmath>
#include <memory>

namespace warpsmith::cuda {

double error_percentile(const unsigned* bins, unsigned long long elements, double fraction) {
  const double wanted = fraction * static_cast<double>(elements);
  double seen = 0;
  for (int bin = 0; bin < kErrorBins; ++bin) {
    seen += bins[bin];
    if (seen > 0 && seen >= wanted) {
      if (bin == 0) return 0;
      return double_from_bits(static_cast<std::uint64_t>(bin + 1) << (63 - kErrorBinBits));
    }
  }
  return INFINITY;  // the rest has overflowed
}

nlohmann::json error_statistics(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec,
                                DeviceBuffer& counts, cudaStream_t stream) {
  if (counts.bytes() < sizeof(ErrorCounts)) counts = DeviceBuffer(sizeof(ErrorCounts));
  check(cudaMemsetAsync(counts.data(), 0, sizeof(ErrorCounts), stream), "cudaMemsetAsync");
  count_errors(c, reference, spec, counts.as<ErrorCounts>(), stream);
  const auto found = std::make_unique<ErrorCounts>();
  check(cudaMemcpyAsync(found.get(), counts.data(), sizeof(ErrorCounts), cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "counting errors");
  const auto figure = [](double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json("inf"); };
  const unsigned long long elements = found->elements;
  // An overflow is the largest error of all.
  const double max_error = found->overflowed > 0 ? INFINITY : double_from_bits(found->largest_error);
  const double max_ulp = found->overflowed > 0 ? INFINITY : double_from_bits(found->largest_ulp);
  return {{"max_error", figure(max_error)},
          {"p99_error", figure(std::fmin(error_percentile(found->errors, elements, 0.99), max_error))},
          {"max_ulp", figure(max_ulp)},
          {"p99_ulp", figure(std::fmin(error_percentile(found->ulps, elements, 0.99), max_ulp))},
          {"overflowed", found->overflowed},
          {"elements", elements}};
}

}  // namespace warpsmith::cuda
