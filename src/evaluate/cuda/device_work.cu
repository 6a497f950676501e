// The evaluator's own kernels. All are grid-stride loops over elements; speed matters little next to being plain.
#include "evaluate/cuda/device_work.h"

#include "evaluate/cuda/cuda_handles.h"

namespace warpsmith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 4096;
constexpr unsigned long long kNone = ~0ULL;

int blocks_for(std::int64_t items) {
  const std::int64_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 1 ? 1 : (blocks < kMaxBlocks ? blocks : kMaxBlocks));
}

__device__ std::int64_t first_item() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ std::int64_t item_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

__device__ void record_bad(Totals* totals, std::int64_t index) {
  atomicAdd(&totals->bad, 1ULL);
  atomicMin(&totals->first, static_cast<unsigned long long>(index));
}

// The input at position `index` of the matrix as stored.
__device__ std::uint16_t stored_input(const InputSpec& spec, Matrix matrix, bool k_major, std::int64_t index) {
  const std::int64_t outer = matrix == Matrix::a ? spec.m : spec.n;
  const std::int64_t columns = k_major ? spec.k : outer;
  const std::int64_t row = index / columns, column = index % columns;
  const std::int64_t k = k_major ? column : row, other = k_major ? row : column;
  return matrix == Matrix::a ? input_a(spec, other, k) : input_b(spec, k, other);
}

__global__ void fill_kernel(InputSpec spec, Matrix matrix, bool k_major, std::uint16_t* out, std::int64_t count) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) out[i] = stored_input(spec, matrix, k_major, i);
}

__global__ void changed_kernel(InputSpec spec, Matrix matrix, bool k_major, const std::uint16_t* stored,
                               std::int64_t count, Totals* totals) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    if (stored[i] != stored_input(spec, matrix, k_major, i)) record_bad(totals, i);
  }
}

__global__ void widen_kernel(InputSpec spec, Matrix matrix, std::int64_t first, std::int64_t count, bool absolute,
                             double* out) {
  const std::int64_t columns = matrix == Matrix::a ? spec.k : spec.n;
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    const std::int64_t row = (first + i) / columns, column = (first + i) % columns;
    const std::uint16_t bits = matrix == Matrix::a ? input_a(spec, row, column) : input_b(spec, row, column);
    const double value = element_to_double(bits, spec.element);
    out[i] = absolute ? fabs(value) : value;
  }
}

__device__ bool reference_agrees(double reference, double direct, double magnitude, std::int64_t k) {
  if (isnan(direct)) return isnan(reference);
  if (isinf(direct)) return reference == direct;
  const double allowed = static_cast<double>(k + 2) * power_of_two(-52) * magnitude;
  return fabs(reference - direct) <= allowed;
}

// One warp per sampled element.
__global__ void sample_kernel(InputSpec spec, const double* c64, const double* magnitudes, int samples,
                              Totals* totals) {
  const int lane = threadIdx.x % 32;
  for (std::int64_t sample = first_item() / 32; sample < samples; sample += item_step() / 32) {
    const std::uint64_t draw = inputs::mix(spec.seed ^ inputs::mix(static_cast<std::uint64_t>(sample) + 77));
    const auto index = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(spec.m * spec.n));
    const std::int64_t row = index / spec.n, column = index % spec.n;
    double sum = 0, magnitude = 0;
    for (std::int64_t k = lane; k < spec.k; k += 32) {
      const double a = element_to_double(input_a(spec, row, k), spec.element);
      const double b = element_to_double(input_b(spec, k, column), spec.element);
      sum = fma(a, b, sum);
      magnitude = fma(fabs(a), fabs(b), magnitude);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, offset);
      magnitude += __shfl_xor_sync(0xffffffffU, magnitude, offset);
    }
    const bool finite = !isnan(sum) && !isinf(sum);
    const bool good = reference_agrees(c64[index], sum, magnitude, spec.k) &&
                      (!finite || reference_agrees(magnitudes[index], magnitude, magnitude, spec.k));
    if (lane == 0 && !good) record_bad(totals, index);
  }
}

__global__ void pattern_kernel(std::uint16_t* out, std::int64_t count, std::uint16_t pattern) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) out[i] = pattern;
}

__global__ void equal_kernel(const std::uint16_t* values, std::int64_t count, std::uint16_t pattern, bool equal,
                             Totals* totals) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    if ((values[i] == pattern) == equal) record_bad(totals, i);
  }
}

__device__ std::uint16_t zone_pattern(std::int64_t offset, std::uint64_t key) {
  return static_cast<std::uint16_t>(inputs::mix(key + static_cast<std::uint64_t>(offset)));
}

__global__ void paint_kernel(std::uint16_t* slab, std::int64_t begin, std::int64_t end, std::uint64_t key) {
  for (std::int64_t i = begin + first_item(); i < end; i += item_step()) slab[i] = zone_pattern(i, key);
}

__global__ void damage_kernel(const std::uint16_t* slab, std::int64_t begin, std::int64_t end, std::uint64_t key,
                              Totals* totals) {
  for (std::int64_t i = begin + first_item(); i < end; i += item_step()) {
    if (slab[i] != zone_pattern(i, key)) record_bad(totals, i);
  }
}

__global__ void judge_kernel(const std::uint16_t* c, const double* c64, const double* magnitudes, std::int64_t count,
                             std::int64_t k, ElementType element, Criterion criterion, Totals* totals) {
  double worst = 0;
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    const AcceptableRange range = acceptable_range(criterion, c64[i], magnitudes[i], k, element);
    if (!range.contains(c[i], element)) record_bad(totals, i);
    const double ratio = error_ratio(c[i], c64[i], magnitudes[i], k, element);
    if (ratio > worst) worst = ratio;
  }
  if (worst > 0) atomicMax(&totals->worst_bits, static_cast<unsigned long long>(double_bits(worst)));
}

__global__ void hash_kernel(const std::uint16_t* c, std::int64_t count, unsigned long long* hash) {
  unsigned long long sum = 0;
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    sum += inputs::mix((static_cast<std::uint64_t>(i) << 16 | c[i]) + 0x9e3779b97f4a7c15ULL);
  }
  atomicAdd(hash, sum);
}

__global__ void read_kernel(const uint4* memory, std::int64_t count, unsigned* sink) {
  unsigned sum = 0;
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    const uint4 value = memory[i];
    sum += value.x ^ value.y ^ value.z ^ value.w;
  }
  if (sum == 0x9e3779b9U) *sink = sum;  // keeps the loads alive
}

std::int64_t input_count(const InputSpec& spec, Matrix matrix) {
  return (matrix == Matrix::a ? spec.m : spec.n) * spec.k;
}

}  // namespace

void clear_totals(Totals* totals, cudaStream_t stream) {
  static const Totals kClear = {0, kNone, 0};
  check(cudaMemcpyAsync(totals, &kClear, sizeof kClear, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
}

void fill_input(const InputSpec& spec, Matrix matrix, bool k_major, std::uint16_t* out, cudaStream_t stream) {
  const std::int64_t count = input_count(spec, matrix);
  fill_kernel<<<blocks_for(count), kThreads, 0, stream>>>(spec, matrix, k_major, out, count);
  check(cudaGetLastError(), "fill_kernel");
}

void count_changed_input(const InputSpec& spec, Matrix matrix, bool k_major, const std::uint16_t* stored,
                         Totals* totals, cudaStream_t stream) {
  const std::int64_t count = input_count(spec, matrix);
  changed_kernel<<<blocks_for(count), kThreads, 0, stream>>>(spec, matrix, k_major, stored, count, totals);
  check(cudaGetLastError(), "changed_kernel");
}

void widen_input(const InputSpec& spec, Matrix matrix, std::int64_t first_row, std::int64_t rows, bool absolute,
                 double* out, cudaStream_t stream) {
  const std::int64_t columns = matrix == Matrix::a ? spec.k : spec.n;
  widen_kernel<<<blocks_for(rows * columns), kThreads, 0, stream>>>(spec, matrix, first_row * columns, rows * columns,
                                                                    absolute, out);
  check(cudaGetLastError(), "widen_kernel");
}

void count_bad_references(const InputSpec& spec, const double* c64, const double* magnitudes, int samples,
                          Totals* totals, cudaStream_t stream) {
  sample_kernel<<<blocks_for(static_cast<std::int64_t>(samples) * 32), kThreads, 0, stream>>>(spec, c64, magnitudes,
                                                                                              samples, totals);
  check(cudaGetLastError(), "sample_kernel");
}

void set_pattern(std::uint16_t* out, std::int64_t count, std::uint16_t pattern, cudaStream_t stream) {
  pattern_kernel<<<blocks_for(count), kThreads, 0, stream>>>(out, count, pattern);
  check(cudaGetLastError(), "pattern_kernel");
}

void count_equal(const std::uint16_t* values, std::int64_t count, std::uint16_t pattern, Totals* totals,
                 cudaStream_t stream) {
  equal_kernel<<<blocks_for(count), kThreads, 0, stream>>>(values, count, pattern, true, totals);
  check(cudaGetLastError(), "equal_kernel");
}

void count_unequal(const std::uint16_t* values, std::int64_t count, std::uint16_t pattern, Totals* totals,
                   cudaStream_t stream) {
  equal_kernel<<<blocks_for(count), kThreads, 0, stream>>>(values, count, pattern, false, totals);
  check(cudaGetLastError(), "equal_kernel");
}

void paint_zone(std::uint16_t* slab, std::int64_t begin, std::int64_t end, std::uint64_t key, cudaStream_t stream) {
  paint_kernel<<<blocks_for(end - begin), kThreads, 0, stream>>>(slab, begin, end, key);
  check(cudaGetLastError(), "paint_kernel");
}

void count_zone_damage(const std::uint16_t* slab, std::int64_t begin, std::int64_t end, std::uint64_t key,
                       Totals* totals, cudaStream_t stream) {
  damage_kernel<<<blocks_for(end - begin), kThreads, 0, stream>>>(slab, begin, end, key, totals);
  check(cudaGetLastError(), "damage_kernel");
}

void judge_output(const std::uint16_t* c, const double* c64, const double* magnitudes, const InputSpec& spec,
                  Criterion criterion, Totals* totals, cudaStream_t stream) {
  const std::int64_t count = spec.m * spec.n;
  judge_kernel<<<blocks_for(count), kThreads, 0, stream>>>(c, c64, magnitudes, count, spec.k, spec.element, criterion,
                                                           totals);
  check(cudaGetLastError(), "judge_kernel");
}

void hash_output(const std::uint16_t* c, std::int64_t count, unsigned long long* hash, cudaStream_t stream) {
  hash_kernel<<<blocks_for(count), kThreads, 0, stream>>>(c, count, hash);
  check(cudaGetLastError(), "hash_kernel");
}

void read_through(const void* memory, std::int64_t bytes, unsigned* sink, cudaStream_t stream) {
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(uint4));
  read_kernel<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<const uint4*>(memory), count, sink);
  check(cudaGetLastError(), "read_kernel");
}

}  // namespace warpsmith::cuda
