// FP64 references: C and the sum of |a||b| for every element, by cuBLAS on FP64 copies of the inputs, kept for reuse.
// They share the device's memory with the candidates, so they lie there masked (device_work.h).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/inputs.h"

namespace warpsmith::cuda {

struct Reference {
  InputSpec spec;
  DeviceBuffer c64;         // m x n doubles, row-major, masked
  DeviceBuffer magnitudes;  // sum over k of |a||b|, same shape
  std::uint64_t key = 0;    // of the mask
  unsigned long long checksum = 0;

  MaskedReference masked() const { return {c64.as<std::uint64_t>(), magnitudes.as<std::uint64_t>(), key}; }
  // Of device memory that one of m x n elements takes.
  static std::size_t mapped_bytes(std::int64_t elements) {
    return 2 * DeviceBuffer::mapped_bytes(static_cast<std::size_t>(elements) * sizeof(double));
  }
};

// The references of several products of one shape, in two buffers: hundreds of small ones, each in pages of its own,
// would take more memory than what they hold, and longer to watch.
class ReferenceStack {
 public:
  const InputSpec& spec(int index) const { return specs_[static_cast<std::size_t>(index)]; }
  MaskedReference masked(int index) const {
    return {c64_.as<std::uint64_t>(byte_offset(index)), magnitudes_.as<std::uint64_t>(byte_offset(index)), key(index)};
  }
  // Of device memory that each of m x n elements takes.
  static std::size_t bytes_of(std::int64_t elements) { return 2 * stride_of(elements); }

 private:
  friend class ReferenceMaker;

  static constexpr std::size_t kAlign = 256;
  static std::size_t stride_of(std::int64_t elements) {
    return (static_cast<std::size_t>(elements) * sizeof(double) + kAlign - 1) / kAlign * kAlign;
  }
  std::size_t byte_offset(int index) const { return static_cast<std::size_t>(index) * stride_; }
  std::uint64_t key(int index) const { return keys_[static_cast<std::size_t>(index)]; }

  std::vector<InputSpec> specs_;
  std::vector<std::uint64_t> keys_;  // of the masks
  std::size_t stride_ = 0;           // bytes
  DeviceBuffer c64_, magnitudes_;
};

class ReferenceMaker {
 public:
  ReferenceMaker(cublasHandle_t cublas, cudaStream_t stream) : cublas_(cublas), stream_(stream) {}

  // Drops all references and scratch space; `budget_bytes` limits what is kept from now on.
  void reset(std::size_t budget_bytes);

  // The reference of these inputs, made or kept. A sample of its elements is recomputed by plain dot products; throws
  // CudaError where the two disagree.
  std::shared_ptr<const Reference> get(const InputSpec& spec);
  // The same without keeping it here.
  std::shared_ptr<const Reference> make(const InputSpec& spec);
  // Precondition: at least one, all of one m and n.
  ReferenceStack make_stack(std::vector<InputSpec> specs);
  // False where a candidate has written into it.
  bool intact(const Reference& reference);

 private:
  // Both as they are kept, masked with `key`.
  void fill(const InputSpec& spec, std::uint64_t key, double* c64, double* magnitudes);
  void multiply(const InputSpec& spec, bool absolute, double* out);
  void audit(const InputSpec& spec, const double* c64, const double* magnitudes);
  unsigned long long sum(const Reference& reference);
  double* grow(DeviceBuffer& buffer, std::int64_t doubles);

  cublasHandle_t cublas_;
  cudaStream_t stream_;
  std::size_t budget_bytes_ = 0;
  std::list<std::shared_ptr<const Reference>> kept_;  // latest use first
  DeviceBuffer a64_, b64_, totals_;
};

}  // namespace warpsmith::cuda
