// Builds the sets from one generated A and B.
#include "evaluate/cpu/timing_sets.h"

#include <algorithm>

#include "evaluate/cpu/reference.h"

namespace warpsmith {

namespace {

constexpr std::int64_t kMostBytes = 2LL << 30;  // of A, B and C together
constexpr std::int64_t kLine = 32;              // elements of a 64-byte cache line
constexpr std::int64_t kRotation = 7;           // rows by which each set's A is turned further

}  // namespace

TimingSets::Slab::Slab(int count, std::int64_t elements) {
  // One line between neighbours keeps sets of a power-of-two size off the same cache sets.
  stride_ = (elements + kLine - 1) / kLine * kLine + kLine;
  memory_.resize(static_cast<std::size_t>(stride_ * count + kLine));
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  start_ = memory_.data() + (64 - address % 64) % 64 / 2;
}

TimingSets::TimingSets(const Problem& problem, std::uint64_t seed, std::int64_t cache_bytes)
    : problem_(problem), spec_{InputKind::normal, seed, problem.m, problem.n, problem.k, problem.element} {
  const auto set_bytes = static_cast<std::int64_t>(problem.bytes());
  const std::int64_t wanted = (2 * cache_bytes + set_bytes - 1) / set_bytes;
  count_ = static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, kMostBytes / set_bytes)));
}

std::int64_t TimingSets::row_shift(int set) const { return set * kRotation % problem_.m; }

const std::uint16_t* TimingSets::a(bool k_major, int set) {
  auto& slab = a_[k_major ? 1 : 0];
  if (!slab) {
    slab.emplace(count_, problem_.m * problem_.k);
    std::vector<std::uint16_t> base(static_cast<std::size_t>(problem_.m * problem_.k));
    generate_a(spec_, k_major, base.data());
    // Rotating the rows of A turns it as a whole (k-major) or within each stored row.
    const std::int64_t unit = k_major ? problem_.k : 1, lines = k_major ? 1 : problem_.k;
    const std::int64_t length = problem_.m * unit;
    for (int s = 0; s < count_; ++s) {
      for (std::int64_t line = 0; line < lines; ++line) {
        const std::uint16_t* from = base.data() + line * length;
        std::rotate_copy(from, from + row_shift(s) * unit, from + length, slab->at(s) + line * length);
      }
    }
  }
  return slab->at(set);
}

const std::uint16_t* TimingSets::b(bool k_major, int set) {
  auto& slab = b_[k_major ? 1 : 0];
  if (!slab) {
    const std::int64_t elements = problem_.k * problem_.n;
    slab.emplace(count_, elements);
    generate_b(spec_, k_major, slab->at(0));
    for (int s = 1; s < count_; ++s) std::copy_n(slab->at(0), elements, slab->at(s));
  }
  return slab->at(set);
}

std::uint16_t* TimingSets::c(Owner owner, int set) {
  auto& slab = c_[static_cast<int>(owner)];
  if (!slab) slab.emplace(count_, problem_.m * problem_.n);
  return slab->at(set);
}

void TimingSets::poison(Owner owner, std::uint16_t pattern) {
  for (int s = 0; s < count_; ++s) std::fill_n(c(owner, s), problem_.m * problem_.n, pattern);
}

}  // namespace warpsmith
