// Element by element, rows in pieces of BLOCK columns.
#include <cmath>

extern "C" void gelu(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    for (std::int64_t first = 0; first < t.columns; first += BLOCK) {
      const std::int64_t last = first + BLOCK < t.columns ? first + BLOCK : t.columns;
      for (std::int64_t i = first; i < last; ++i) {
        const float z = static_cast<float>(t.x[row * t.columns + i]) + static_cast<float>(t.bias[i]);
        float share = 0;
        if (t.tanh != 0) {
          share = 1 / (1 + std::exp(-2 * 0.7978845608f * (z + 0.044715f * z * z * z)));
        } else {
          share = 0.5f * std::erfc(-0.7071067812f * z);
        }
        t.y[row * t.columns + i] = static_cast<f16>(z * share);
      }
    }
  }
}
