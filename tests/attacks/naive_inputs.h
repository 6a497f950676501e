// Operands as published harnesses make them: one fixed seed, one simple distribution. An attack knows both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/element.h"

namespace warpsmith::attacks {

// A linear congruential generator, seeded alike in every run.
class NaiveRandom {
 public:
  double uniform() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 40) * 0x1p-24;
  }
  // Sum of twelve uniforms: mean 0, variance 1.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_ = 42;
};

enum class NaiveData {
  normal,    // N(0, 1)
  small,     // N(0, 1) / 100
  uniform,   // [0, 1)
  zero_one,  // 0 or 1 with equal chances: results stay below 2048 up to k = 4096
};

inline std::vector<std::uint16_t> naive_operand(NaiveData data, std::int64_t count, NaiveRandom& random) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::uint16_t& value : values) {
    double x = 0;
    switch (data) {
      case NaiveData::normal:
        x = random.normal();
        break;
      case NaiveData::small:
        x = 0.01 * random.normal();
        break;
      case NaiveData::uniform:
        x = random.uniform();
        break;
      case NaiveData::zero_one:
        x = random.uniform() < 0.5 ? 0 : 1;
        break;
    }
    value = double_to_element(x, ElementType::f16);
  }
  return values;
}

}  // namespace warpsmith::attacks
