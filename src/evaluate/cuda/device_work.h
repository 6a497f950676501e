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
};
void clear_totals(Totals* totals, cudaStream_t stream);

enum class Matrix { a, b };

// Writes the input matrix as stored: row-major with k_major telling whether k is the column index.
void fill_input(const InputSpec& spec, Matrix matrix, bool k_major, std::uint16_t* out, cudaStream_t stream);
// Counts elements that no longer hold their input.
void count_changed_input(const InputSpec& spec, Matrix matrix, bool k_major, const std::uint16_t* stored,
                         Totals* totals, cudaStream_t stream);

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

// C against the reference.
void judge_output(const std::uint16_t* c, const double* c64, const double* magnitudes, const InputSpec& spec,
                  Criterion criterion, Totals* totals, cudaStream_t stream);

// Adds a hash of position and bits of every element to *hash.
void hash_output(const std::uint16_t* c, std::int64_t count, unsigned long long* hash, cudaStream_t stream);

// Reads `bytes` (a multiple of 16) once, so that the L2 cache holds nothing else.
void read_through(const void* memory, std::int64_t bytes, unsigned* sink, cudaStream_t stream);

}  // namespace warpsmith::cuda
