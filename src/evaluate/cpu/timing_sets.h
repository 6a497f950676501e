// Operand sets for cold timing: as many copies of a problem's operands as keep every launch's out of the caches, all
// with N(0,1) data. Set s holds A with its rows rotated, so its result is the reference's with rows rotated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "evaluate/inputs.h"
#include "problem/problem.h"

namespace warpsmith {

class TimingSets {
 public:
  // At least twice `cache_bytes` of A, B and C together; a single set where one alone is that large.
  TimingSets(const Problem& problem, std::uint64_t seed, std::int64_t cache_bytes);

  int count() const { return count_; }
  std::int64_t row_shift(int set) const;

  // Operands in either storage order; made when first asked for.
  const std::uint16_t* a(bool k_major, int set);
  const std::uint16_t* b(bool k_major, int set);
  // Results: the candidate's and the baselines' lie apart.
  enum class Owner { candidate, baseline };
  std::uint16_t* c(Owner owner, int set);
  void poison(Owner owner, std::uint16_t pattern);

 private:
  // Equal matrices in one allocation, each on a cache line of its own.
  class Slab {
   public:
    Slab(int count, std::int64_t elements);
    std::uint16_t* at(int set) { return start_ + set * stride_; }

   private:
    std::vector<std::uint16_t> memory_;
    std::uint16_t* start_ = nullptr;
    std::int64_t stride_ = 0;
  };

  Problem problem_;
  InputSpec spec_;
  int count_ = 1;
  std::optional<Slab> a_[2], b_[2], c_[2];
};

}  // namespace warpsmith
