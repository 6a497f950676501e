// Three passes over a row that is kept in float; UNROLL independent sums.
#include <cmath>

extern "C" void softmax(const Arguments& t) {
  const auto scale = static_cast<float>(t.scale);
  float* row_values = static_cast<float*>(t.workspace);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* x = t.x + row * t.columns;
    f16* y = t.y + row * t.columns;
    float largest = -INFINITY;
    for (std::int64_t i = 0; i < t.columns; ++i) {
      row_values[i] = static_cast<float>(x[i]);
      largest = row_values[i] > largest ? row_values[i] : largest;
    }
    float sums[UNROLL] = {};
    std::int64_t i = 0;
    for (; i + UNROLL <= t.columns; i += UNROLL) {
      for (int j = 0; j < UNROLL; ++j) sums[j] += row_values[i + j] = std::exp(scale * (row_values[i + j] - largest));
    }
    float sum = 0;
    for (; i < t.columns; ++i) sum += row_values[i] = std::exp(scale * (row_values[i] - largest));
    for (const float part : sums) sum += part;
    const float inverse = 1 / sum;
    for (i = 0; i < t.columns; ++i) y[i] = static_cast<f16>(row_values[i] * inverse);
  }
}
