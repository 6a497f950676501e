// FP64 references: what every element of C may be, computed once per input and kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/backend.h"
#include "evaluate/inputs.h"
#include "evaluate/judge.h"
#include "problem/problem.h"

namespace warpsmith {

// A and B as stored (Problem::layout), made from an input specification on all hardware threads.
void generate_a(const InputSpec& spec, bool k_major, std::uint16_t* a);
void generate_b(const InputSpec& spec, bool k_major, std::uint16_t* b);

// Rows whose reference is computed: all, or, beyond kFullFlops or kFullElements, a sample of full rows that includes
// the first and last ones and one from each of equal stretches in between, drawn from the seed.
inline constexpr double kFullFlops = 8.6e9;
inline constexpr std::int64_t kFullElements = 1 << 22;
std::vector<std::int64_t> reference_rows(const Problem& problem, std::uint64_t seed);

class Reference {
 public:
  // a, b as stored by `problem`. Computes c64 and sum |a||b| of the rows in FP64.
  Reference(const Problem& problem, std::vector<std::int64_t> rows, const std::uint16_t* a, const std::uint16_t* b);

  // Row r of c holds logical row (r + row_shift) mod m.
  CheckReport check(Criterion criterion, const std::uint16_t* c, std::int64_t row_shift = 0) const;
  // "" or the sentence that declares the sample.
  std::string declaration() const;

 private:
  void check_row(Criterion criterion, std::size_t row, const std::uint16_t* c, std::int64_t c_row,
                 CheckReport& report) const;

  Problem problem_;
  std::vector<std::int64_t> rows_;
  // Per referenced element, row by row.
  std::vector<float> value_;           // c64
  std::vector<float> inverse_;         // 1 / (half ulp + gamma(K) sum|a||b|); 0 where an error ratio has no meaning
  std::vector<std::int16_t> lo_, hi_;  // ordered_key() of the acceptable ends; lo > hi: only NaN is right
  std::vector<std::uint16_t> exact_;   // c64 rounded to the element type
};

}  // namespace warpsmith
