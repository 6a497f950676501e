// The evaluator's own kernels. All are grid-stride loops over elements; speed matters little next to being plain.
#include "evaluate/cuda/device_work.h"

#include <cstddef>

#include "evaluate/cuda/cuda_handles.h"

namespace warpsmith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 4096;
constexpr std::int64_t kBlocksAWarp = 4;   // of ranges that are hashed, at least
constexpr std::int64_t kHashWarps = 8192;  // about as many as run at once
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

// A matrix as stored, by the index of its elements without gaps.
struct StoredMatrix {
  Matrix matrix;
  bool k_major;
  std::int64_t columns, ld;

  __device__ std::int64_t position(std::int64_t index) const {
    return columns == ld ? index : index / columns * ld + index % columns;
  }
  __device__ std::uint16_t input(const InputSpec& spec, std::int64_t index) const {
    const std::int64_t row = index / columns, column = index % columns;
    const std::int64_t k = k_major ? column : row, other = k_major ? row : column;
    return matrix == Matrix::a ? input_a(spec, other, k) : input_b(spec, k, other);
  }
};

__global__ void fill_kernel(InputSpec spec, StoredMatrix stored, std::uint16_t* out, std::int64_t count) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) out[stored.position(i)] = stored.input(spec, i);
}

__global__ void changed_kernel(InputSpec spec, StoredMatrix stored, const std::uint16_t* values, std::int64_t count,
                               Totals* totals) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    if (values[stored.position(i)] != stored.input(spec, i)) record_bad(totals, i);
  }
}

__global__ void fill_output_kernel(InputSpec spec, std::int64_t ldc, std::uint16_t* out, std::int64_t count) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    out[i / spec.n * ldc + i % spec.n] = input_c(spec, i / spec.n, i % spec.n);
  }
}

// Gap element i: where it lies, and what it holds.
__device__ std::int64_t gap_position(const Gaps& gaps, std::int64_t i) {
  const std::int64_t width = gaps.ld - gaps.columns;
  return i / width * gaps.ld + gaps.columns + i % width;
}
__device__ std::uint16_t gap_pattern(std::int64_t position, std::uint64_t key) {
  const std::uint64_t bits = inputs::mix(key + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(position + 1));
  return static_cast<std::uint16_t>((bits & 0x8000) | (0x7f81 + (bits & 0x7fff) % 0x7e));
}

__global__ void paint_gaps_kernel(std::uint16_t* matrix, Gaps gaps, std::uint64_t key, std::int64_t count) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    const std::int64_t at = gap_position(gaps, i);
    matrix[at] = gap_pattern(at, key);
  }
}

__global__ void gap_damage_kernel(const std::uint16_t* matrix, Gaps gaps, std::uint64_t key, std::int64_t count,
                                  Totals* totals) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    const std::int64_t at = gap_position(gaps, i);
    if (matrix[at] != gap_pattern(at, key)) record_bad(totals, at);
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

// Whole words of four elements, and those before and behind them.
__global__ void pattern_kernel(std::uint16_t* out, std::int64_t count, std::uint16_t pattern) {
  const auto misplaced = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) / 2 % 4);
  const std::int64_t before = misplaced == 0 ? 0 : 4 - misplaced, head = before < count ? before : count;
  const std::int64_t words = (count - head) / 4;
  const unsigned long long word = 0x0001000100010001ULL * pattern;
  auto* first_word = reinterpret_cast<unsigned long long*>(out + head);
  for (std::int64_t i = first_item(); i < words; i += item_step()) first_word[i] = word;
  for (std::int64_t i = first_item(); i < head; i += item_step()) out[i] = pattern;
  for (std::int64_t i = head + 4 * words + first_item(); i < count; i += item_step()) out[i] = pattern;
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

__device__ unsigned long long warp_sum(unsigned long long value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffU, value, offset);
  return value;
}

__device__ unsigned long long warp_min(unsigned long long value) {
  for (int offset = 16; offset > 0; offset /= 2) value = min(value, __shfl_xor_sync(0xffffffffU, value, offset));
  return value;
}

__device__ double warp_max(double value) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmax(value, __shfl_xor_sync(0xffffffffU, value, offset));
  return value;
}

// Counts of one thread.
struct Tally {
  unsigned long long bad = 0, first = kNone, misrounded = 0;
  double worst = 0;

  __device__ void count(std::int64_t index) {
    const auto at = static_cast<unsigned long long>(index);
    ++bad;
    if (at < first) first = at;
  }
  // Atomics on one address queue up: a warp makes one of each kind at most, and none for an error that is not the
  // largest so far. Every thread of the warp takes part.
  __device__ void add_to(Totals* totals) const {
    const unsigned long long all_bad = warp_sum(bad), earliest = warp_min(first), all_misrounded = warp_sum(misrounded);
    const auto largest = static_cast<unsigned long long>(double_bits(warp_max(worst)));
    if (threadIdx.x % 32 != 0) return;
    if (all_bad != 0) {
      atomicAdd(&totals->bad, all_bad);
      atomicMin(&totals->first, earliest);
    }
    if (all_misrounded != 0) atomicAdd(&totals->misrounded, all_misrounded);
    if (largest > *static_cast<volatile unsigned long long*>(&totals->worst_bits)) {
      atomicMax(&totals->worst_bits, largest);
    }
  }
};

// One atomic a warp. Every thread of the warp takes part.
__device__ void add_warps(unsigned long long* total, unsigned long long value) {
  const unsigned long long sum = warp_sum(value);
  if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(total, sum);
}

struct JudgedBy {
  MaskedReference reference;
  InputSpec spec;
  Judging judging;

  // Element i of C, counted without gaps.
  __device__ std::uint16_t element(const std::uint16_t* c, std::int64_t i) const {
    return judging.ldc == 0 || judging.ldc == spec.n ? c[i] : c[i / spec.n * judging.ldc + i % spec.n];
  }
  __device__ Expected expected(std::int64_t i) const {
    const double c64 = double_from_bits(reference.c64[i] ^ reference_mask(reference.key, i, 0));
    const double magnitude = double_from_bits(reference.magnitudes[i] ^ reference_mask(reference.key, i, 1));
    const bool places = judging.scaled;  // divisions are slow, and only a scaled element's place matters
    return expected_element(spec, judging, places ? i / spec.n : 0, places ? i % spec.n : 0, c64, magnitude);
  }
  __device__ void judge(std::uint16_t bits, std::int64_t i, Tally& tally) const {
    const Expected wanted = expected(i);
    const AcceptableRange range = acceptable_range(judging.criterion, wanted, spec.element);
    if (!range.contains(bits, spec.element)) tally.count(i);
    if (is_misrounded(bits, range, wanted.value, spec.element)) ++tally.misrounded;
    const double ratio = error_ratio(bits, wanted, spec.element);
    if (ratio > tally.worst) tally.worst = ratio;
  }
};

__global__ void judge_kernel(const std::uint16_t* c, JudgedBy judged, std::int64_t count, Totals* totals) {
  Tally tally;
  for (std::int64_t i = first_item(); i < count; i += item_step()) judged.judge(judged.element(c, i), i, tally);
  tally.add_to(totals);
}

__global__ void inspect_kernel(const std::uint16_t* c, JudgedBy judged, std::int64_t count, std::uint16_t poison,
                               Observation* observation) {
  Tally tally;
  unsigned long long unwritten = 0, hash = 0;
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    const std::uint16_t bits = judged.element(c, i);
    judged.judge(bits, i, tally);
    if (bits == poison) ++unwritten;
    hash += inputs::mix((static_cast<std::uint64_t>(i) << 16 | bits) + 0x9e3779b97f4a7c15ULL);
  }
  tally.add_to(&observation->judged);
  add_warps(&observation->unwritten, unwritten);
  add_warps(&observation->output_hash, hash);
}

__global__ void mask_kernel(std::uint64_t* values, std::int64_t count, std::uint64_t key, int which) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) values[i] ^= reference_mask(key, i, which);
}

// Words of four 16-bit values. [0, head) and [tail, total) are hashed; tail_mask clears what of the word at `tail` is
// left out.
__global__ void slab_hash_kernel(const std::uint64_t* words, std::int64_t head, std::int64_t tail,
                                 std::uint64_t tail_mask, std::int64_t total, std::uint64_t key,
                                 unsigned long long* hash) {
  unsigned long long sum = 0;
  const std::int64_t count = head + total - tail;
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    const std::int64_t at = i < head ? i : i - head + tail;
    const std::uint64_t word = at == tail ? words[at] & tail_mask : words[at];
    sum += inputs::mix((key + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(at + 1)) ^ word);
  }
  add_warps(hash, sum);
}

__global__ void holes_kernel(std::uint16_t* out, std::int64_t count, std::uint16_t pattern, inputs::Holes holes) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    if (holes.at(i, count)) out[i] = pattern;
  }
}

// The range that holds this block of all.
__device__ int range_of(const HashRanges& ranges, std::int64_t block) {
  int low = 0, high = ranges.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (block < ranges.first_blocks[middle] ? high : low) = middle;
  }
  return low;
}

// A run of blocks for each warp, so that few of its blocks lie in another range than the one before.
__global__ void range_hash_kernel(const __grid_constant__ HashRanges ranges, std::uint64_t key, std::uint64_t highest,
                                  unsigned long long* hashes) {
  constexpr std::int64_t kWords = HashRanges::kBlockWords;
  const int lane = threadIdx.x % 32;
  const std::int64_t total = ranges.first_blocks[ranges.count], warps = item_step() / 32;
  const std::int64_t run = (total + warps - 1) / warps, begin = first_item() / 32 * run;
  const std::int64_t end = begin + run < total ? begin + run : total;
  if (begin >= end) return;
  const auto words_of = [&](std::int64_t block, int in) {
    return ranges.words[in] + (block - ranges.first_blocks[in]) * kWords;
  };
  int range = range_of(ranges, begin);
  unsigned long long sum = 0;
  for (std::int64_t group = begin; group < end; group += 32) {
    // Of a sample nearly all blocks are left out: each lane looks at another one.
    bool taken = false;
    if (const std::int64_t mine = group + lane; mine < end) {
      int in = range;
      while (mine >= ranges.first_blocks[in + 1]) ++in;
      taken = inputs::mix(key ^ reinterpret_cast<std::uintptr_t>(words_of(mine, in))) <= highest;
    }
    for (unsigned left_of_group = __ballot_sync(0xffffffffU, taken); left_of_group != 0;
         left_of_group &= left_of_group - 1) {
      const std::int64_t block = group + __ffs(static_cast<int>(left_of_group)) - 1;
      while (block >= ranges.first_blocks[range + 1]) {
        add_warps(hashes + range, sum);
        sum = 0;
        ++range;
      }
      const std::uint64_t* words = words_of(block, range);
      const std::int64_t offset = words - ranges.words[range], left = ranges.counts[range] - offset;
      const auto add = [&](std::int64_t i) {
        sum += inputs::mix((key + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(offset + i + 1)) ^ words[i]);
      };
      if (left >= kWords) {
#pragma unroll  // all loads of a block are under way at once
        for (int i = 0; i < kWords / 32; ++i) add(32 * i + lane);
      } else {
        for (std::int64_t i = lane; i < left; i += 32) add(i);
      }
    }
  }
  add_warps(hashes + range, sum);
}

// A block's threads together, 16 bytes at a time where both sides are aligned so.
__device__ void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  std::uint64_t done = 0;
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % sizeof(uint4) == 0) {
    const std::uint64_t words = bytes / sizeof(uint4);
    for (std::uint64_t i = threadIdx.x; i < words; i += blockDim.x) {
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    }
    done = words * sizeof(uint4);
  }
  for (std::uint64_t i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

__global__ void gather_kernel(const ImagePart* parts, std::byte* image) {
  const ImagePart part = parts[blockIdx.x];
  copy_bytes(image + part.offset, part.memory, part.bytes);
}

__global__ void scatter_kernel(const ImagePart* parts, const std::byte* image) {
  const ImagePart part = parts[blockIdx.x];
  copy_bytes(part.memory, image + part.offset, part.bytes);
}

// NaN as f16, bf16 and f32. Volatile: nothing reads it back here.
__global__ void scrub_kernel(int words) {
  extern __shared__ unsigned shared_words[];
  volatile unsigned* out = shared_words;
  for (int i = threadIdx.x; i < words; i += blockDim.x) out[i] = 0x7fab7fabU;
}

// Blocks that together are all the threads that run at once, each with the largest frame. Past the first-level cache,
// which drops a thread's memory when it ends.
constexpr int kScrubThreads = 256;
__global__ void __launch_bounds__(kScrubThreads) scrub_local_kernel() {
  constexpr int kWords = kMostLocalBytes / 4;
  unsigned words[kWords];
  for (int i = 0; i < kWords; ++i) {
    asm volatile("st.local.cg.u32 [%0], %1;" ::"l"(__cvta_generic_to_local(words + i)), "r"(0x7fab7fabU) : "memory");
  }
}

__global__ void idle_kernel() {}

__device__ unsigned long long global_ns() {
  unsigned long long ns = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void gate_kernel(const volatile unsigned* opened, unsigned ticket, unsigned long long longest_ns) {
  for (const unsigned long long start = global_ns(); *opened != ticket && global_ns() - start < longest_ns;) {
    __nanosleep(100);
  }
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

StoredMatrix stored_matrix(const InputSpec& spec, Matrix matrix, bool k_major, std::int64_t ld) {
  const std::int64_t columns = k_major ? spec.k : matrix == Matrix::a ? spec.m : spec.n;
  return {matrix, k_major, columns, ld == 0 ? columns : ld};
}

}  // namespace

void clear_totals(Totals* totals, cudaStream_t stream) {
  static const Totals kClear = {0, kNone, 0, 0};
  check(cudaMemcpyAsync(totals, &kClear, sizeof kClear, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
}

void clear_observation(Observation* observation, cudaStream_t stream) {
  static const Observation kClear = {{0, kNone, 0, 0}, 0, 0, 0, {0, kNone, 0, 0}, {0, kNone, 0, 0},
                                     {0, kNone, 0, 0}, 0};
  check(cudaMemcpyAsync(observation, &kClear, offsetof(Observation, slab_before), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
}

void fill_input(const InputSpec& spec, Matrix matrix, bool k_major, std::uint16_t* out, cudaStream_t stream,
                std::int64_t ld) {
  const std::int64_t count = input_count(spec, matrix);
  fill_kernel<<<blocks_for(count), kThreads, 0, stream>>>(spec, stored_matrix(spec, matrix, k_major, ld), out, count);
  check(cudaGetLastError(), "fill_kernel");
}

void fill_output(const InputSpec& spec, std::int64_t ldc, std::uint16_t* out, cudaStream_t stream) {
  const std::int64_t count = spec.m * spec.n;
  fill_output_kernel<<<blocks_for(count), kThreads, 0, stream>>>(spec, ldc, out, count);
  check(cudaGetLastError(), "fill_output_kernel");
}

void paint_gaps(std::uint16_t* matrix, const Gaps& gaps, std::uint64_t key, cudaStream_t stream) {
  const std::int64_t count = gaps.count();
  if (count == 0) return;
  paint_gaps_kernel<<<blocks_for(count), kThreads, 0, stream>>>(matrix, gaps, key, count);
  check(cudaGetLastError(), "paint_gaps_kernel");
}

void count_gap_damage(const std::uint16_t* matrix, const Gaps& gaps, std::uint64_t key, Totals* totals,
                      cudaStream_t stream) {
  const std::int64_t count = gaps.count();
  if (count == 0) return;
  gap_damage_kernel<<<blocks_for(count), kThreads, 0, stream>>>(matrix, gaps, key, count, totals);
  check(cudaGetLastError(), "gap_damage_kernel");
}

void count_changed_input(const InputSpec& spec, Matrix matrix, bool k_major, const std::uint16_t* stored,
                         Totals* totals, cudaStream_t stream, std::int64_t ld) {
  const std::int64_t count = input_count(spec, matrix);
  changed_kernel<<<blocks_for(count), kThreads, 0, stream>>>(spec, stored_matrix(spec, matrix, k_major, ld), stored,
                                                             count, totals);
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
  pattern_kernel<<<blocks_for((count + 3) / 4), kThreads, 0, stream>>>(out, count, pattern);
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

void judge_output(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec,
                  const Judging& judging, Totals* totals, cudaStream_t stream) {
  const std::int64_t count = spec.m * spec.n;
  judge_kernel<<<blocks_for(count), kThreads, 0, stream>>>(c, {reference, spec, judging}, count, totals);
  check(cudaGetLastError(), "judge_kernel");
}

void inspect_output(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec,
                    const Judging& judging, std::uint16_t poison, Observation* observation, cudaStream_t stream) {
  const std::int64_t count = spec.m * spec.n;
  inspect_kernel<<<blocks_for(count), kThreads, 0, stream>>>(c, {reference, spec, judging}, count, poison, observation);
  check(cudaGetLastError(), "inspect_kernel");
}

void mask_reference(double* values, std::int64_t count, std::uint64_t key, int which, cudaStream_t stream) {
  mask_kernel<<<blocks_for(count), kThreads, 0, stream>>>(reinterpret_cast<std::uint64_t*>(values), count, key, which);
  check(cudaGetLastError(), "mask_kernel");
}

void hash_slab(const std::uint16_t* slab, std::int64_t slab_words, std::int64_t skip_begin, std::int64_t skip_end,
               std::uint64_t key, unsigned long long* hash, cudaStream_t stream) {
  const std::int64_t head = skip_begin / 4, tail = skip_end / 4, total = slab_words / 4;
  const std::uint64_t tail_mask = ~0ULL << (16 * (skip_end % 4));
  slab_hash_kernel<<<blocks_for(head + total - tail), kThreads, 0, stream>>>(
      reinterpret_cast<const std::uint64_t*>(slab), head, tail, tail_mask, total, key, hash);
  check(cudaGetLastError(), "slab_hash_kernel");
}

void scatter_pattern(std::uint16_t* out, std::int64_t count, std::uint16_t pattern, const inputs::Holes& holes,
                     cudaStream_t stream) {
  holes_kernel<<<blocks_for(count), kThreads, 0, stream>>>(out, count, pattern, holes);
  check(cudaGetLastError(), "holes_kernel");
}

void hash_ranges(const HashRanges& ranges, std::uint64_t key, double share, unsigned long long* hashes,
                 cudaStream_t stream) {
  const std::int64_t blocks = ranges.first_blocks[ranges.count];
  if (blocks == 0) return;
  const std::uint64_t highest = share >= 1 ? ~0ULL : static_cast<std::uint64_t>(share * 0x1p64);
  const std::int64_t warps = (blocks + kBlocksAWarp - 1) / kBlocksAWarp;
  range_hash_kernel<<<blocks_for(32 * (warps < kHashWarps ? warps : kHashWarps)), kThreads, 0, stream>>>(
      ranges, key, highest, hashes);
  check(cudaGetLastError(), "range_hash_kernel");
}

void gather_parts(const ImagePart* parts, int count, std::byte* image, cudaStream_t stream) {
  if (count == 0) return;
  gather_kernel<<<count, kThreads, 0, stream>>>(parts, image);
  check(cudaGetLastError(), "gather_kernel");
}

void scatter_parts(const ImagePart* parts, int count, const std::byte* image, cudaStream_t stream) {
  if (count == 0) return;
  scatter_kernel<<<count, kThreads, 0, stream>>>(parts, image);
  check(cudaGetLastError(), "scatter_kernel");
}

// A block that takes all shared memory is alone on its multiprocessor; two each, should one be done before the last
// multiprocessor has got its first.
void scrub_shared_memory(int multiprocessors, std::int64_t smem_bytes, cudaStream_t stream) {
  const auto bytes = static_cast<int>(smem_bytes);
  check(cudaFuncSetAttribute(scrub_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "cudaFuncSetAttribute");
  scrub_kernel<<<2 * multiprocessors, 1024, smem_bytes, stream>>>(bytes / 4);
  check(cudaGetLastError(), "scrub_kernel");
}

void scrub_local_memory(int multiprocessors, cudaStream_t stream) {
  int device = 0, threads = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device), "cudaDeviceGetAttribute");
  scrub_local_kernel<<<threads / kScrubThreads * multiprocessors, kScrubThreads, 0, stream>>>();
  check(cudaGetLastError(), "scrub_local_kernel");
}

void hold_stream_until(const unsigned* opened, unsigned ticket, double longest_us, cudaStream_t stream) {
  gate_kernel<<<1, 1, 0, stream>>>(opened, ticket, static_cast<unsigned long long>(1e3 * longest_us));
  check(cudaGetLastError(), "gate_kernel");
}

void read_through(const void* memory, std::int64_t bytes, unsigned* sink, cudaStream_t stream) {
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(uint4));
  read_kernel<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<const uint4*>(memory), count, sink);
  check(cudaGetLastError(), "read_kernel");
}

int resident_clusters(int blocks, std::int64_t smem_bytes) {
  cudaLaunchAttribute shape{};
  shape.id = cudaLaunchAttributeClusterDimension;
  shape.val.clusterDim.x = static_cast<unsigned>(blocks);
  shape.val.clusterDim.y = shape.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(static_cast<unsigned>(blocks));
  launch.blockDim = dim3(kThreads);
  launch.dynamicSmemBytes = static_cast<std::size_t>(smem_bytes);
  launch.attrs = &shape;
  launch.numAttrs = 1;
  int clusters = 0;
  const bool known =
      cudaFuncSetAttribute(idle_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem_bytes)) ==
          cudaSuccess &&
      cudaFuncSetAttribute(idle_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess &&
      cudaOccupancyMaxActiveClusters(&clusters, idle_kernel, &launch) == cudaSuccess;
  if (!known) cudaGetLastError();  // not an error of what comes next
  return known ? clusters : 0;
}

}  // namespace warpsmith::cuda
