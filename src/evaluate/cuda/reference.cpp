// DGEMM over row chunks of A, with an audit by dot products.
#include "evaluate/cuda/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "evaluate/gates.h"

namespace warpsmith::cuda {

namespace {

constexpr std::int64_t kChunkBytes = 1LL << 30;  // of A's FP64 copy
constexpr int kAuditSamples = 1024;

bool non_negative(InputKind kind) { return kind == InputKind::positive || kind == InputKind::zero_one; }

}  // namespace

void ReferenceMaker::reset(std::size_t budget_bytes) {
  kept_.clear();
  a64_ = {};
  b64_ = {};
  budget_bytes_ = budget_bytes;
}

std::shared_ptr<const Reference> ReferenceMaker::get(const InputSpec& spec) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& reference) { return reference->spec == spec; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  const auto bytes_of = [](const InputSpec& one) { return Reference::mapped_bytes(one.m * one.n); };
  std::size_t held = bytes_of(spec);
  for (const auto& reference : kept_) held += bytes_of(reference->spec);
  while (!kept_.empty() && held > budget_bytes_) {
    held -= bytes_of(kept_.back()->spec);
    kept_.pop_back();
  }
  kept_.push_front(make(spec));
  return kept_.front();
}

std::shared_ptr<const Reference> ReferenceMaker::make(const InputSpec& spec) {
  const std::size_t bytes = static_cast<std::size_t>(spec.m * spec.n) * sizeof(double);
  auto reference = std::make_shared<Reference>(
      Reference{spec, DeviceBuffer(bytes, Contents::fixed), DeviceBuffer(bytes, Contents::fixed), draw_seed(), 0});
  fill(spec, reference->key, reference->c64.as<double>(), reference->magnitudes.as<double>());
  reference->checksum = sum(*reference);
  return reference;
}

ReferenceStack ReferenceMaker::make_stack(std::vector<InputSpec> specs) {
  ReferenceStack stack;
  stack.stride_ = ReferenceStack::stride_of(specs.front().m * specs.front().n);
  stack.c64_ = DeviceBuffer(specs.size() * stack.stride_, Contents::fixed);
  stack.magnitudes_ = DeviceBuffer(specs.size() * stack.stride_, Contents::fixed);
  stack.specs_ = std::move(specs);
  for (std::size_t i = 0; i < stack.specs_.size(); ++i) {
    const std::size_t at = i * stack.stride_;
    stack.keys_.push_back(draw_seed());
    fill(stack.specs_[i], stack.keys_[i], stack.c64_.as<double>(at), stack.magnitudes_.as<double>(at));
  }
  return stack;
}

void ReferenceMaker::fill(const InputSpec& spec, std::uint64_t key, double* c64, double* magnitudes) {
  const std::int64_t elements = spec.m * spec.n;
  multiply(spec, false, c64);
  if (non_negative(spec.kind)) {
    check(cudaMemcpyAsync(magnitudes, c64, static_cast<std::size_t>(elements) * sizeof(double),
                          cudaMemcpyDeviceToDevice, stream_),
          "cudaMemcpyAsync");
  } else {
    multiply(spec, true, magnitudes);
  }
  audit(spec, c64, magnitudes);
  mask_reference(c64, elements, key, 0, stream_);
  mask_reference(magnitudes, elements, key, 1, stream_);
}

unsigned long long ReferenceMaker::sum(const Reference& reference) {
  auto* total = totals_.as<unsigned long long>();
  check(cudaMemsetAsync(total, 0, sizeof *total, stream_), "cudaMemsetAsync");
  for (const DeviceBuffer* part : {&reference.c64, &reference.magnitudes}) {
    hash_slab(part->as<std::uint16_t>(), static_cast<std::int64_t>(part->bytes() / 2), 0, 0, reference.key, total,
              stream_);
  }
  unsigned long long result = 0;
  check(cudaMemcpyAsync(&result, total, sizeof result, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "summing a reference");
  return result;
}

bool ReferenceMaker::intact(const Reference& reference) { return sum(reference) == reference.checksum; }

// Row-major C = A B is column-major C^T = B^T A^T, and a row-major matrix is its transpose in column-major order.
void ReferenceMaker::multiply(const InputSpec& spec, bool absolute, double* out) {
  double* b64 = grow(b64_, spec.k * spec.n);
  widen_input(spec, Matrix::b, 0, spec.k, absolute, b64, stream_);
  const std::int64_t row_bytes = spec.k * static_cast<std::int64_t>(sizeof(double));
  const std::int64_t chunk = std::clamp<std::int64_t>(kChunkBytes / row_bytes, 1, spec.m);
  double* a64 = grow(a64_, chunk * spec.k);
  const double one = 1, zero = 0;
  check(cublasSetStream(cublas_, stream_), "cublasSetStream");
  check(cublasSetMathMode(cublas_, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  for (std::int64_t row = 0; row < spec.m; row += chunk) {
    const std::int64_t rows = std::min(chunk, spec.m - row);
    widen_input(spec, Matrix::a, row, rows, absolute, a64, stream_);
    check(cublasDgemm_64(cublas_, CUBLAS_OP_N, CUBLAS_OP_N, spec.n, rows, spec.k, &one, b64, spec.n, a64, spec.k, &zero,
                         out + row * spec.n, spec.n),
          "cublasDgemm");
  }
  check(cublasSetMathMode(cublas_, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
}

void ReferenceMaker::audit(const InputSpec& spec, const double* c64, const double* magnitudes) {
  if (totals_.bytes() == 0) totals_ = DeviceBuffer(sizeof(Totals));
  auto* totals = totals_.as<Totals>();
  clear_totals(totals, stream_);
  count_bad_references(spec, c64, magnitudes, kAuditSamples, totals, stream_);
  Totals result{};
  check(cudaMemcpyAsync(&result, totals, sizeof result, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "making the FP64 reference");
  if (result.bad != 0) {
    throw CudaError(fmt::format("the FP64 reference by cuBLAS disagrees with plain dot products in {} of {} samples, "
                                "first at element {}",
                                result.bad, kAuditSamples, result.first),
                    false);
  }
}

double* ReferenceMaker::grow(DeviceBuffer& buffer, std::int64_t doubles) {
  const std::size_t bytes = static_cast<std::size_t>(doubles) * sizeof(double);
  if (buffer.bytes() < bytes) {
    buffer = {};
    buffer = DeviceBuffer(bytes);
  }
  return buffer.as<double>();
}

}  // namespace warpsmith::cuda
