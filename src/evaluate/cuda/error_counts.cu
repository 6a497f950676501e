// The counting kernel of the error statistics.
#include "evaluate/cuda/error_statistics.h"

namespace warpsmith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 2048;

__device__ int bin_of(double error) {
  return static_cast<int>(double_bits(error) >> (63 - kErrorBinBits));  // the sign is 0
}

// One unit in the last place of a finite value's binade.
__device__ double ulp_of(double value, ElementType type) {
  int exponent = static_cast<int>((double_bits(value) >> 52) & 0x7ff) - 1023;
  if (exponent < 1 - exponent_bias(type)) exponent = 1 - exponent_bias(type);
  return power_of_two(exponent - mantissa_bits(type));
}

__device__ bool is_finite_bits(std::uint16_t bits, ElementType type) {
  return fabs(element_to_double(bits, type)) <= 1e300;
}

__global__ void error_kernel(const std::uint16_t* c, MaskedReference reference, std::int64_t k, ElementType type,
                             std::int64_t count, ErrorCounts* counts) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  double largest = 0, largest_ulp = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const double c64 = double_from_bits(reference.c64[i] ^ reference_mask(reference.key, i, 0));
    const double magnitude = double_from_bits(reference.magnitudes[i] ^ reference_mask(reference.key, i, 1));
    const AcceptableRange range = acceptable_range(Criterion::bound, c64, magnitude, k, type);
    // Infinity or NaN may be right.
    if (range.nan || !is_finite_bits(range.lo, type) || !is_finite_bits(range.hi, type)) continue;
    atomicAdd(&counts->elements, 1ULL);
    const double got = element_to_double(c[i], type);
    const double error = fabs(got - c64);
    if (!(error <= 1e300)) {
      atomicAdd(&counts->overflowed, 1ULL);
      continue;
    }
    const double in_ulps = error / ulp_of(c64, type);
    atomicAdd(&counts->errors[bin_of(error)], 1U);
    atomicAdd(&counts->ulps[bin_of(in_ulps)], 1U);
    if (error > largest) largest = error;
    if (in_ulps > largest_ulp) largest_ulp = in_ulps;
  }
  atomicMax(&counts->largest_error, static_cast<unsigned long long>(double_bits(largest)));
  atomicMax(&counts->largest_ulp, static_cast<unsigned long long>(double_bits(largest_ulp)));
}

}  // namespace

void count_errors(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec, ErrorCounts* counts,
                  cudaStream_t stream) {
  const std::int64_t count = spec.m * spec.n;
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  error_kernel<<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0, stream>>>(
      c, reference, spec.k, spec.element, count, counts);
  check(cudaGetLastError(), "error_kernel");
}

}  // namespace warpsmith::cuda
