// Two passes over a row; UNROLL independent sums.
#include <cmath>

extern "C" void rmsnorm(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* x = t.x + row * t.columns;
    f16* y = t.y + row * t.columns;
    float sums[UNROLL] = {};
    std::int64_t i = 0;
    for (; i + UNROLL <= t.columns; i += UNROLL) {
      for (int j = 0; j < UNROLL; ++j) sums[j] += static_cast<float>(x[i + j]) * static_cast<float>(x[i + j]);
    }
    float sum = 0;
    for (; i < t.columns; ++i) sum += static_cast<float>(x[i]) * static_cast<float>(x[i]);
    for (const float part : sums) sum += part;
    const float factor = 1 / std::sqrt(sum / static_cast<float>(t.columns) + static_cast<float>(t.epsilon));
    for (i = 0; i < t.columns; ++i) {
      y[i] = static_cast<f16>(static_cast<float>(x[i]) * factor * static_cast<float>(t.weight[i]));
    }
  }
}
