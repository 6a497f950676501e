// Vectorised conversion between 16-bit elements and FP32 (round to nearest even), AVX-512 where the CPU has it.
#pragma once

#include <cstdint>

#include "problem/problem.h"

namespace warpsmith {

void elements_to_floats(const std::uint16_t* source, float* destination, std::int64_t count, ElementType type);
void floats_to_elements(const float* source, std::uint16_t* destination, std::int64_t count, ElementType type);

}  // namespace warpsmith
