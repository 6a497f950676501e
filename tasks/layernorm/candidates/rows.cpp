// Mean first, then the squares of what differs from it; UNROLL independent sums.
#include <cmath>

extern "C" void layernorm(const Arguments& t) {
  const auto count = static_cast<float>(t.columns);
  float* values = static_cast<float*>(t.workspace);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* x = t.x + row * t.columns;
    float sums[UNROLL] = {}, squares[UNROLL] = {};
    const std::int64_t whole = t.columns / UNROLL * UNROLL;
    for (std::int64_t i = 0; i < t.columns; ++i) values[i] = static_cast<float>(x[i]);
    for (std::int64_t i = 0; i < whole; i += UNROLL) {
      for (int j = 0; j < UNROLL; ++j) sums[j] += values[i + j];
    }
    float sum = 0;
    for (std::int64_t i = whole; i < t.columns; ++i) sum += values[i];
    for (const float part : sums) sum += part;
    const float mean = sum / count;
    for (std::int64_t i = 0; i < whole; i += UNROLL) {
      for (int j = 0; j < UNROLL; ++j) squares[j] += (values[i + j] - mean) * (values[i + j] - mean);
    }
    float square = 0;
    for (std::int64_t i = whole; i < t.columns; ++i) square += (values[i] - mean) * (values[i] - mean);
    for (const float part : squares) square += part;
    const float factor = 1 / std::sqrt(square / count + static_cast<float>(t.epsilon));
    for (std::int64_t i = 0; i < t.columns; ++i) {
      const float y = (values[i] - mean) * factor * static_cast<float>(t.weight[i]) + static_cast<float>(t.bias[i]);
      t.y[row * t.columns + i] = static_cast<f16>(y);
    }
  }
}
