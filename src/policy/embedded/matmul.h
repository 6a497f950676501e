// The arithmetic of the embedded model's inference: vectorised for the CPU that it runs on (AVX-512, AVX2 or plain),
// single-threaded, sums in a fixed order for one instruction set.
#pragma once

#include <cstddef>

namespace warpsmith::embedded {

struct Arithmetic {
  const char* name;
  // y[rows][columns] = x[rows][depth] w[depth][columns] (+ y), all row-major and packed.
  void (*multiply)(const float* x, std::size_t rows, std::size_t depth, const float* w, std::size_t columns, float* y,
                   bool add);
  // One head's attention: out[size] = softmax(query . keys / sqrt(size)) values over `count` positions, `stride` floats
  // apart. scores: room for `count` floats.
  void (*attend)(const float* query, const float* keys, const float* values, std::size_t count, std::size_t stride,
                 std::size_t size, float* scores, float* out);
  float (*dot)(const float* a, const float* b, std::size_t count);
};

const Arithmetic& arithmetic();           // the fastest that this CPU runs
const Arithmetic& portable_arithmetic();  // the same without vector extensions, for comparison

}  // namespace warpsmith::embedded
