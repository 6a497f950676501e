// Element by element, rows in pieces of BLOCK columns.
#include <cmath>

extern "C" void swiglu(const Arguments& t) {
  const auto beta = static_cast<float>(t.beta);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* gates = t.x + row * 2 * t.columns;
    const f16* ups = gates + t.columns;
    for (std::int64_t first = 0; first < t.columns; first += BLOCK) {
      const std::int64_t last = first + BLOCK < t.columns ? first + BLOCK : t.columns;
      for (std::int64_t i = first; i < last; ++i) {
        const auto gate = static_cast<float>(gates[i]), up = static_cast<float>(ups[i]);
        t.y[row * t.columns + i] = static_cast<f16>(gate / (1 + std::exp(-beta * gate)) * up);
      }
    }
  }
}
