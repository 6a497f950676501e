// Random numbers whose sequence is the same with every standard library: mt19937_64 is specified to the bit, the
// standard distributions are not.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace warpsmith {

// A bijective scrambling of 64 bits (the finaliser of SplitMix64).
inline std::uint64_t mix64(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : engine_(mix64(seed)) {}

  std::uint64_t bits() { return engine_(); }

  // Uniform in [0, bound). Precondition: bound > 0. Draws from the incomplete last interval are rejected.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t excess = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t draw = bits();
    while (draw < excess) draw = bits();
    return draw % bound;
  }

  // An index into a container of `size` elements.
  std::size_t index(std::size_t size) { return static_cast<std::size_t>(below(size)); }

  // Uniform in [0, 1), 53 bits.
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[index(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace warpsmith
