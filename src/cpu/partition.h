// Balanced partitions: `size` items in `parts` runs whose lengths differ by at most one.
#pragma once

#include <cstdint>

namespace warpsmith::cpu {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

constexpr std::int64_t part_begin(std::int64_t size, std::int64_t parts, std::int64_t part) {
  return size * part / parts;
}
constexpr Range part_range(std::int64_t size, std::int64_t parts, std::int64_t part) {
  return {part_begin(size, parts, part), part_begin(size, parts, part + 1)};
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace warpsmith::cpu
