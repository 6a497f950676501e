// The evaluator's own kernels: inputs, red zones, reference conversion, judging. Host-callable; all work is queued on
// the stream and nothing is waited for. Throws CudaError.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "evaluate/inputs.h"
#include "evaluate/judge.h"

namespace warpsmith::cuda {

// What the counting kernels add up, in device memory. `first` is the least index of a bad item.
struct Totals {
  unsigned long long bad;
  unsigned long long first;
  unsigned long long worst_bits;  // largest error ratio, a double's bits (non-negative doubles order as integers)
  unsigned long long misrounded;  // elements of C that are not the correctly rounded result
};
void clear_totals(Totals* totals, cudaStream_t stream);

// What one gate step adds up, in device memory, for a single read-back.
struct Observation {
  Totals judged;
  unsigned long long unwritten;    // elements of C that hold the poison
  unsigned long long output_hash;  // of C's positions and bits
  unsigned long long slab_after;   // hash of all but C after the run
  Totals workspace_zones;          // damage beside the workspace
  Totals workspace_dirty;          // words of a workspace that must be left cleared
  Totals output_gaps;              // damage between C's rows
  unsigned long long slab_before;  // hash of all but C before the run; clear_observation() leaves it
};
void clear_observation(Observation* observation, cudaStream_t stream);

// A reference as it lies in device memory: m x n doubles each, row-major, every one masked with random bits that only
// the judging kernels are given. A candidate that finds it finds noise.
struct MaskedReference {
  const std::uint64_t* c64 = nullptr;
  const std::uint64_t* magnitudes = nullptr;
  std::uint64_t key = 0;
};
WARPSMITH_HOST_DEVICE inline std::uint64_t reference_mask(std::uint64_t key, std::int64_t index, int which) {
  return inputs::mix(key + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(2 * index + which + 1));
}
// Masks `count` doubles in place; again: unmasks them. which: 0 of c64, 1 of magnitudes.
void mask_reference(double* values, std::int64_t count, std::uint64_t key, int which, cudaStream_t stream);

enum class Matrix { a, b };

// Writes the input matrix as stored: row-major with k_major telling whether k is the column index. ld: elements from
// row to row, 0 for packed ones; what lies between rows is left alone.
void fill_input(const InputSpec& spec, Matrix matrix, bool k_major, std::uint16_t* out, cudaStream_t stream,
                std::int64_t ld = 0);
// Counts elements that no longer hold their input.
void count_changed_input(const InputSpec& spec, Matrix matrix, bool k_major, const std::uint16_t* stored,
                         Totals* totals, cudaStream_t stream, std::int64_t ld = 0);
// Writes what C holds before a run with beta: input_c().
void fill_output(const InputSpec& spec, std::int64_t ldc, std::uint16_t* out, cudaStream_t stream);

// What lies between the rows of a matrix: NaN of both element types, with bits that depend on the place and on `key`.
struct Gaps {
  std::int64_t rows = 0, columns = 0, ld = 0;
  std::int64_t count() const { return (rows - 1) * (ld - columns); }
};
void paint_gaps(std::uint16_t* matrix, const Gaps& gaps, std::uint64_t key, cudaStream_t stream);
void count_gap_damage(const std::uint16_t* matrix, const Gaps& gaps, std::uint64_t key, Totals* totals,
                      cudaStream_t stream);

// FP64 copies of A's rows [first_row, first_row + rows), m x k row-major, or of all of B, k x n row-major; absolute
// values when asked.
void widen_input(const InputSpec& spec, Matrix matrix, std::int64_t first_row, std::int64_t rows, bool absolute,
                 double* out, cudaStream_t stream);
// Recomputes `samples` elements of C by plain dot products and counts those where the reference is off by more than
// FP64 rounding, or differs in NaN or infinity.
void count_bad_references(const InputSpec& spec, const double* c64, const double* magnitudes, int samples,
                          Totals* totals, cudaStream_t stream);

void set_pattern(std::uint16_t* out, std::int64_t count, std::uint16_t pattern, cudaStream_t stream);
void count_equal(const std::uint16_t* values, std::int64_t count, std::uint16_t pattern, Totals* totals,
                 cudaStream_t stream);
void count_unequal(const std::uint16_t* values, std::int64_t count, std::uint16_t pattern, Totals* totals,
                   cudaStream_t stream);

// Red zones hold a pattern that depends on the place in the slab. Offsets count 16-bit words from the slab's start.
void paint_zone(std::uint16_t* slab, std::int64_t begin, std::int64_t end, std::uint64_t key, cudaStream_t stream);
void count_zone_damage(const std::uint16_t* slab, std::int64_t begin, std::int64_t end, std::uint64_t key,
                       Totals* totals, cudaStream_t stream);

// What the judging of an output depends on beside its inputs and their reference.
struct Judging {
  Criterion criterion = Criterion::bound;
  AccumulatorType accumulator = AccumulatorType::f32;
  bool scaled = false;
  Factors factors{};           // of a scaled problem
  std::uint64_t old_seed = 0;  // of what C held before, input_c()
  std::int64_t ldc = 0;        // elements from row to row of C; 0: packed
};

// C against the reference.
void judge_output(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec,
                  const Judging& judging, Totals* totals, cudaStream_t stream);
inline void judge_output(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec,
                         Criterion criterion, Totals* totals, cudaStream_t stream) {
  Judging judging;
  judging.criterion = criterion;
  judge_output(c, reference, spec, judging, totals, stream);
}
// The same, with everything else that a gate asks of C: judged, unwritten, output_hash.
void inspect_output(const std::uint16_t* c, const MaskedReference& reference, const InputSpec& spec,
                    const Judging& judging, std::uint16_t poison, Observation* observation, cudaStream_t stream);
// What is expected of element (row, column), of which the reference says c64 and magnitude.
WARPSMITH_HOST_DEVICE inline Expected expected_element(const InputSpec& spec, const Judging& judging, std::int64_t row,
                                                       std::int64_t column, double c64, double magnitude) {
  const Expected sum = expected_sum(c64, magnitude, {spec.k, judging.accumulator, term_spread(spec.kind)});
  if (!judging.scaled) return sum;
  InputSpec before = spec;
  before.seed = judging.old_seed;
  const double old = judging.factors.beta == 0 ? 0.0 : element_to_double(input_c(before, row, column), spec.element);
  return expected_scaled(sum, magnitude, judging.factors, old);
}

// Adds a keyed hash of positions and values of a slab's words [0, slab_words), which is a multiple of 4, to *hash,
// leaving out [skip_begin, skip_end); skip_begin is a multiple of 4.
void hash_slab(const std::uint16_t* slab, std::int64_t slab_words, std::int64_t skip_begin, std::int64_t skip_end,
               std::uint64_t key, unsigned long long* hash, cudaStream_t stream);

// Device memory in ranges of whole words, each made of blocks of kBlockWords, the last one perhaps shorter.
struct HashRanges {
  static constexpr int kMost = 120;
  static constexpr std::int64_t kBlockWords = 256;
  const std::uint64_t* words[kMost] = {};
  std::int64_t counts[kMost] = {};
  std::int64_t first_blocks[kMost + 1] = {};  // of each range, where all are counted through
  int count = 0;

  void add(const void* begin, std::int64_t words_in_it) {
    words[count] = static_cast<const std::uint64_t*>(begin);
    counts[count] = words_in_it;
    first_blocks[count + 1] = first_blocks[count] + (words_in_it + kBlockWords - 1) / kBlockWords;
    ++count;
  }
};
// Adds a keyed hash of places and values of each range to hashes[0], hashes[1] .. share: of the blocks that are read;
// which ones they are follows from their addresses and the key.
void hash_ranges(const HashRanges& ranges, std::uint64_t key, double share, unsigned long long* hashes,
                 cudaStream_t stream);

// Bytes of device memory and their place in an image, which is aligned to 16 bytes.
struct ImagePart {
  std::byte* memory = nullptr;
  std::uint64_t offset = 0, bytes = 0;
};
// Copies all parts, themselves listed in device memory, into the image, or what the image holds of them back. For many
// short parts: one launch in place of a copy each.
void gather_parts(const ImagePart* parts, int count, std::byte* image, cudaStream_t stream);
void scatter_parts(const ImagePart* parts, int count, const std::byte* image, cudaStream_t stream);

// The pattern in the holes of count elements, the rest as it is.
void scatter_pattern(std::uint16_t* out, std::int64_t count, std::uint16_t pattern, const inputs::Holes& holes,
                     cudaStream_t stream);

// Fills the shared memory of every multiprocessor with NaN, so that no launch finds what an earlier one left there.
// smem_bytes: the largest that one block may have.
void scrub_shared_memory(int multiprocessors, std::int64_t smem_bytes, cudaStream_t stream);
// The same of the local memory of every thread that the device can run at once, as far as a candidate may have any.
constexpr int kMostLocalBytes = 4096;
void scrub_local_memory(int multiprocessors, cudaStream_t stream);

// Keeps the stream busy until *opened, in host memory that the device can read, is `ticket`, or for `longest_us`.
void hold_stream_until(const unsigned* opened, unsigned ticket, double longest_us, cudaStream_t stream);

// Reads `bytes` (a multiple of 16) once, so that the L2 cache holds nothing else.
void read_through(const void* memory, std::int64_t bytes, unsigned* sink, cudaStream_t stream);

// How many clusters of `blocks` blocks, each with `smem_bytes` of shared memory, run at once; 0 where the device cannot
// say. Of the current device.
int resident_clusters(int blocks, std::int64_t smem_bytes);

}  // namespace warpsmith::cuda
